"""Read names.jsonl.xz, the table of names in each vLLM release that tools/build_names.py generates.

The table has one row per line (see that tool for its format), parsed when it is looked up. Use it through `names`.
"""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from vllm_doctor.catalog.release_numbers import is_untagged

MAX_ROWS = 400  # rows that are searched for a name that many modules have

Indices = frozenset[int]
"""Positions of releases in `releases()`."""

_LEFT, _RIGHT = (b" ", b'"'), (b" ", b'"', b"=")  # the characters around a word


@lru_cache(maxsize=1)
def table() -> bytes:
    """Return the rows of the table, each after a line feed."""
    return b"\n" + lzma.decompress(Path(__file__).with_name("names.jsonl.xz").read_bytes())


@lru_cache(maxsize=1)
def releases() -> tuple[str, ...]:
    """Return the releases of the table, oldest first."""
    return tuple(json.loads(table()[1 : table().index(b"\n", 1)])["releases"])


@lru_cache(maxsize=4096)
def row_of(key: str) -> list[Any] | None:
    """Return the row of a module, a class (vllm.x:Class) or a package (=name), or None."""
    start = table().find(b'\n["%s",' % key.encode())
    return _row_at(start + 1) if start >= 0 else None


def _row_at(start: int) -> list[Any]:
    row: list[Any] = json.loads(table()[start : table().index(b"\n", start)])
    return row


def rows_with(word: str, kind: str) -> Iterator[list[Any]]:
    """Yield the rows of modules (kind "") or classes (kind ":") that contain a word, at most MAX_ROWS."""
    text, word_bytes, count = table(), word.encode(), 0
    at = text.find(word_bytes)
    while at >= 0:
        end = at + len(word_bytes)
        next_at = end
        if text[at - 1 : at] in _LEFT and text[end : end + 1] in _RIGHT:
            start = text.rfind(b"\n", 0, at) + 1
            key = text[start + 2 : text.index(b'"', start + 2)]
            next_at = text.index(b"\n", at)  # do not yield the row again
            if key.startswith(b"vllm") and (b":" in key) == bool(kind):
                count += 1
                yield _row_at(start)
                if count == MAX_ROWS:
                    return
        at = text.find(word_bytes, next_at)


@lru_cache(maxsize=4096)
def indices(life: str) -> Indices:
    """Return the release indices of a lifetime: "3-7,9", "12-"."""
    expanded: set[int] = set()
    for span in life.split(","):
        first, dash, last = span.partition("-")
        expanded.update(range(int(first), (int(last) if last else len(releases()) - 1 if dash else int(first)) + 1))
    return frozenset(expanded)


def present(groups: Mapping[str, str], word: str, own: str) -> Indices:
    """Return the releases in which a row's groups contain a word; `own` is the lifetime of the row."""
    found: Indices = frozenset()
    for life, words in groups.items():
        if word in words.split(" "):
            found |= indices(life or own)
    return found


def releases_with_name(module: str, name: str) -> Indices:
    """Return the releases in which a module has a name (submodules included)."""
    row, submodule = row_of(module), row_of(f"{module}.{name}")
    found: Indices = frozenset()
    if row:
        found = present(row[2].get("n", {}), name, row[1]) | present(row[2].get("r", {}), name, row[1])
    return found | (indices(submodule[1]) if submodule else frozenset())


def bases_of(row: list[Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the lifetime, the module and the name of each base class of a class, given its row."""
    for life, bases in row[2].get("b", {}).items():
        for base in bases.split(" "):
            module, _, name = base.rpartition(".")
            yield life or row[1], module, name


def releases_with_attribute(key: str, name: str, kinds: str = "mi", depth: int = 6) -> Indices:
    """Return the releases in which a class (vllm.x:Class) has a member, its own or inherited from a vLLM class."""
    row = row_of(key)
    if row is None:
        return frozenset()
    found: Indices = frozenset()
    for kind in kinds:
        found |= present(row[2].get(kind, {}), name, row[1])
    for life, module, base in bases_of(row) if depth else ():
        if module.startswith("vllm"):
            found |= releases_with_attribute(f"{module}:{base}", name, kinds, depth - 1) & indices(life)
    return found


def releases_with_parameter(key: str, method: str, parameter: str, depth: int = 6) -> Indices:
    """Return the releases in which a method of a class has a parameter.

    The table only has parameters that were added or removed between releases.
    """
    row = row_of(key)
    if row is None:
        return frozenset()
    found = present(row[2].get("p", {}).get(method, {}), parameter, row[1])
    for life, module, base in bases_of(row) if depth else ():
        if module.startswith("vllm"):
            found |= releases_with_parameter(f"{module}:{base}", method, parameter, depth - 1) & indices(life)
    return found


def classes(name: str) -> list[str]:
    """Return the keys of the classes with a name."""
    pattern = rb'\n\["(vllm[\w.]*:%s)",' % re.escape(name).encode()
    return [match[1].decode() for match in re.finditer(pattern, table())]


def spans_of(found: Indices) -> list[tuple[int, int]]:
    """Return the runs of consecutive indices as (first, last)."""
    spans: list[tuple[int, int]] = []
    for index in sorted(found):
        if spans and spans[-1][1] == index - 1:
            spans[-1] = (spans[-1][0], index)
        else:
            spans.append((index, index))
    return spans


@lru_cache(maxsize=1024)
def version_of(release: str) -> Version:
    """Return a release of the table as a comparable version."""
    return Version(release)


@lru_cache(maxsize=1024)
def possible_releases(release: str | None) -> Indices:
    """Return the releases of the table that a version can behave as.

    One index for a release of the table; both neighbours for a release or development build that is not in it; -1
    for a version older than the table. Empty if the version is unknown.
    """
    try:
        version = Version((release or "").strip())
    except InvalidVersion:
        return frozenset()
    if is_untagged(version.public):
        return frozenset()
    public = Version(version.public)
    known = [version_of(one) for one in releases()]
    if public in known:
        return frozenset({known.index(public)})
    before = sum(one < public for one in known) - 1
    return frozenset({before, before + 1} if before + 1 < len(known) else {before})


def below(index: int) -> str:
    """Return the specifier of the releases up to one of the table: `<0.13`, or `<0.9.0.1` within a minor release."""
    current = version_of(releases()[index])
    if index + 1 < len(releases()) and version_of(releases()[index + 1]).release[:2] == current.release[:2]:
        return f"<{releases()[index + 1]}"
    return f"<{current.major}.{current.minor + 1}"  # not the table's next release, which may not be the next published
