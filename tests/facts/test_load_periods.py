"""Load periods: how long a state lasted by the times of the log, in bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_doctor.facts.load_periods import LoadPeriodTracker, Moment


def _at(minute: int, second: int = 0, line: int = 1) -> Moment:
    return Moment(line, f"11-20 {14 + minute // 60:02d}:{minute % 60:02d}:{second:02d}")


def _keeper(*states: tuple[Moment, bool, int], engine: int = 0) -> LoadPeriodTracker:
    tracker = LoadPeriodTracker()
    for at, holds, waiting in states:
        tracker.add(engine, holds, at, waiting)
    return tracker


def test_a_moment_is_read_from_every_prefix() -> None:
    assert Moment.of(7, "INFO 02-11 07:40:45 metrics.py:341] Avg prompt") == Moment(7, "02-11 07:40:45")
    assert Moment.of(7, "(APIServer pid=1) INFO 2026-08-23 12:30:10 [loggers.py:310] Engine") == Moment(7, "08-23 12:30:10")
    assert Moment.of(7, "Engine 000: Avg prompt throughput") == Moment(7, "")
    assert Moment.of(7, "x" * 200 + " 02-11 07:40:45") == Moment(7, "")


@pytest.mark.parametrize(("begin", "end", "seconds"), [
    ("11-20 14:02:00", "11-20 14:03:30", 90.0),
    ("12-31 23:59:50", "01-01 00:00:10", 20.0),
    ("02-29 00:00:00", "03-01 00:00:00", 86400.0),
    ("99-99 00:00:00", "11-20 00:00:00", None),
    ("", "11-20 00:00:00", None),
])
def test_the_time_between(begin: str, end: str, seconds: float | None) -> None:
    assert Moment(1, begin).seconds_until(Moment(2, end)) == seconds


def test_two_lines_are_a_short_peak() -> None:
    tracker = _keeper((_at(0), True, 9), (_at(1), True, 9), *[(_at(m), False, 0) for m in (2, 3, 4)])
    assert (tracker.current_period, tracker.periods.number, tracker.periods.describe()) == (None, 0, "")


def test_three_lines_last_and_a_dip_does_not_end_them() -> None:
    tracker = _keeper((_at(2), True, 9), (_at(3), True, 12), (_at(4), False, 0), (_at(5), True, 3))
    assert tracker.current_period is not None
    assert (tracker.current_period.lines, tracker.current_period.waiting, tracker.current_period.seconds) == (3, 12, 180.0)
    assert tracker.periods.describe() == "3 minutes from 11-20 14:02 to 14:05, while up to 12 requests waited"


def test_the_end_is_the_last_line_that_had_it() -> None:
    tracker = _keeper(*[(_at(m), m < 40, 1) for m in range(60)])
    assert tracker.current_period is None
    assert tracker.periods.describe() == "39 minutes from 11-20 14:00 to 14:39, while up to 1 request waited"


def test_several_spells_are_told_together() -> None:
    states = [(_at(m), m in {*range(2, 22), *range(60, 65), *range(144, 160)}, m) for m in range(170)]
    periods = _keeper(*states).periods
    assert periods.number == 3
    assert periods.longest is not None
    assert periods.longest.first == _at(2)
    assert periods.describe() == ("38 minutes in 3 periods between 11-20 14:02 and 16:39, the longest of 19 minutes, "
                              "while up to 159 requests waited")


def test_engines_that_have_it_together_are_one_spell() -> None:
    tracker = LoadPeriodTracker()
    for minute in range(30):
        for engine in range(8):
            tracker.add(engine, engine == 3 or minute < 2, _at(minute), 4)
    assert tracker.periods.number == 1
    assert tracker.current_period is not None
    assert tracker.current_period.lines == 30


def test_one_line_of_each_engine_is_a_short_peak() -> None:
    tracker = LoadPeriodTracker()
    for engine in range(8):
        tracker.add(engine, True, _at(0), 4)
    assert tracker.current_period is None


def test_an_idle_engine_ends_it_at_once_and_so_does_a_long_silence() -> None:
    tracker = _keeper(*[(_at(m), True, 1) for m in range(4)])
    tracker.add(0, False, _at(4), 0, idle=True)
    assert tracker.current_period is None
    tracker = _keeper(*[(_at(m), True, 1) for m in (0, 1, 2, 50, 51, 52)])
    assert (tracker.periods.number, tracker.periods.seconds) == (2, 240.0)


def test_without_times_it_is_counted_but_not_reported() -> None:
    tracker = _keeper(*[(Moment(n), True, 5) for n in range(9)])
    assert (tracker.periods.number, tracker.periods.describe()) == (1, "")


def test_a_year_of_spells_takes_no_memory() -> None:
    tracker = LoadPeriodTracker()
    for number in range(30_000):
        tracker.add(0, number % 10 < 5, Moment(number, "11-20 14:00:00"), 5)
    assert tracker.periods.number == 3000
    assert tracker.engines == {}


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2)), max_size=80))
def test_a_spell_has_at_least_three_lines_and_lies_within_the_log(lines: list[tuple[bool, int]]) -> None:
    tracker = LoadPeriodTracker()
    for number, (holds, engine) in enumerate(lines):
        tracker.add(engine, holds, Moment(number), 1)
    periods = tracker.periods
    assert periods.number <= sum(holds for holds, _ in lines) // 3
    for period in (periods.first, periods.last, periods.longest):
        if period is not None:
            assert period.lines >= 3
            assert 0 <= period.first.line < period.last.line < len(lines)
            assert lines[period.first.line][0]
            assert lines[period.last.line][0]
