"""Lines of one kind that are kept back, so that only the first and last few are read in full."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

FIRST = 8
"""Lines of a kind that are read in full before any is kept back: as many as a report keeps."""
LAST = 8
"""Maximal number of lines of a kind that are kept back: the last ones."""
_WHOLE, _NOTHING = slice(None), slice(0)


class RetainedLine(NamedTuple):
    """A line still to be read in full; `times` counts the lines it represents, itself included.

    `frames` are the calls of a traceback whose exception it is; with `refusal` that traceback is of a request which a
    handler rejects. `source` is the name in its wrapper.
    """

    number: int
    raw: bytes
    times: int
    frames: str = ""
    source: bytes = b""
    refusal: bool = False


class RetainedLines:
    """The lines of one kind: their count, and the last ones kept back."""

    __slots__ = ("_held", "_last", "lines")

    def __init__(self) -> None:
        self.lines = 0
        self._held = 0  # since they were last returned
        self._last: deque[tuple[int, bytes, slice, slice]] = deque(maxlen=LAST)

    def keep(self, number: int, raw: bytes, part: slice = _WHOLE, source: slice = _NOTHING) -> None:
        """Keep a part of a line; another part is its source."""
        self._held += 1
        self._last.append((number, raw, part, source))

    def keep_last(self, count: int, lines: Iterable[tuple[int, bytes, slice, slice]]) -> None:
        """Keep `count` lines, given the last of them (at most LAST), each as for `keep`."""
        self._held += count
        self._last.extend(lines)

    def rest(self) -> list[RetainedLine]:
        """Return the lines kept back, each only once."""
        kept = [RetainedLine(number, raw[part], 1, source=raw[source]) for number, raw, part, source in self._last]
        if kept:
            kept[0] = kept[0]._replace(times=1 + self._held - len(kept))
        self._held = 0
        self._last.clear()
        return kept
