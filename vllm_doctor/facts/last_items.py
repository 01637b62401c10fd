"""The last few of a series that comes nearly in the order of its lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from vllm_doctor.facts.store import Fact
    from vllm_doctor.matching.matcher import Hit

    T = TypeVar("T", Fact, Hit)


def add_last(last: list[T], item: T, most: int) -> None:
    """Add one to the last few, which stay in the order of their lines and at most so many."""
    last.append(item)
    if len(last) > 1 and item.line < last[-2].line:
        last.sort(key=lambda kept: kept.line)
    del last[:-most]
