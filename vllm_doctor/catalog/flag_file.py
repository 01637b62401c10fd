"""flags.jsonl, the table of vLLM's flags and environment variables, made from its sources by tools/build_flags.py.

The first line tells the releases, each further line is a flag or a variable: what a log does not need is not read.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_left
from collections.abc import ItemsView, Iterator, Mapping
from functools import lru_cache
from typing import Any


class Entries(Mapping[str, dict[str, Any]]):
    """What flags.jsonl says of each flag or variable, read when it is asked for: a log needs few of them.

    The rows are sorted by the names they begin with.
    """

    def __init__(self, rows: list[bytes]) -> None:
        self._rows = rows

    def __getitem__(self, name: str) -> dict[str, Any]:
        row = self._row(name)
        if row is None:
            raise KeyError(name)
        entry: dict[str, Any] = json.loads(row)[1]
        return entry

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._row(name) is not None

    def __iter__(self) -> Iterator[str]:
        return (row.split(b'"', 2)[1].decode() for row in self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def items(self) -> ItemsView[str, dict[str, Any]]:
        """All of them, read at once."""
        read: dict[str, dict[str, Any]] = dict(json.loads(b"[%s]" % b",".join(self._rows)))
        return read.items()

    def _row(self, name: str) -> bytes | None:
        begin = b'["%s"' % name.encode(errors="replace")
        at = bisect_left(self._rows, begin)
        found = at < len(self._rows) and self._rows[at].startswith(begin) and '"' not in name
        return self._rows[at] if found else None


class Table:
    """flags.jsonl: the releases, oldest first, and the entries of the flags and of the variables."""

    def __init__(self, text: bytes) -> None:
        head, *rows = text.splitlines()
        self.releases: tuple[str, ...] = tuple(json.loads(head)["releases"])
        variables = bisect_left(rows, b'[".')  # flags begin with a dash, the character before
        self.flags = Entries(rows[:variables])
        self.env = Entries(rows[variables:])


@lru_cache(maxsize=1)
def table() -> Table:
    """The table that ships with vllm-doctor."""
    with open(os.path.join(os.path.dirname(__file__), "flags.jsonl"), "rb") as file:
        return Table(file.read())
