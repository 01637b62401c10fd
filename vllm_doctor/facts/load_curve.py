"""The course of a server's load over its statistics lines, in bounded memory: for a plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_MOST = 240
"""Points that are kept; then two become one."""


class LoadPoint(NamedTuple):
    """The highest values of some consecutive statistics lines: cache usage in percent, running and waiting requests."""

    usage: float
    running: int
    waiting: int

    def joined(self, other: LoadPoint) -> LoadPoint:
        """Return the highest values of both."""
        usage, running, waiting = other
        return LoadPoint(max(self.usage, usage), max(self.running, running), max(self.waiting, waiting))


class LoadCurve:
    """The points of a run. Each holds `lines_per_point` statistics lines, the last one possibly fewer."""

    def __init__(self) -> None:
        self.lines_per_point = 1
        self._points: list[LoadPoint] = []
        self._in_last = 0  # lines in the last point

    @property
    def points(self) -> tuple[LoadPoint, ...]:
        """Return the points in the order of the log."""
        return tuple(self._points)

    def add(self, usage: float, running: int, waiting: int) -> None:
        """Add one statistics line."""
        self._put(LoadPoint(usage, running, waiting), 1)

    def add_unqueued(self, usage: Sequence[float], running: Sequence[int]) -> None:
        """Add lines without waiting requests."""
        begin = 0
        while begin < len(running):
            room = self.lines_per_point - self._in_last % self.lines_per_point
            end = min(begin + room, len(running))
            self._put(LoadPoint(max(usage[begin:end]), max(running[begin:end]), 0), end - begin)
            begin = end

    def _put(self, point: LoadPoint, lines: int) -> None:
        if self._points and self._in_last < self.lines_per_point:
            self._points[-1] = self._points[-1].joined(point)
            self._in_last += lines
            return
        if len(self._points) == _MOST:
            pairs = zip(self._points[::2], self._points[1::2], strict=True)
            self._points = [first.joined(second) for first, second in pairs]
            self.lines_per_point *= 2
        self._points.append(point)
        self._in_last = lines
