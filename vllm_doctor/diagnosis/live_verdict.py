"""What `watch` asks after each line: why the current start has failed, and what limits a serving server now."""

from __future__ import annotations

from vllm_doctor.diagnosis.log_reading import LogReading


def failure_cause(reading: LogReading, *, paused: bool = False) -> str | None:
    """Return the id of the cause of the current start once it has failed, else None.

    `paused`: nothing has come for a while. A start that is silent after a traceback, and whose cause is in that
    traceback, has failed, although no line says so yet.
    """
    run = reading.runs[-1]
    if run.status != "failed" and not (paused and run.is_silent_after_crash):
        return None
    first = next(iter(reading.analysis(run).fired), None)
    if first is None or first.is_fallback or not first.is_error_cause:
        return None
    if run.status != "failed" and (first.rule.survives or first.hits.latest.line < run.crash_line):
        return None
    return first.rule.id


def current_limit(reading: LogReading) -> str | None:
    """Return the id of what limits a serving server, as long as that lasts; None while nothing does."""
    run = reading.runs[-1]
    if run.status == "failed" or run.load.current_period is None:
        return None
    since = run.load.current_period[1].first.line
    return next((item.rule.id for item in reading.analysis(run).fired if item.rule.role == "cause"
                 and item.rule.phase == "runtime" and item.hits.latest.line >= since), None)
