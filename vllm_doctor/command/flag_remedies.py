"""What to do about flags that vLLM's parser does not recognize.

`catalog.flags` knows which flags and replacements exist in which release.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import NamedTuple

from vllm_doctor.catalog import flags, subcommand_flags
from vllm_doctor.catalog.other_flags import other_flags
from vllm_doctor.catalog.releases import Releases, admitted
from vllm_doctor.command.flags import is_typographic, read_json, with_plain_dashes
from vllm_doctor.text.patterns import lazy_pattern

_FLAG = lazy_pattern(r"--?[A-Za-z][\w.-]*")
_KEYS_SINCE = ">=0.9.2"  # `--x.key value`
_SHORTEST_PART = 3  # letters that a word may be abbreviated to
_MIN_SIMILARITY = 0.8  # of a misspelt flag to the flag that was meant


class Remedy(NamedTuple):
    """What to do about one unrecognized flag.

    `kind`: renamed (write `set` instead), dropped (no replacement), later (exists from `since` on; before, write
    `set` if it is not empty), misspelt (write `set` or, without it, `note` instead), dashes (the same with typographic
    dashes), elsewhere (only other subcommands have it), unknown.
    """

    flag: str
    value: str | None
    kind: str
    set: Mapping[str, str] = MappingProxyType({})
    since: str = ""
    note: str = ""

    def as_typed(self) -> str:
        """Return the flag as it was typed, with its value."""
        return f"{self.flag} {self.value}" if self.value else self.flag


def split_arguments(arguments: str) -> list[tuple[str, str | None]]:
    """Split argparse's list of unrecognized arguments into flags with values; skip words before the first flag.

    argparse joins the words with spaces and drops quotes, so a value may contain spaces.
    """
    options: list[tuple[str, list[str]]] = []
    for word in arguments.split():
        name, equals, value = word.partition("=")
        if _FLAG.fullmatch(name) or is_typographic(name):
            options.append((name, [value] if equals else []))
        elif options:
            options[-1][1].append(word)
    return [(name, " ".join(words) if words else None) for name, words in options]


def remedies(arguments: str, releases: Releases) -> list[Remedy]:
    """Return what to do about each unrecognized flag."""
    return [_remedy(name, value, releases) for name, value in split_arguments(arguments)]


def _remedy(name: str, value: str | None, releases: Releases) -> Remedy:
    newest = flags.releases()[-1]
    plain = with_plain_dashes(name)
    known_flag = flags.lookup(plain, releases.candidates[-1])
    if plain != name and known_flag is not None and any(map(known_flag.exists, releases.candidates)):
        return _with_dashes(name, plain, value, known_flag, releases.candidates[-1])
    name = plain
    if known_flag is None:
        return _misspelt(name, value, releases)
    spelling = flags.canonical(name)
    having = _releases_having(name)
    releases_without = [release for release in releases.candidates if release not in having] or [newest]
    first = next(iter(having), known_flag.first)
    order = flags.releases().index
    if known_flag.last == newest or order(releases_without[-1]) < order(first):
        key = name.partition(".")[2]
        whole = f"{spelling}.{key}" if key else spelling
        older = _predecessors(whole, value, releases_without[-1])
        release = releases_without[-1]
        if value and re.fullmatch(r"\w+", key) and known_flag.exists(release) and "json" in known_flag.kind_in(release):
            older = _with_merged_json_keys({f"{known_flag.name}.{key}": value})
        return Remedy(whole, value, "later", older, since=first)
    if known_flag.replaced_by is None:
        return Remedy(spelling, value, "dropped")
    successor = {new: text for new, text in known_flag.replaced_by.for_value(value).items()
                 if (other := flags.lookup(new)) is not None and other.exists(releases_without[-1])}
    kind = "renamed" if successor else "dropped"
    return Remedy(spelling, value, kind, _with_merged_json_keys(successor), note=known_flag.replaced_by.note)


def _releases_having(name: str) -> tuple[str, ...]:
    """Return the releases, the oldest first, that have a flag in this spelling, and keys of it if the name has one."""
    spelling = flags.canonical(name)
    with_keys = admitted(_KEYS_SINCE) if "." in name else flags.releases()
    return tuple(release for release in flags.releases()
                 if release in with_keys and (flag := flags.lookup(name, release)) is not None
                 and spelling in flag.spellings(release))


def _with_dashes(name: str, plain: str, value: str | None, flag: flags.Flag, release: str) -> Remedy:
    """Return the remedy for a flag that differs from one of the release only in its dashes."""
    fits = value is not None or flag.kind_in(release) == "bool"
    return Remedy(name, value, "dashes", {plain: value or ""} if fits else {}, note=plain)


def _predecessors(name: str, value: str | None, release: str) -> dict[str, str]:
    """Return the flags of an older release that mean what a flag of a later one does; empty if a key of it has none."""
    mapping = read_json(value or "", None)
    if isinstance(mapping, dict):
        wanted = {f"{name}.{key}": part if isinstance(part, str) else json.dumps(part) for key, part in mapping.items()}
    else:
        wanted = {name: value or ""}
    found = [_predecessor(flag, part, release) for flag, part in wanted.items()]
    known = [pair for pair in found if pair is not None]
    return dict(known) if len(known) == len(found) else {}


def _predecessor(name: str, value: str, release: str) -> tuple[str, str] | None:
    """Return the flag of a release, with its value, that was renamed to one of a later release."""
    for old in map(flags.lookup, flags.flags_of(release)):
        if old is None or old.replaced_by is None or tuple(old.replaced_by.set) != (name,):
            continue
        template = old.replaced_by.set[name]
        if template == value:
            return old.name, ""
        if value and template == "{value}" and old.accepts(value, release):
            return old.name, value
    return None


def _misspelt(name: str, value: str | None, releases: Releases) -> Remedy:
    release = releases.candidates[-1]
    spelling = flags.canonical(name)
    meant = other_flags().meant.get(spelling)
    if meant is None:
        if subcommand_flags.life(spelling):
            return Remedy(spelling, value, "elsewhere")
        like = filter(None, (*flags.nearest(name, release, 1), subcommand_flags.nearest(name)))
        closest = max(like, key=lambda one: _similarity(spelling, one), default=spelling)
        close = closest != spelling and _similarity(spelling, closest) >= _MIN_SIMILARITY
        meant = closest if close else _abbreviated(spelling, release)
    flag = flags.lookup(meant) if meant else None
    if flag is None or meant is None:
        return Remedy(spelling, value, "misspelt" if meant else "unknown", note=meant or "")
    given = value if value is not None else ""
    fits = flag.accepts(given, release) or (flag.kind_in(release) == "bool" and given.lower() in ("true", "false"))
    if not fits:
        return Remedy(spelling, value, "misspelt", note=meant)
    return Remedy(spelling, value, "misspelt", {meant: "" if flag.kind_in(release) == "bool" else given})


def _similarity(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()


def _abbreviated(spelling: str, release: str) -> str | None:
    """Return the only flag whose words begin with those of `spelling`: --gpu-memory-utilization for --gpu-mem-util."""
    parts = spelling.lower().split("-")
    if any(len(part) < _SHORTEST_PART for part in parts if part):
        return None
    fitting = [name for name in flags.flags_of(release) if len(words := name.split("-")) == len(parts)
               and name != spelling and all(word.startswith(part) for word, part in zip(words, parts, strict=True))]
    return fitting[0] if len(fitting) == 1 else None


def _with_merged_json_keys(successor: Mapping[str, str]) -> dict[str, str]:
    """Merge single keys of a JSON flag (`--x.key value`) into that flag with JSON, which every release accepts."""
    merged: dict[str, str] = {}
    for name, value in successor.items():
        flag, _, key = name.partition(".")
        if not key:
            merged[name] = value
            continue
        existing = merged.get(flag)
        settings = json.loads(existing) if existing else {}
        settings[key] = read_json(value, value)
        merged[flag] = json.dumps(settings)
    return merged


def successors(arguments: str, releases: Releases) -> dict[str, str]:
    """Return all flags to write instead, with the keys of one JSON flag merged."""
    merged: dict[str, str] = {}
    for remedy in remedies(arguments, releases):
        for name, value in remedy.set.items():
            if name in merged and merged[name].startswith("{") and value.startswith("{"):
                merged[name] = json.dumps({**json.loads(merged[name]), **json.loads(value)})
            else:
                merged[name] = value
    return merged
