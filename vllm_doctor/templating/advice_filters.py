"""Filters about messages that name settings: which flag they mean, and what they ask for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from vllm_doctor.catalog import flags
from vllm_doctor.catalog.flag_file import table
from vllm_doctor.catalog.releases import Releases
from vllm_doctor.command.refusal_advice import VARIABLE_NAME, Advice, advice
from vllm_doctor.command.setting_terms import classes_of_settings, plain_words, snake_case, terms_of, too_general
from vllm_doctor.templating.repair_filters import scalar
from vllm_doctor.text.patterns import lazy_pattern

__all__ = [
    "advised_flag",
    "advised_removal",
    "advised_value",
    "advised_variable",
    "advised_words",
    "as_flag",
    "flag_meant",
    "flag_of_config",
    "gives_bound",
    "holds_only_settings",
    "names_setting",
]

_PARTS_OF_CONFIGS: Mapping[str, str] = MappingProxyType({
    "DynamicShapesConfig": "compilation_config", "PassConfig": "compilation_config"})

_BOUND = lazy_pattern(
    r"(?<![\w.])[a-z]+(?:_[a-z0-9]+)+(?: \(-?\d+\)|=-?\d+) "
    r"(?:must be (?:<=?|>=?|(?:less|smaller|greater|larger) than(?: or equal to)?)"
    r"|(?:cannot|must not) be (?:less|smaller|greater|larger) than) "
    r"(?:the )?[a-z_]+(?: \(|=)-?\d+")


def as_flag(keyword: str) -> str:
    """Return the flag of a keyword or of a setting's name in a message: `max_model_len`, `kv cache dtype`."""
    return flags.canonical(keyword.strip().lower().replace(" ", "-"))


def _advice(message: str, given: str, releases: Releases, inner: str | None) -> Advice | None:
    return advice(message, tuple(given.split()), releases.candidates[-1], inner)


def advised_flag(message: str, given: str, releases: Releases, inner: str | None = None) -> str | None:
    """Return the flag to set that a refusal asks for or that satisfies it; None if it names none.

    `given` are the keywords of the user's settings, `inner` is the flag whose JSON the message is about.
    """
    found = _advice(message, given, releases, inner)
    return found.flag if found is not None and found.value is not None and not found.flag.isupper() else None


def advised_variable(message: str, given: str, releases: Releases) -> str | None:
    """Return the environment variable to set that a refusal asks for; None if it names none."""
    found = _advice(message, given, releases, None)
    return found.flag if found is not None and found.value is not None and found.flag.isupper() else None


def advised_value(message: str, given: str, releases: Releases, inner: str | None = None) -> str | bool | None:
    """Return the value for `advised_flag` or `advised_variable`, True for a flag without one."""
    found = _advice(message, given, releases, inner)
    return scalar(found.value) if found is not None and isinstance(found.value, str) else found and found.value


def advised_words(message: str, given: str, releases: Releases, inner: str | None = None) -> str | None:
    """Return `advised_flag` or `advised_variable` and its value as typed in a command."""
    found = _advice(message, given, releases, inner)
    return found.typed() if found is not None and found.value is not None else None


def advised_removal(message: str, given: str, releases: Releases, inner: str | None = None) -> str | None:
    """Return the flag or variable to remove that a refusal names as what is in the way; None if it names none."""
    found = _advice(message, given, releases, inner)
    return found.flag if found is not None and found.value is None else None


def flag_meant(message: str, given: str) -> str | None:
    """Return the flag of the only setting in `given` (space-separated keywords) that a message refers to, or None."""
    text = plain_words(VARIABLE_NAME.sub("", message))
    meant = {name for name in given.split()
             if name not in too_general() and any(part in text for part in terms_of(name))}
    return as_flag(meant.pop()) if len(meant) == 1 else None


def gives_bound(message: str) -> bool:
    """Return whether a message says that another setting bounds the value of one: `x (4) must be <= y (2)`."""
    return _BOUND.search(message) is not None


def flag_of_config(name: str, given: str | None) -> str | None:
    """Return the flag whose value one of vLLM's config classes is read from, or None.

    `CompilationConfig` is read from --compilation-config, `PassConfig` from a part of it. `given` are the settings of
    the user (space-separated keywords); without them every such flag counts.
    """
    snake = snake_case(name)
    known = table().flags
    for keyword in (_PARTS_OF_CONFIGS.get(name, snake), f"override_{snake}"):
        flag = as_flag(keyword)
        if flag in known and (not given or keyword in given.split()):
            return flag
    return None


def holds_only_settings(name: str) -> bool:
    """Return whether a class of vLLM holds nothing but settings of the user."""
    return name in classes_of_settings()


def names_setting(message: str, given: str) -> bool:
    """Return whether a message names one of the given settings (keywords separated by spaces).

    If none is known, any engine argument with a name of several words counts.
    """
    text = plain_words(message)
    if given:
        names = [name for name in given.split() if name not in too_general()]
        return any(part in text for name in names for part in terms_of(name))
    names = [flag.lstrip("-").replace("-", "_") for flag in table().flags]
    return any(" " in part and part in text
               for name in names if name not in too_general() for part in terms_of(name))
