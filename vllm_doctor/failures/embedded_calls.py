"""Calls that pybind11 adds to the message of a Python exception, as Triton's Python backend logs them.

`error_string` of pybind11 (include/pybind11/pytypes.h, 2.6 to 3.0) appends a line `At:` and a row for each call, the
most recent call first. Triton's newer logger escapes the line ends.
"""

from __future__ import annotations

from collections.abc import Iterable

from vllm_doctor.failures.model import Candidate, Frame
from vllm_doctor.text.patterns import lazy_pattern

_HEAD = "At:"
_ESCAPED_HEAD = r"\n\nAt:\n"
_ROW = lazy_pattern(r"\s{0,8}(?P<path>[^\s()][^()]{0,400}\.py)\((?P<line>\d{1,9})\): (?P<function>[\w<>.]{1,200})\s*$",
                    cues=(".py(",))
_REACH = 2  # lines from the message to the head, with a blank one between


def with_escaped_calls(candidate: Candidate) -> Candidate:
    """Return a candidate whose message is in one line with the calls, with both apart."""
    message, head, rows = candidate.message.partition(_ESCAPED_HEAD)
    return candidate._replace(message=message, frames=_frames(rows.split(r"\n"))) if head else candidate


def extended(candidate: Candidate, text: str, line: int) -> Candidate | None:
    """Return the candidate with the call that a row shows; None if the line is neither a row nor the head."""
    if candidate.exception is None or line - candidate.last_line > _REACH:
        return None
    if text.strip() == _HEAD:
        return candidate._replace(last_line=line)
    call = _frames([text])
    return candidate._replace(frames=(*call, *candidate.frames), last_line=line) if call else None


def _frames(rows: Iterable[str]) -> tuple[Frame, ...]:
    """Return the calls of some rows, the most recent last."""
    calls = [call for row in rows if (call := _ROW.match(row)) is not None]
    return tuple(Frame(call["path"], int(call["line"]), call["function"]) for call in reversed(calls))
