"""Logs of one incident -> one report: the earliest cause over all of them, what followed in the others.

A log that shows a fault of its own goes before one of a failed connection, and that before one that shows only that
another process or node was gone. Among those the earliest counts, by clocks that are compared where all nodes are in
step: when the ranks have joined and load the weights.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from vllm_doctor.diagnosis.engine import Diagnosis
from vllm_doctor.diagnosis.run import Run
from vllm_doctor.incident.ranks import silent_ranks
from vllm_doctor.messages import joined, message
from vllm_doctor.reports.model import Consequence, Incident, Report
from vllm_doctor.text.times import seconds_between
from vllm_doctor.timeline.clock import StartClock

_IN_STEP = ("weights", "distributed-init")  # phases that all nodes reach together
_SAME_CLOCK = 5.0  # seconds by which clocks in step may differ
_LOST = re.compile(  # what a process says of one that does not answer
    r"[Cc]onnection (?:reset|closed|refused|aborted)|[Bb]roken pipe|BrokenPipe|[Tt]imed? ?out|TimeoutError|[Hh]eartbeat"
    r"|[Rr]emote process|\bpeer\b|[Aa]ctor (?:is )?d(?:ied|ead)|ActorDied|died unexpectedly"
    r"|Engine ?(?:core|process|Dead)|unexpectedly (?:died|exited)|[Nn]ode (?:died|is dead)")
_CONNECTION = re.compile(r"\bNCCL\b|\bgloo\b|\bTCPStore\b|ProcessGroup")
_CONNECTION_PHASE = "distributed-init"


class _Kind(IntEnum):
    """What a log shows of the incident, the likeliest cause first."""

    FAULT = 0
    CONNECTION = 1  # processes could not be connected
    LOST = 2  # another process or node did not answer
    CASCADE = 3
    NOTHING = 4


class _Log(NamedTuple):
    """One log of the incident; `at` is the time of its failure in seconds on the reference's clock, if known."""

    place: int
    report: Report
    run: Run
    kind: _Kind
    at: float | None


def report_on_incident(read: Sequence[tuple[Diagnosis, Report]]) -> Report:
    """Return the report on the log that has the cause, with the others as its consequences."""
    runs = [diagnosis.reading.analysis().run for diagnosis, _ in read]
    reference = _reference(runs)
    logs = [_Log(place, report, run, _kind(report), _time(run.clock, reference))
            for place, ((_, report), run) in enumerate(zip(read, runs, strict=True))]
    failed = sorted((log for log in logs if log.kind is not _Kind.NOTHING), key=_rank)
    first = failed[0] if failed else logs[0]
    incident = Incident(
        logs=tuple(log.report.source.path for log in logs), cause=_named(first) if failed else None,
        consequences=tuple(map(_named, failed[1:])), silent_ranks=silent_ranks([(log.report, log.run) for log in logs]),
        notes=tuple(_notes(first, failed, logs)))
    return first.report._replace(incident=incident)


def _reference(runs: Sequence[Run]) -> StartClock:
    """Return the clock that the others are compared with: that of the first log that prints times."""
    return next((run.clock for run in runs if run.clock.first), runs[0].clock)


def _rank(log: _Log) -> tuple[int, bool, float, int]:
    return log.kind, log.at is None, log.at or 0.0, log.place


def _kind(report: Report) -> _Kind:
    """Return what a log shows of the incident."""
    cause, failure = report.cause, report.failure
    if report.worst() != "error" and report.status != "failed":
        return _Kind.NOTHING
    if cause is not None and cause.severity == "error":
        return _kind_of(f"{cause.title} {cause.evidence[0].text if cause.evidence else ''}", cause.phase)
    if failure is None or failure.is_consequence or not failure.counts:
        return _Kind.CASCADE
    return _kind_of(f"{failure.exception} {failure.message}")


def _kind_of(text: str, phase: str | None = None) -> _Kind:
    if _LOST.search(text):
        return _Kind.LOST
    return _Kind.CONNECTION if phase == _CONNECTION_PHASE or _CONNECTION.search(text) else _Kind.FAULT


def _time(clock: StartClock, reference: StartClock) -> float | None:
    """Return the second of a log's failure after the reference's first line, on the reference's clock."""
    time = clock.error or clock.last
    seconds = seconds_between(reference.first, time) if time and reference.first else None
    return None if seconds is None else seconds - _offset(clock, reference)


def _offset(clock: StartClock, reference: StartClock) -> float:
    """Return by how many seconds a clock is ahead of the reference; 0 where the logs do not show it."""
    for phase in _IN_STEP:
        times = [dict(one.phases).get(phase) for one in (reference, clock)]
        if times[0] and times[1]:
            offset = seconds_between(times[0], times[1]) or 0.0
            return offset if abs(offset) > _SAME_CLOCK else 0.0
    return 0.0


def _named(log: _Log) -> Consequence:
    """Return a log with its failure: the rule's id, else the signature."""
    report = log.report
    failure = report.failure
    return Consequence(report.source.path, report.primary or (failure.signature if failure is not None else None))


def _notes(first: _Log, failed: Sequence[_Log], logs: Sequence[_Log]) -> list[str]:
    """Return who printed the cause, which clocks differ, and which logs show no failure."""
    notes: list[str] = []
    hits = first.run.hits.get(first.report.primary or "")
    if hits is not None and hits.first:
        hit = hits.first[0]
        who: list[str] = [message("rank {rank}", rank=hit.rank)] if hit.rank is not None else []
        who += [hit.process] if hit.process else []
        if who:
            notes.append(message("The cause was printed by {who}.", who=joined(", ", who)))
    if first.kind is _Kind.LOST:
        notes.append(message("These logs show only that processes lost each other: look for the log of another node "
                             "or rank."))
    reference = _reference([log.run for log in logs])
    for log in logs:
        offset = _offset(log.run.clock, reference)
        if offset:
            notes.append(message("The clock of {log} is about {seconds:.0f} s ahead.", log=log.report.source.path,
                                 seconds=offset) if offset > 0 else message(
                "The clock of {log} is about {seconds:.0f} s behind.", log=log.report.source.path, seconds=-offset))
    good = [log.report.source.path for log in logs if log not in failed]
    if good and failed:
        notes.append(message("No failure in {good}.", good=joined(", ", good)))
    return notes
