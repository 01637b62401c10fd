"""Times as a log prints them, perhaps without a year: vLLM's `11-24 00:18:15`, other formats with a year."""

from __future__ import annotations

from calendar import isleap
from datetime import datetime, timedelta
from functools import lru_cache

from vllm_doctor.text.patterns import lazy_pattern

_TIME = lazy_pattern(
    r"(?:(?P<year>\d{4})-)?(?P<month>\d\d)-(?P<day>\d\d)[ T](?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,6}))?")
_LEAP_YEAR = 2000  # stands for an unknown year: it has all days
_COMMON_YEAR = 2001
_HALF = timedelta(days=183)


@lru_cache(maxsize=4)
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
        known = max(begin.year, end.year)
        year = _LEAP_YEAR if _is_leap_day(begin) or _is_leap_day(end) else known if known > _LEAP_YEAR else _COMMON_YEAR
        begin, end = begin.replace(year=year), end.replace(year=year)
        length = timedelta(days=366 if isleap(year) else 365)
        if end - begin < -_HALF:
            end += length
        elif end - begin > _HALF:
            begin += length
    return (end - begin).total_seconds()


def _is_leap_day(time: datetime) -> bool:
    return (time.month, time.day) == (2, 29)
