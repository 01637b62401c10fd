"""Lines of one kind that are kept back: few of them are read for what they say."""

from __future__ import annotations

from collections import deque

from vllm_doctor.typed import NamedTuple

FIRST = 8
"""Lines of a kind that are read in full before any is kept back: as many as a report keeps."""
_LAST = 8


class Kept(NamedTuple):
    """A line still to be read in full; `times` counts it and those it stands for."""

    number: int
    raw: bytes
    times: int


class Series:
    """The lines of one kind: how many came, and behind the first ones the last of them."""

    __slots__ = ("_gone", "_last", "lines")

    def __init__(self) -> None:
        self.lines = 0
        self._gone = 0  # kept back, and no longer kept
        self._last: deque[tuple[int, bytes]] = deque()

    def keep(self, number: int, raw: bytes) -> None:
        """Keep a line back."""
        last = self._last
        last.append((number, raw))
        if len(last) > _LAST:
            last.popleft()
            self._gone += 1

    def rest(self) -> list[Kept]:
        """The lines kept back; they are not given again."""
        kept = [Kept(number, raw, 1) for number, raw in self._last]
        if kept:
            kept[0] = kept[0]._replace(times=1 + self._gone)
        self._gone = 0
        self._last.clear()
        return kept
