"""The last few items of a series that arrives nearly in the order of its lines."""

from __future__ import annotations

from typing import Protocol, TypeVar


class HasLine(Protocol):
    """An object with the number of a log line."""

    @property
    def line(self) -> int:
        """Return the line number, from 1."""


T = TypeVar("T", bound=HasLine)


def add_last(last: list[T], item: T, most: int) -> None:
    """Append an item to the last few, at most `most`, kept in the order of their lines."""
    last.append(item)
    if len(last) > 1 and item.line < last[-2].line:
        last.sort(key=lambda kept: kept.line)
    del last[:-most]
