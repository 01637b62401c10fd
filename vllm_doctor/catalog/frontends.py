"""The programs that people run vLLM through, and the names of vLLM's settings there (frontends.yaml)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from packaging.version import InvalidVersion, Version

from vllm_doctor.catalog.yaml_catalog import read_catalog
from vllm_doctor.text.patterns import lazy_pattern

Form = Literal["env", "option", "override", "yaml", "keyword", "field", "file-or-option"]


class SettingName(NamedTuple):
    """The name of one of vLLM's settings in a program, and the releases of the program that have it.

    `switch` is the value that turns on a flag which takes none in vLLM; empty where it takes none here either.
    """

    name: str
    since: str = ""
    until: str = ""
    switch: str = ""

    def holds(self, release: str) -> bool:
        """Return whether a release of the program has the name; an unknown release may have it."""
        return not (release and ((self.since and _is_before(release, self.since))
                                 or (self.until and _is_before(self.until, release))))


class OtherSettings(NamedTuple):
    """How a program passes on every setting that it has no name for.

    `kind` is json (`name` takes a JSON object of keywords), keys (below the path `name`, by keyword), flags (a list of
    flags at the path `name`, or a variable that holds them) or option (under vLLM's own name).
    """

    kind: Literal["json", "keys", "flags", "option"]
    name: str = ""
    since: str = ""
    underscores: bool = False
    glue: str = " "
    switch: str = ""


class Printed(NamedTuple):
    """What a program prints: an expression, and a literal that its lines hold."""

    anchor: str
    pattern: re.Pattern[str]


class Frontend(NamedTuple):
    """A program that runs vLLM; frontends.yaml explains the fields."""

    id: str
    name: str
    programs: tuple[tuple[str, ...], ...]
    lines: tuple[Printed, ...]
    paths: tuple[str, ...]
    frames: tuple[str, ...]
    has_own_caller: bool
    version: Printed | None
    form: Form
    in_command: Form
    command: str
    call: str
    where: str
    settings: Mapping[str, tuple[SettingName, ...]]
    others: OtherSettings | None
    variables: str
    absent: Mapping[str, str]
    otherwise: str
    is_over_vllm: bool
    source: tuple[str, ...]

    def runs(self, file: str, function: str = "") -> bool:
        """Return whether a call in a traceback is in the program's code, given the file from its package on."""
        place = f"/{file}"
        return (any(f"/{path}" in place for path in self.paths)
                or any(f"{place}:{function}".endswith(f"/{frame}") for frame in self.frames))


@lru_cache(maxsize=1)
def frontends() -> tuple[Frontend, ...]:
    """Return the programs; the first that a log shows is the one that it was started by."""
    return tuple(_frontend(entry) for entry in read_catalog("frontends.yaml"))


@lru_cache(maxsize=1)
def anchors() -> tuple[str, ...]:
    """Return the literals of which every line that shows a program or its release holds one."""
    printed = (item for each in frontends() for item in (*each.lines, *([each.version] if each.version else [])))
    return tuple(dict.fromkeys(item.anchor for item in printed))


def _frontend(entry: Mapping[str, Any]) -> Frontend:
    seen = entry["seen"]
    version = entry.get("version")
    return Frontend(
        id=entry["id"],
        name=entry["name"],
        programs=tuple(tuple(words.split()) for words in seen.get("programs", ())),
        lines=tuple(map(_printed, seen.get("lines", ()))),
        paths=tuple(seen.get("paths", ())),
        frames=tuple(seen.get("frames", ())),
        has_own_caller=bool(seen.get("own_caller")),
        version=_printed(version) if version else None,
        form=entry["form"],
        in_command=entry.get("in_command", entry["form"]),
        command=entry.get("command", ""),
        call=entry.get("call", ""),
        where=entry.get("where", ""),
        settings={flag: _names(names) for flag, names in entry.get("settings", {}).items()},
        others=_others(entry.get("others")),
        variables=entry.get("variables", ""),
        absent=dict(entry.get("absent", {})),
        otherwise=entry.get("otherwise", ""),
        is_over_vllm=bool(entry.get("over_vllm")),
        source=tuple(entry["source"]),
    )


def _printed(entry: Mapping[str, str]) -> Printed:
    return Printed(entry["anchor"], lazy_pattern(entry["pattern"]))


def _names(entries: Iterable[Mapping[str, Any]]) -> tuple[SettingName, ...]:
    return tuple(SettingName(one["name"], str(one.get("since", "")), str(one.get("until", "")), one.get("switch", ""))
                 for one in entries)


def _others(entry: Mapping[str, Any] | None) -> OtherSettings | None:
    if entry is None:
        return None
    for kind in ("json", "keys", "flags"):
        if kind in entry:
            return OtherSettings(kind, entry[kind], str(entry.get("since", "")))
    return OtherSettings("option", since=str(entry.get("since", "")), underscores=bool(entry.get("underscores")),
                         glue=entry.get("glue", " "), switch=entry.get("switch", ""))


def _is_before(release: str, other: str) -> bool:
    """Return whether a release is older than another; False where one of them is no version."""
    try:
        return Version(release) < Version(other)
    except InvalidVersion:
        return False
