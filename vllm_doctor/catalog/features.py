"""Recognize the feature of vLLM that failed (features.yaml)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from vllm_doctor.catalog.yaml_catalog import read_catalog
from vllm_doctor.text.patterns import lazy_pattern

_LONGEST_NAME = 200  # characters of a function's name


class Switch(NamedTuple):
    """Flags or variables that disable a feature, for the releases that have them.

    `title` completes "As a test, …". `paths` is an expression that must match the failure's calls or message; `device`
    is the platform that has the switch.
    """

    title: str
    unset: tuple[str, ...] = ()
    set: Mapping[str, Any] | None = None
    env: Mapping[str, Any] | None = None
    vllm: str = ""
    paths: str = ""
    device: str = ""


class Feature(NamedTuple):
    """A feature of vLLM, recognized by `words` in the message, `paths` of the calls, or else `hints` in the message.

    `functions` match the names of functions in files that several features share; `rules` are the ids of rules that
    explain failures of this feature.
    """

    id: str
    words: tuple[re.Pattern[str], ...]
    hints: tuple[re.Pattern[str], ...]
    paths: tuple[str, ...]
    functions: re.Pattern[str] | None
    flags: tuple[str, ...]
    env: tuple[str, ...]
    without: tuple[Switch, ...]
    rules: tuple[str, ...]


@lru_cache(maxsize=1)
def features() -> tuple[Feature, ...]:
    """Return the features, in the order in which their words are tried."""
    return tuple(_feature(entry) for entry in read_catalog("features.yaml"))


@lru_cache(maxsize=64)
def feature(name: str) -> Feature | None:
    """Return the feature with an id, or None."""
    return next((one for one in features() if one.id == name), None)


@lru_cache(maxsize=4096)
def feature_of_path(place: str) -> str | None:
    """Return the feature of a `file:function` by the longest matching path prefix, or None."""
    return next((path.feature for path in _paths()
                 if place.startswith(path.head) and path.rest in place[len(path.head):]), None)


def feature_of_function(function: str) -> str | None:
    """Return the feature of a function in a file that several features share, or None."""
    name = function[-_LONGEST_NAME:].rpartition(".")[2]
    return next((one.id for one in features() if one.functions is not None and one.functions.fullmatch(name)), None)


def feature_of_rule(rule_id: str) -> str | None:
    """Return the feature whose failures a rule explains, or None."""
    return next((one.id for one in features() if rule_id in one.rules), None)


class _Path(NamedTuple):
    """A path prefix of a feature: what a place begins with (`head`), and what must follow somewhere (`rest`)."""

    head: str
    rest: str
    feature: str


@lru_cache(maxsize=1)
def _paths() -> tuple[_Path, ...]:
    """Return the path prefixes of all features, the longest first."""
    by_length = sorted(((path, one.id) for one in features() for path in one.paths), key=lambda item: -len(item[0]))
    return tuple(_Path(head, rest, name) for path, name in by_length for head, _, rest in [path.partition("*")])


def _feature(entry: Mapping[str, Any]) -> Feature:
    switches = tuple(
        Switch(title=one["title"], unset=tuple(one.get("unset", ())), set=one.get("set"), env=one.get("env"),
               vllm=one.get("vllm", ""), paths=one.get("paths", ""), device=one.get("device", ""))
        for one in entry.get("without", ()))
    return Feature(
        id=entry["id"],
        words=tuple(lazy_pattern(word) for word in entry.get("words", ())),
        hints=tuple(lazy_pattern(word) for word in entry.get("hints", ())),
        paths=tuple(entry.get("paths", ())),
        functions=lazy_pattern(entry["functions"]) if "functions" in entry else None,
        flags=tuple(entry.get("flags", ())),
        env=tuple(entry.get("env", ())),
        without=switches,
        rules=tuple(entry.get("rules", ())),
    )
