"""The reading of a log whose newest lines come first: see `vllm_doctor.logs.newest_first`."""

from __future__ import annotations

from vllm_doctor.diagnosis.log_reading import LogReading
from vllm_doctor.logs.newest_first import is_newest_first, oldest_first
from vllm_doctor.messages import message
from vllm_doctor.reports.model import Report

REVERSED = message("The newest lines of this log come first; it was read from its last line to its first.")
TOO_LONG = message("The newest lines of this log come first, and it is too long to be turned around here: reverse it "
                   "(tac FILE), then diagnose it again.")


def is_reversed(data: bytes | bytearray) -> bool:
    """Return whether the newest lines of a log, or of its beginning, come first."""
    return is_newest_first(_lines(data))


def read(data: bytes, raw: LogReading) -> tuple[LogReading, Report] | None:
    """Read a log from its last line to its first if its newest lines come first; return the reading and the report.

    `raw` is the reading in the order of the input; the secrets that it found stay hidden.
    """
    lines = _lines(data)
    if not is_newest_first(lines):
        return None
    reading = raw.anew(raw.options, live=False)
    reading.feed_rows(oldest_first(lines))
    reading.session.finish()
    report = reading.report()
    counted = raw.session.lines
    source = report.source._replace(lines=counted.line_count, bytes=counted.byte_count)
    return reading, report._replace(source=source, notes=(REVERSED, *report.notes))


def _lines(data: bytes | bytearray) -> list[str]:
    return data.decode("utf-8", "replace").removesuffix("\n").split("\n")
