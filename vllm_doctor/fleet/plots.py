"""The plots of the summary page as numbers: what a template draws as SVG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from statistics import median
from typing import NamedTuple

from vllm_doctor.fleet.summary import Summary
from vllm_doctor.messages import N_, message

_WIDTH, _HEIGHT = 1000, 240  # the picture's units
_COLORS = 6  # causes with a colour of their own
_MOST_BINS = 60
_MOST_BARS = 20


class Block(NamedTuple):
    """A part of a column; `kind` is its colour."""

    kind: str
    label: str
    x: float
    y: float
    width: float
    height: float


class Columns(NamedTuple):
    """A plot of columns: its blocks, the kinds with their names, the first and the last time, the highest count."""

    blocks: tuple[Block, ...]
    legend: tuple[tuple[str, str], ...]
    first: str
    last: str
    highest: int


class Bar(NamedTuple):
    """A bar of a table: a name, its length in the picture's units, and what it says."""

    name: str
    width: float
    words: str


def causes_over_time(summary: Summary) -> Columns | None:
    """Return the failures by the time of their last line, by hour or day; None where the logs have no times."""
    if not summary.hours:
        return None
    hours = summary.hours
    if len(hours) > _MOST_BINS:
        hours = _by_day(hours)
    times = sorted(hours)[-_MOST_BINS:]
    leading = [group.id for group in summary.causes[:_COLORS]]
    highest = max(sum(hours[time].values()) for time in times)
    step = _WIDTH / len(times)
    blocks: list[Block] = []
    for place, time in enumerate(times):
        top = float(_HEIGHT)
        others = sum(count for cause, count in hours[time].items() if cause not in leading)
        for number, (cause, count) in enumerate([*((one, hours[time][one]) for one in leading), ("others", others)]):
            if count:
                height = count / highest * _HEIGHT
                top -= height
                blocks.append(Block(f"kind{number}", f"{time}: {count} x {cause}", round(place * step, 2),
                                    round(top, 2), round(max(step - 2, 1), 2), round(height, 2)))
    names = [(f"kind{number}", cause) for number, cause in enumerate(leading)]
    used = {block.kind for block in blocks}
    legend = [*names, (f"kind{len(leading)}", N_("other causes"))]
    return Columns(tuple(blocks), tuple(item for item in legend if item[0] in used), times[0], times[-1], highest)


def _by_day(hours: Mapping[str, Counter[str]]) -> dict[str, Counter[str]]:
    days: dict[str, Counter[str]] = {}
    for hour, counts in hours.items():
        days.setdefault(hour.split(" ")[0], Counter()).update(counts)
    return days


def failures(failed: Mapping[str, int], starts: Mapping[str, int]) -> tuple[Bar, ...]:
    """Return the names with the most failed starts, with their share of all starts of that name."""
    ranked = sorted((name for name in failed if failed[name]), key=lambda name: (-failed[name], name))[:_MOST_BARS]
    highest = max((failed[name] for name in ranked), default=1)
    return tuple(Bar(name, round(failed[name] / highest * _WIDTH, 2),
                     message("{failed} of {starts} starts failed", failed=failed[name], starts=starts[name]))
                 for name in ranked)


def start_seconds(summary: Summary) -> tuple[Bar, ...]:
    """Return the median time to serve, by release."""
    medians = {release: median(values) for release, values in summary.seconds.items()}
    longest = max(medians.values(), default=0.0) or 1.0
    return tuple(Bar(release, round(medians[release] / longest * _WIDTH, 2),
                     message("median {median:.0f} s, {least:.0f} to {most:.0f} s, {count} starts",
                             median=medians[release], least=min(values), most=max(values), count=len(values)))
                 for release, values in sorted(summary.seconds.items(), key=lambda item: _numbers(item[0])))


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part.isdigit())
