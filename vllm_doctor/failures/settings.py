"""What the user set that a failure belongs to or names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vllm_doctor.catalog import flags
from vllm_doctor.catalog.features import feature
from vllm_doctor.catalog.flag_file import table
from vllm_doctor.command.flags import keyword_of
from vllm_doctor.command.refusal_advice import VARIABLE_NAME
from vllm_doctor.command.setting_terms import plain_words, terms_of
from vllm_doctor.failures.model import Setting
from vllm_doctor.text.patterns import lazy_pattern

_FLAG = lazy_pattern(r"(?<![\w-])--[a-z][a-z0-9-]+")
_KEYWORD = lazy_pattern(r"\b[a-z]+(?:_[a-z0-9]+)+\b")
_LONGEST = 400
_MOST = 8


def settings_of(name: str | None, message: str, given: Mapping[str, Any], source: str) -> tuple[Setting, ...]:
    """Return the flags given that belong to a feature or that the message names.

    `given` has the values by keyword (`max_model_len`); `source` is where they were found.
    """
    known = feature(name) if name else None
    wanted = dict.fromkeys(known.flags if known else ())
    wanted.update(dict.fromkeys(_FLAG.findall(message)))
    wanted.update({"--" + word.replace("_", "-"): None for word in _KEYWORD.findall(message)})
    found: dict[str, Setting] = {}
    for spelling in wanted:
        keyword = keyword_of(spelling)
        if keyword in given:
            value, flag = given[keyword], flags.lookup(spelling)
            flag_name = flag.name if flag else spelling
            found[flag_name] = Setting(flag_name, "" if value is True else str(value)[:_LONGEST], source)
    return tuple(found.values())[:_MOST]


def names_a_setting(message: str) -> bool:
    """Return whether a message refers to a setting of vLLM, by its name or in words such as `tensor parallel`."""
    if VARIABLE_NAME.search(message) or any(map(flags.lookup, _FLAG.findall(message))):
        return True
    words = plain_words(message)
    keywords = (flag.keyword for name in table().flags if (flag := flags.lookup(name)) is not None)
    return any(" " in term and term in words for keyword in keywords if keyword for term in terms_of(keyword))
