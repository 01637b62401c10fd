"""Read flags.jsonl, the table of vLLM's flags and environment variables that tools/build_flags.py generates.

The first line lists the releases; each further line is one flag or variable, parsed only when it is looked up.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_left
from collections.abc import ItemsView, Iterator, Mapping
from functools import lru_cache
from typing import Any


class Entries(Mapping[str, dict[str, Any]]):
    """The entries of flags.jsonl by name, each parsed when it is looked up. The rows are sorted by name."""

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
        """Return all entries, parsed at once."""
        read: dict[str, dict[str, Any]] = dict(json.loads(b"[%s]" % b",".join(self._rows)))
        return read.items()

    def _row(self, name: str) -> bytes | None:
        begin = b'["%s"' % name.encode(errors="replace")
        at = bisect_left(self._rows, begin)
        is_match = at < len(self._rows) and self._rows[at].startswith(begin) and '"' not in name
        return self._rows[at] if is_match else None


class Table:
    """The content of flags.jsonl: the releases, oldest first, the flags and the environment variables."""

    def __init__(self, text: bytes) -> None:
        head, *rows = text.splitlines()
        self.releases: tuple[str, ...] = tuple(json.loads(head)["releases"])
        variables = bisect_left(rows, b'[".')  # flags begin with a dash, which sorts before the dot
        self.flags = Entries(rows[:variables])
        self.env = Entries(rows[variables:])


@lru_cache(maxsize=1)
def table() -> Table:
    """Return the table that ships with vllm-doctor."""
    with open(os.path.join(os.path.dirname(__file__), "flags.jsonl"), "rb") as file:
        return Table(file.read())
