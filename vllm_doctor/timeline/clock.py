"""The times that a log prints, as one start of the server goes on.

vLLM's records have a time without a year and with whole seconds (`11-24 00:18:15`); custom formats may have both.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from vllm_doctor.phases import ORDER
from vllm_doctor.text.patterns import lazy_pattern

_TIME = lazy_pattern(
    r"(?:(?P<year>\d{4})-)?(?P<month>\d\d)-(?P<day>\d\d)[ T](?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,6}))?")
_LEAP_YEAR = 2000  # stands for an unknown year: it has all days
_YEAR = timedelta(days=366)
_HALF = timedelta(days=183)
_WARM_UP = "Warming up model for the compilation"  # on CPUs: before the KV cache a marker; in older releases after it
_FAILURES = frozenset({"ERROR", "CRITICAL"})


class StartClock:
    """The times of one start: the first, the last, and those at which it reached its phases."""

    def __init__(self) -> None:
        self.first = ""
        self.last = ""
        self.phases: list[tuple[str, str]] = []  # each phase reached, with the last time printed by then
        self.serving = ""
        self.error = ""  # of the first error since the last phase was reached

    def see(self, time: str, level: str, text: str) -> None:
        """Record the time of a line."""
        self.first = self.first or time
        self.last = time
        if text.startswith(_WARM_UP) and any(phase == "kv-cache" for phase, _ in self.phases):
            self.reach("graph-capture")
        if level in _FAILURES:
            self.error = self.error or time

    def reach(self, phase: str) -> None:
        """Record that the start reached a phase with the line seen last."""
        if not self.phases or ORDER[phase] > ORDER[self.phases[-1][0]]:
            self.phases.append((phase, self.last))
            self.error = ""

    def serve(self) -> None:
        """Record that the server began to serve with the line seen last."""
        self.serving = self.serving or self.last


def parse_time(text: str) -> datetime | None:
    """Return a printed time, with the year 2000 where it has none; None if it is no time."""
    match = _TIME.match(text)
    if match is None:
        return None
    part = f".{match['part'].ljust(6, '0')}" if match["part"] else ""
    try:
        return datetime.fromisoformat(
            f"{match['year'] or _LEAP_YEAR}-{match['month']}-{match['day']} {match['clock']}{part}")
    except ValueError:  # 13-45 99:99:99
        return None


def seconds_between(earlier: str, later: str) -> float | None:
    """Return the seconds from one printed time to another, over New Year as well; None if either is no time."""
    begin, end = parse_time(earlier), parse_time(later)
    if begin is None or end is None:
        return None
    if _LEAP_YEAR in {begin.year, end.year}:
        begin, end = begin.replace(year=_LEAP_YEAR), end.replace(year=_LEAP_YEAR)
        if end - begin < -_HALF:
            end += _YEAR
        elif end - begin > _HALF:
            begin += _YEAR
    return (end - begin).total_seconds()
