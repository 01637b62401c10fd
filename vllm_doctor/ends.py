"""The last few of a series that comes nearly in the order of its lines."""

from __future__ import annotations

from vllm_doctor.typed import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from vllm_doctor.facts import Fact
    from vllm_doctor.match import Hit

    T = TypeVar("T", Fact, Hit)


def add_last(last: list[T], item: T, most: int) -> None:
    """Add one to the last few, which stay in the order of their lines and at most so many."""
    last.append(item)
    if len(last) > 1 and item.line < last[-2].line:
        last.sort(key=lambda kept: kept.line)
    del last[:-most]
