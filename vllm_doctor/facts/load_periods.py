"""Load periods: how long the cache was saturated or requests queued, from the statistics lines of a server.

Memory does not grow with the log: besides the current period only the first, the last and the longest are kept, and
the totals. Times are those of the log, which prints no year and, in some set-ups, no time at all.
"""

from __future__ import annotations

from typing import NamedTuple

from vllm_doctor.messages import message
from vllm_doctor.text.patterns import lazy_pattern
from vllm_doctor.text.times import seconds_between

LASTING = 3
"""Consecutive statistics lines of one engine that make a period, or end one."""
_GAP = 600.0  # seconds without such a line that end a period: an idle server prints no statistics
_STAMP = lazy_pattern(r"\b(?:\d{4}-)?(\d\d-\d\d \d\d:\d\d:\d\d)\b")
_STAMP_REACH = 160  # characters of a line that contain vLLM's prefix


class Moment(NamedTuple):
    """A line of the log and the time it prints, as `11-20 14:02:31`; empty without one."""

    line: int = 0
    stamp: str = ""

    @classmethod
    def of(cls, line: int, text: str) -> Moment:
        """Return the moment of a line, given its text with vLLM's prefix."""
        match = _STAMP.search(text, 0, _STAMP_REACH)
        return cls(line, match[1] if match else "")

    def seconds_until(self, later: Moment) -> float | None:
        """Return the seconds to a later line, which may be in the next year; None if a time is unknown."""
        return seconds_between(self.stamp, later.stamp)


class LoadPeriod(NamedTuple):
    """A period of load: its first and last line, its statistics lines and its longest queue.

    `lines` counts those of the engine with the most, `waiting` is the maximal number of waiting requests.
    """

    first: Moment
    last: Moment
    lines: int
    waiting: int

    @property
    def seconds(self) -> float:
        """Return the duration by the log's own times; 0 if they are unknown."""
        return max(0.0, self.first.seconds_until(self.last) or 0.0)


class LoadPeriods(NamedTuple):
    """All load periods of one kind in one run."""

    number: int = 0
    seconds: float = 0.0
    waiting: int = 0  # the maximal number of waiting requests in any of them
    first: LoadPeriod | None = None
    last: LoadPeriod | None = None
    longest: LoadPeriod | None = None

    def with_period(self, period: LoadPeriod) -> LoadPeriods:
        """Return these periods and a later one."""
        longest = self.longest if self.longest and _length(self.longest) >= _length(period) else period
        return LoadPeriods(self.number + 1, self.seconds + period.seconds, max(self.waiting, period.waiting),
                      self.first or period, period, longest)

    def describe(self) -> str:
        """Return `41 minutes in 3 periods between 11-20 14:02 and 16:40, while up to 212 requests waited`, or ""."""
        if self.first is None or self.last is None or self.longest is None or not self.seconds:
            return ""
        begin, end = self.first.first.stamp[:-3], self.last.last.stamp[:-3]
        end = end[6:] if end[:5] == begin[:5] else end
        duration = _duration(self.seconds)
        if self.number > 1:
            when = message("{duration} in {number:,} periods between {begin} and {end}, the longest of {longest}",
                           duration=duration, number=self.number, begin=begin, end=end,
                           longest=_duration(self.longest.seconds))
        elif begin.endswith(end):
            when = message("{duration} at {begin}", duration=duration, begin=begin)
        else:
            when = message("{duration} from {begin} to {end}", duration=duration, begin=begin, end=end)
        if self.waiting == 1:
            return message("{when}, while up to 1 request waited", when=when)
        return message("{when}, while up to {count:,} requests waited", when=when, count=self.waiting)


class LoadPeriodTracker:
    """The load periods of one kind, tracked over the statistics lines of one or more engines."""

    def __init__(self) -> None:
        self._finished = LoadPeriods()
        self.engines: dict[int, tuple[int, int]] = {}
        """The engines in a period, even a short one: of each the lines in it, and the lines since it last held."""
        self._first = self._last = Moment()  # of the current period
        self._lines = self._waiting = 0

    def add(self, engine: int, is_loaded: bool, at: Moment, waiting: int, *, idle: bool = False) -> None:
        """Record one statistics line of an engine; `is_loaded` says whether it shows the load.

        A period ends for an engine when it is idle or prints LASTING lines without the load, and altogether when it has
        ended for all engines.
        """
        if is_loaded and self._lines and (self._last.seconds_until(at) or 0.0) > _GAP:
            self._end()
        lines, without = self.engines.get(engine, (0, 0))
        if is_loaded:
            lines += 1
            self.engines[engine] = lines, 0
            if not self._lines:
                self._first = at
            self._last = at
            self._lines, self._waiting = max(self._lines, lines), max(self._waiting, waiting)
        elif lines and without + 1 < LASTING and not idle:
            self.engines[engine] = lines, without + 1
        elif lines:
            del self.engines[engine]
            if not self.engines:
                self._end()

    def _end(self) -> None:
        self._finished = self.periods
        self._lines = self._waiting = 0
        self.engines.clear()

    @property
    def current_period(self) -> LoadPeriod | None:
        """Return the current period, once it has at least LASTING lines."""
        if self._lines < LASTING:
            return None
        return LoadPeriod(self._first, self._last, self._lines, self._waiting)

    @property
    def periods(self) -> LoadPeriods:
        """Return all periods so far, including the current one."""
        current = self.current_period
        return self._finished.with_period(current) if current else self._finished


def _length(period: LoadPeriod) -> tuple[float, int]:
    return period.seconds, period.lines


def _duration(seconds: float) -> str:
    if seconds < 120:
        return message("{count:.0f} seconds", count=seconds)
    if seconds < 7200:
        return message("{count:.0f} minutes", count=seconds / 60)
    return message("{count:.1f} hours", count=seconds / 3600)
