"""The course of the load: bounded, and the same however the lines arrive."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_doctor.facts.load_curve import LoadCurve, LoadPoint


def test_few_lines_are_points_of_their_own() -> None:
    curve = LoadCurve()
    for number in range(240):
        curve.add(number / 10, number, 0)
    assert curve.lines_per_point == 1
    assert curve.points[7] == LoadPoint(0.7, 7, 0)
    curve.add(99.5, 3, 12)
    assert curve.lines_per_point == 2
    assert len(curve.points) == 121
    assert curve.points[0] == LoadPoint(0.1, 1, 0)
    assert curve.points[-1] == LoadPoint(99.5, 3, 12)
    curve.add(1.0, 5, 2)
    assert curve.points[-1] == LoadPoint(99.5, 5, 12)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 400), max_size=12))
def test_lines_together_are_the_same_as_one_by_one(sizes: list[int]) -> None:
    together, singly = LoadCurve(), LoadCurve()
    number = 0
    for size in sizes:
        running = [(number + offset) * 7919 % 101 for offset in range(size)]
        usage = [value / 2 for value in running]
        number += size
        together.add_unqueued(usage, running)
        for value, percent in zip(running, usage, strict=True):
            singly.add(percent, value, 0)
    assert together.points == singly.points
    assert together.lines_per_point == singly.lines_per_point
    assert len(together.points) <= 240
