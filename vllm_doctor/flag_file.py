"""flags.jsonl, the table of vLLM's flags and environment variables, made from its sources by tools/build_flags.py.

The first line tells the releases, each further line is a flag or a variable: what a log does not need is not read.
"""

from __future__ import annotations

import json
import os
from collections.abc import ItemsView, Iterator, Mapping
from functools import lru_cache

from vllm_doctor.typed import Any


class Entries(Mapping[str, dict[str, Any]]):
    """What flags.jsonl says of each flag or variable, read when it is asked for: a log needs few of them."""

    def __init__(self, rows: dict[str, bytes]) -> None:
        self._rows = rows

    def __getitem__(self, name: str) -> dict[str, Any]:
        entry: dict[str, Any] = json.loads(self._rows[name])[1]
        return entry

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def items(self) -> ItemsView[str, dict[str, Any]]:
        """All of them, read at once."""
        read: dict[str, dict[str, Any]] = dict(json.loads(b"[%s]" % b",".join(self._rows.values())))
        return read.items()


class Table:
    """flags.jsonl: the releases, oldest first, and the entries of the flags and of the variables."""

    def __init__(self, text: bytes) -> None:
        head, *rows = text.splitlines()
        named = {row.split(b'"', 2)[1].decode(): row for row in rows}
        self.releases: tuple[str, ...] = tuple(json.loads(head)["releases"])
        self.flags = Entries({name: row for name, row in named.items() if name.startswith("-")})
        self.env = Entries({name: row for name, row in named.items() if not name.startswith("-")})


@lru_cache(maxsize=1)
def table() -> Table:
    """The table that ships with vllm-doctor."""
    with open(os.path.join(os.path.dirname(__file__), "flags.jsonl"), "rb") as file:
        return Table(file.read())
