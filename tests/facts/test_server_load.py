"""The load counters: what lasts is told from what is one busy line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_doctor.facts.load_periods import Moment
from vllm_doctor.facts.server_load import ServerLoad


def _load(*lines: dict[str, float]) -> dict[str, Any]:
    load = ServerLoad()
    for line in lines:
        load.add(line)
    return load.summary()


def _line(running: int, waiting: int = 0, usage: float = 0.0, **more: float) -> dict[str, float]:
    return {"running_requests": running, "waiting_requests": waiting, "kv_cache_usage_percent": usage, **more}


def test_no_statistics_line_is_no_load() -> None:
    assert _load({"max_model_len": 4096}) == {}


def test_saturated_lines_have_a_queue_and_a_full_cache() -> None:
    load = _load(_line(3, 26, 91.5), _line(3, 0, 99.0), _line(3, 26, 89.9))
    assert (load["stats_lines"], load["saturated_lines"], load["queued_lines"]) == (3, 1, 2)
    assert (load["peak_waiting"], load["peak_kv_cache_usage_percent"]) == (26, 99.0)


def test_a_queue_behind_a_constant_number_of_requests_is_pinned() -> None:
    load = _load(_line(40, 5, 12.0), _line(64, 9, 20.0), _line(64, 90, 31.0), _line(63, 90, 31.0), _line(64, 2, 30.0))
    assert load["pinned_lines"] == 3  # the line with 40 was a ramp, the one with 63 a gap
    assert load["queued_while_empty_lines"] == 5


def test_a_full_cache_is_not_pinned() -> None:
    assert _load(_line(64, 9, 95.0), _line(64, 9, 99.0))["pinned_lines"] == 0


def test_only_the_engines_at_the_common_peak_are_pinned() -> None:
    lines = [_line(8, 4, 10.0, engine_index=0), _line(3, 1, 10.0, engine_index=1)] * 3
    assert _load(*lines)["pinned_lines"] == 3


def test_a_stall_is_counted_for_each_engine_apart() -> None:
    lines = [_line(0, 2, engine_index=0), _line(5, 0, 10.0, engine_index=1)] * 4
    load = _load(*lines)
    assert (load["longest_stall"], load["stalled_at_end"], load["stalled_lines"]) == (4, 4, 4)


def test_a_stall_that_ended() -> None:
    load = _load(_line(0, 2), _line(0, 2), _line(1, 1), _line(1, 0))
    assert (load["longest_stall"], load["stalled_at_end"]) == (2, 0)


def test_busy_lines_and_prefix_hits() -> None:
    load = _load(_line(1, prefix_cache_hit_percent=0.0), _line(0, prefix_cache_hit_percent=0.0),
                 _line(1, prefix_cache_hit_percent=12.5))
    assert (load["busy_lines"], load["zero_prefix_hit_lines"]) == (2, 2)


def test_thousands_of_engines_do_not_grow_it() -> None:
    load = ServerLoad()
    for index in range(5000):
        load.add(_line(1, 1, 10.0, engine_index=index))
    assert len(load._engines) <= 257
    assert load.summary()["stats_lines"] == 5000


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300), st.floats(0, 100), st.integers(0, 3))))
def test_a_part_is_never_more_than_the_whole(lines: list[tuple[int, int, float, int]]) -> None:
    load = _load(*(_line(r, w, u, engine_index=e) for r, w, u, e in lines))
    if not lines:
        assert load == {}
        return
    assert load["stats_lines"] == len(lines)
    assert load["saturated_lines"] + load["queued_while_empty_lines"] <= load["queued_lines"] <= load["stats_lines"]
    assert load["stalled_at_end"] <= load["longest_stall"] <= load["stalled_lines"] <= load["queued_lines"]
    assert load["pinned_lines"] <= load["queued_lines"]


UNQUEUED = st.tuples(st.integers(0, 9), st.floats(0, 100), st.integers(0, 3), st.sampled_from([None, True, False]))


@given(st.lists(st.tuples(st.lists(UNQUEUED, min_size=1, max_size=6), st.integers(0, 2)), max_size=6))
def test_lines_without_a_queue_count_the_same_at_once(batches: list[tuple[list[tuple[int, float, int, bool | None]], int]]) -> None:
    at_once, in_turn = ServerLoad(), ServerLoad()
    number = 0
    for lines, waiting in batches:
        running, usage, engines, hits = zip(*lines, strict=True)
        counted = at_once.count_unqueued(running, [waiting] * len(lines), usage, engines, hits)
        assert not (counted and waiting)
        for runs, percent, engine, no_hits in lines:
            number += 1
            for load in [in_turn] if counted else [in_turn, at_once]:
                load.count(runs, waiting, percent, engine, bool(no_hits), number, "11-20 14:02:31")
    assert at_once.summary() == in_turn.summary()


def test_a_full_cache_a_queue_and_a_stall_last_apart() -> None:
    load = ServerLoad()
    for second in range(40):
        line = _line(3, 26, 91.5) if second < 10 else _line(64, 9, 20.0) if second < 20 else _line(0, 2) if second < 30 else _line(1)
        load.add(line, Moment(second + 1, f"11-20 14:02:{second:02d}"))
        lasting = load.current_period
        assert (lasting is None) == (second < 2 or second > 31), second
    told = load.summary()
    assert (told["saturation_periods"], told["queue_periods"], told["stall_periods"]) == (1, 1, 1)
    assert told["saturation_time"] == "9 seconds at 11-20 14:02, while up to 26 requests waited"
    assert str(told["queue_time"]).endswith("while up to 9 requests waited")
    assert str(told["stall_time"]).endswith("while up to 2 requests waited")


def test_peaks_an_hour_apart_do_not_last() -> None:
    assert _load(*[_line(30, 5, 95.0), *[_line(30, 0, 60.0)] * 5] * 24)["saturation_periods"] == 0


@pytest.mark.parametrize(("running", "usage", "fit", "usual"), [(40, 60.0, 60.0, False), (256, 90.0, 256.0, True), (8, 0.0, None, False)])
def test_how_many_requests_of_that_length_fit(running: int, usage: float, fit: float | None, usual: bool) -> None:
    load = ServerLoad()
    load.add({"running_requests": running, "kv_cache_usage_percent": usage})
    counted = load.summary()
    assert counted.get("requests_that_fit") == fit
    assert counted["peak_is_usual_limit"] is usual
