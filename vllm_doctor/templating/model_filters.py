"""Filters about model families: which parsers support their format, and whether a model is a base model."""

from __future__ import annotations

import re

from vllm_doctor.catalog import flags, model_names
from vllm_doctor.catalog.releases import Releases
from vllm_doctor.catalog.yaml_catalog import read_catalog
from vllm_doctor.text.patterns import lazy_pattern

__all__ = [
    "address_target",
    "architecture_meant",
    "are_of_a_missing_file",
    "is_base_model",
    "model_type_meant",
    "reasoning_parser_for",
    "release_with_architecture",
    "release_with_model_type",
    "tool_parser_for",
]

_FILE_ADDRESS = lazy_pattern(r"file://(?:localhost)?(?P<path>/\S+)")
_QUOTED_NAME = lazy_pattern(r"'([\w.]{1,400})'")
_IN_LAYER = lazy_pattern(r"(?P<layer>[\w.]{0,200}?(?:layers|blocks|h)\.\d{1,4})\.(?P<tensor>[\w.]{1,200})")
_PAGE_OF_MODEL = lazy_pattern(
    r"https?://[\w.-]+(?::\d+)?/(?:models/)?(?P<repository>[\w.-]+/[\w.-]+)(?:/(?:tree|blob|resolve|summary|files)\b\S*|/)?$")

_BASE = lazy_pattern(r"[-_]base$", re.IGNORECASE)
_CHAT = lazy_pattern(r"instruct|chat|[-_]it\b|[-_]it[-_]|assistant|wizardcoder|r1|qwq|thinking|reason|tool|hermes|"
                     r"vicuna|zephyr|alpaca|ft\b|sft|dpo|rlhf|gpt-oss|qwen-?3(?!.*base)|magistral|devstral",
                     re.IGNORECASE)


def are_of_a_missing_file(tensors: str, more: str = "") -> bool:
    """Return whether missing tensors (in quotes) show that a file of the checkpoint is missing.

    Where config.json gives too many layers, each extra layer lacks the same tensors and nothing else is missing; a
    missing file cuts through a layer, or has tensors outside of the layers as well.
    """
    by_layer: dict[str, set[str]] = {}
    names = _QUOTED_NAME.findall(f"{tensors} {more}")
    for name in names:
        if found := _IN_LAYER.fullmatch(name):
            by_layer.setdefault(found["layer"], set()).add(found["tensor"])
    in_layers = sum(map(len, by_layer.values()))
    return bool(by_layer) and (in_layers < len(set(names)) or len({frozenset(part) for part in by_layer.values()}) > 1)


def is_base_model(model: str) -> bool:
    """Return whether a repository name looks like a base model: nothing in it indicates chat or instruction tuning."""
    return "/" in model and not model.startswith("/") and (
        _BASE.search(model) is not None or not _CHAT.search(model))


def _parser(model: str, kind: str, flag: str, releases: Releases) -> str | None:
    known_flag = flags.lookup(flag)
    choices = known_flag.choices(releases.candidates[-1]) if known_flag is not None else ()
    for row in read_catalog("parsers.yaml")[kind]:
        if re.search(row["family"], model, re.IGNORECASE):
            return next((parser for parser in row["parsers"] if parser in choices), None)
    return None


def tool_parser_for(model: str, releases: Releases) -> str | None:
    """Return the --tool-call-parser of the model's family that the release has."""
    return _parser(model, "tool", "--tool-call-parser", releases)


def address_target(model: str) -> str | None:
    """Return what a web or file address given as the model stands for: `org/name`, or a path; None for another text."""
    if match := _FILE_ADDRESS.match(model):
        return match["path"]
    match = _PAGE_OF_MODEL.match(model)
    return match["repository"].removesuffix(".git") if match else None


def reasoning_parser_for(model: str, releases: Releases) -> str | None:
    """Return the --reasoning-parser of the model's family that the release has."""
    return _parser(model, "reasoning", "--reasoning-parser", releases)


def release_with_architecture(architecture: str, releases: Releases) -> str | None:
    """Return the first release with an architecture that the possible ones do not have; unknown if there is none."""
    return _newer(model_names.first_release("architectures", architecture), releases)


def release_with_model_type(model_type: str, releases: Releases) -> str | None:
    """Return the first release that reads a model type, if all possible ones are older; unknown if there is none."""
    return _newer(model_names.first_release("model_types", model_type), releases)


def architecture_meant(architecture: str) -> str | None:
    """Return the architecture that a misspelled one probably stands for; unknown if no release has a similar one."""
    return model_names.nearest("architectures", architecture)


def model_type_meant(model_type: str) -> str | None:
    """Return the model type that a misspelled one probably stands for; unknown if no release has a similar one."""
    return model_names.nearest("model_types", model_type)


def _newer(first: str | None, releases: Releases) -> str | None:
    return first if first is not None and releases.since(first) is False else None
