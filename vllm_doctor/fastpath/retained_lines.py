"""Lines of one kind that are kept back: few of them are read for what they say."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

FIRST = 8
"""Lines of a kind that are read in full before any is kept back: as many as a report keeps."""
LAST = 8
"""Lines of a kind that are kept back, the last of them."""
_WHOLE, _NOTHING = slice(None), slice(0)


class Kept(NamedTuple):
    """A line still to be read in full; `times` counts it and those it stands for.

    `frames`: it is a traceback's exception, and these are the calls. `source`: where a wrapper says it comes from.
    """

    number: int
    raw: bytes
    times: int
    frames: str = ""
    source: bytes = b""


class Series:
    """The lines of one kind: how many came, and behind the first ones the last of them."""

    __slots__ = ("_held", "_last", "lines")

    def __init__(self) -> None:
        self.lines = 0
        self._held = 0  # since they were last given
        self._last: deque[tuple[int, bytes, slice, slice]] = deque(maxlen=LAST)

    def keep(self, number: int, raw: bytes, part: slice = _WHOLE, source: slice = _NOTHING) -> None:
        """Keep a part of a line back; another one is its source."""
        self._held += 1
        self._last.append((number, raw, part, source))

    def keep_last(self, count: int, lines: Iterable[tuple[int, bytes, slice, slice]]) -> None:
        """Keep so many lines back, given the last of them, each as for `keep`; LAST if there are as many."""
        self._held += count
        self._last.extend(lines)

    def rest(self) -> list[Kept]:
        """The lines kept back; they are not given again."""
        kept = [Kept(number, raw[part], 1, source=raw[source]) for number, raw, part, source in self._last]
        if kept:
            kept[0] = kept[0]._replace(times=1 + self._held - len(kept))
        self._held = 0
        self._last.clear()
        return kept
