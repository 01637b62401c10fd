"""Tracebacks on one line: a log shipper, or whoever quoted them, joined the lines that Python printed."""

from __future__ import annotations

from typing import NamedTuple

from vllm_doctor.events.code_paths import frame
from vllm_doctor.text.patterns import lazy_pattern
from vllm_doctor.text.traceback_head import TRACEBACK

_CALL = lazy_pattern(
    r'File \\?"(?P<path>[^"\\]{1,400})\\?", line \d+, in (?P<function>[\w<>.]{1,200}?)(?P<more>\s+(?=\S)|\\n|\s*$)',
    cues=('File "', 'File \\"'),
)
_EXCEPTION = lazy_pattern(
    r"(?:(?<=\\n)|(?<![\w.'\"(\\]))(?<!except )"
    r"(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Exit): ",
    cues=("Error: ", "Exception: ", "Interrupt: ", "Exit: "),
)


class JoinedTraceback(NamedTuple):
    """A traceback on one line: the message before it, its calls, and its exception with the text after it."""

    prefix: str
    frames: list[str]
    exception: str
    has_head: bool  # whether the head `Traceback (…)` is present


def parse_joined_traceback(message: str) -> JoinedTraceback | None:
    """Parse a traceback whose lines were joined to one; return None for other lines."""
    if ", line " not in message:
        return None
    head = message.find(TRACEBACK)
    calls = list(_CALL.finditer(message, max(0, head)))
    if not calls or (head < 0 and len(calls) < 2):
        return None
    first = _EXCEPTION.search(message, calls[0].end())
    if first is not None:  # later calls belong to another traceback
        calls = [call for call in calls if call.start() < first.start()]
    frames = [frame(call["path"], call["function"]) for call in calls]
    prefix = message[:head].strip() if head > 0 else ""
    return JoinedTraceback(prefix, frames, message[first.start():] if first else "", head >= 0)
