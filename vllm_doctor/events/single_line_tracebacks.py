"""Tracebacks in one line: a shipper of logs, or who quoted them, joined what Python printed as many."""

from __future__ import annotations

from typing import NamedTuple

from vllm_doctor.events.code_paths import frame
from vllm_doctor.patterns import lazy

TRACEBACK = "Traceback (most recent call last):"
_CALL = lazy(
    r'File \\?"(?P<path>[^"\\]{1,400})\\?", line \d+, in (?P<function>[\w<>.]{1,200}?)(?P<more>\s+(?=\S)|\\n|\s*$)',
    cues=('File "', 'File \\"'),
)
_EXCEPTION = lazy(
    r"(?:(?<=\\n)|(?<![\w.'\"(\\]))(?<!except )"
    r"(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Exit): ",
    cues=("Error: ", "Exception: ", "Interrupt: ", "Exit: "),
)


class JoinedTraceback(NamedTuple):
    """A traceback in one line: what was said before it, its calls, its exception's message and what follows."""

    said: str
    frames: list[str]
    exception: str
    opens: bool  # whether its head is there


def joined_traceback(message: str) -> JoinedTraceback | None:
    """The traceback whose lines were joined to one; None for a line that is none."""
    if ", line " not in message:
        return None
    head = message.find(TRACEBACK)
    calls = list(_CALL.finditer(message, max(0, head)))
    if not calls or (head < 0 and len(calls) < 2):
        return None
    first = _EXCEPTION.search(message, calls[0].end())
    if first is not None:  # calls behind it are of another traceback
        calls = [call for call in calls if call.start() < first.start()]
    frames = [frame(call["path"], call["function"]) for call in calls]
    said = message[:head].strip() if head > 0 else ""
    return JoinedTraceback(said, frames, message[first.start():] if first else "", head >= 0)
