"""Which vLLM releases have a name."""

from __future__ import annotations

import re
from typing import NamedTuple

from vllm_doctor.catalog.name_table import (
    indices,
    releases,
    releases_with_attribute,
    releases_with_name,
    row_of,
    spans_of,
)


class Lifetime(NamedTuple):
    """The releases that have a name, as spans of first and last release, oldest first."""

    spans: tuple[tuple[str, str], ...]

    @property
    def first(self) -> str:
        """Return the first release that has the name."""
        return self.spans[0][0]

    @property
    def last(self) -> str:
        """Return the last release that has the name; the newest of the table if the name still exists."""
        return self.spans[-1][1]


def lifetime(dotted_name: str) -> Lifetime | None:
    """Return the releases that have a module, `module.name` or `module.Class.member`; None if none does."""
    if not re.fullmatch(r"vllm(\.\w+)*", dotted_name):
        return None
    row = row_of(dotted_name)
    parent, _, name = dotted_name.rpartition(".")
    found = indices(row[1]) if row else frozenset()
    if parent:
        found |= releases_with_name(parent, name)
        module, _, local = parent.rpartition(".")
        found |= releases_with_attribute(f"{module}:{local}", name)
    return Lifetime(tuple((releases()[first], releases()[last]) for first, last in spans_of(found))) if found else None
