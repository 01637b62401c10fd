"""How vLLM's messages refer to a setting: the words of its name, or others (catalog/setting_terms.yaml)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vllm_doctor.catalog.yaml_catalog import read_catalog
from vllm_doctor.text.patterns import lazy_pattern

_WORD_START = lazy_pattern(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def too_general() -> Sequence[str]:
    """Return the settings that are essential to a command, or whose names occur in many messages."""
    names: Sequence[str] = read_catalog("setting_terms.yaml")["too_general"]
    return names


def classes_of_settings() -> Sequence[str]:
    """Return vLLM's classes that hold nothing but settings of the user."""
    names: Sequence[str] = read_catalog("setting_terms.yaml")["classes"]
    return names


def snake_case(name: str) -> str:
    """Return the name of a class as that of a setting: `kv_transfer_config` for KVTransferConfig."""
    return _WORD_START.sub("_", name).lower()


def plain_words(text: str) -> str:
    """Return a text in small letters with the words of names separated by blanks, as `terms_of` writes them."""
    return text.lower().replace("-", " ").replace("_", " ")


def terms_of(keyword: str) -> Sequence[str]:
    """Return the words, in lower case and separated by blanks, by which messages refer to a setting."""
    core = keyword.removeprefix("enable_").removesuffix("_size").replace("_", " ")
    subject = core.removesuffix(" config")
    listed: Mapping[str, Sequence[str]] = read_catalog("setting_terms.yaml")["terms"]
    return listed.get(keyword, (subject if " " in subject else core,))
