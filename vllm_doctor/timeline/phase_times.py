"""Clock -> Timeline: the seconds of each phase, the durations printed beside them, the longest phase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vllm_doctor.catalog.releases import Releases
from vllm_doctor.facts.store import number
from vllm_doctor.text.times import seconds_between
from vllm_doctor.timeline.clock import StartClock
from vllm_doctor.timeline.faster_start import advice
from vllm_doctor.timeline.model import PhaseTime, Timeline

_PRINTED = {  # the facts with the duration of (a part of) each phase, the one that covers most first
    "weights": ("model_load_seconds", "weights_load_seconds"),
    "profiling": ("torch_compile_seconds",),
    "graph-capture": ("graph_capture_seconds",),
}
_ENGINE = ("profiling", "kv-cache", "graph-capture")  # what "init engine (profile, create kv cache, …) took" covers


def timeline(clock: StartClock, facts: Mapping[str, Any], releases: Releases) -> Timeline | None:
    """Return the timeline of a start, from its first line to the service, its failure or its last line.

    None if the log has no clock, or clocks that contradict each other, or shows no phase of the start.
    """
    phases = [item for item in clock.phases if item[0] != "runtime"]
    if not clock.first or not phases:
        return None
    served = clock.serving or dict(clock.phases).get("runtime", "")
    end = served or clock.error or clock.last
    total = seconds_between(clock.first, end)
    if total is None or total < 0:
        return None
    begins = _begins(clock.first, _with_weights(phases), total)
    begins = _with_late_marker(_with_profiling(begins, facts), facts, total)
    ends = [*(begin for _, begin in begins[1:]), total]
    times = tuple(PhaseTime(phase, round(until - begin, 3), _printed(phase, facts))
                  for (phase, begin), until in zip(begins, ends, strict=True))
    longest = max(times, key=lambda one: one.seconds)
    dominant = longest.phase if longest.seconds > 0 else None
    return Timeline(total, times, round(total - _explained(times, facts), 3), dominant, clock.first, end, bool(served),
                    advice(dominant, facts, releases) if dominant else ())


def _with_weights(phases: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the phases with the loading of the weights, of which old releases print only the end.

    It begins with the phase before it, whose own part the log does not show.
    """
    names = [phase for phase, _ in phases]
    if "profiling" not in names[1:] or "weights" in names:
        return phases
    place = names.index("profiling")
    return [*phases[:place], ("weights", phases[place - 1][1]), *phases[place:]]


def _begins(first: str, phases: list[tuple[str, str]], total: float) -> list[tuple[str, float]]:
    """Return the second at which each phase began; the first phase covers what was printed before it.

    A clock that was set back, and processes that print out of order, never make a phase shorter than nothing.
    """
    begins: list[tuple[str, float]] = []
    for phase, time in phases:
        at = (seconds_between(first, time) or 0.0) if begins else 0.0
        begins.append((phase, min(max(at, begins[-1][1] if begins else 0.0), total)))
    return begins


def _with_profiling(begins: list[tuple[str, float]], facts: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return the phases with the profiling, where only the duration of all that follows it is printed.

    It begins as long before the engine is ready as that took.
    """
    names, took = [phase for phase, _ in begins], number(facts, "init_engine_seconds")
    if took is None or "profiling" in names or "api" not in names or "kv-cache" not in names[1:]:
        return begins
    place = names.index("kv-cache")
    begin = max(begins[names.index("api")][1] - took, begins[place - 1][1])
    return [*begins[:place], ("profiling", begin), *begins[place:]] if begin < begins[place][1] else begins


def _with_late_marker(begins: list[tuple[str, float]], facts: Mapping[str, Any],
                      total: float) -> list[tuple[str, float]]:
    """Return the phases with the graph capture begun as long before its end as it took.

    Without a progress bar, the first line of that phase is the one that says that it is over.
    """
    took = _printed("graph-capture", facts)
    names = [phase for phase, _ in begins]
    if took is None or "graph-capture" not in names:
        return begins
    place = names.index("graph-capture")
    until = begins[place + 1][1] if place + 1 < len(begins) else total
    earliest = begins[place - 1][1] if place else 0.0
    begin = min(begins[place][1], max(until - took, earliest))
    return [*begins[:place], ("graph-capture", begin), *begins[place + 1:]]


def _printed(phase: str, facts: Mapping[str, Any]) -> float | None:
    """Return the duration that the log prints for a phase; None if it prints none."""
    return next((took for name in _PRINTED.get(phase, ()) if (took := number(facts, name)) is not None), None)


def _explained(phases: tuple[PhaseTime, ...], facts: Mapping[str, Any]) -> float:
    """Return the seconds for which the log prints a duration, none counted twice or beyond its phase."""
    printed = sum(min(one.seconds, one.printed or 0.0) for one in phases if one.phase not in _ENGINE)
    engine = [one for one in phases if one.phase in _ENGINE]
    parts = sum(min(one.seconds, one.printed or 0.0) for one in engine)
    whole = min(number(facts, "init_engine_seconds") or 0.0, sum(one.seconds for one in engine))
    return printed + max(parts, whole)
