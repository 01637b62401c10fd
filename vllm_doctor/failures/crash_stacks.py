"""Stacks that a crashed process prints under its last message: faulthandler's, PyTorch's, UCX's, a debugger's.

They print the most recent call first, the reverse of a traceback.
"""

from __future__ import annotations

from dataclasses import dataclass

from vllm_doctor.failures.model import Candidate, Frame
from vllm_doctor.text.patterns import lazy_pattern

_CRASH = lazy_pattern(
    r"Fatal Python error|encountered !{3}|Segmentation fault|Bus error|Illegal instruction|Caught signal \d"
    r"|terminate called|\*\*\* SIG")
_THREAD = lazy_pattern(
    r"\s{0,8}(?:(?P<other>Thread 0x)|Current thread 0x|Stack \()[^(]{0,99}\(?most recent call first\):")
_PYTHON = lazy_pattern(
    r'\s{0,8}File "(?P<path>[^"<][^"]{0,400})", line (?P<line>\d{1,9}) in (?P<function>[\w<>.]{1,200})')
_NATIVE = (
    lazy_pattern(r'\s{0,8}File "<unknown>", line 0, in (?P<symbol>\S.{0,200})'),
    lazy_pattern(r"\s{0,8}(?:#\d{1,4}|\d{1,4}:?|(?:PC: )?@) +0x[0-9a-f]{1,16} +"
                 r"(?:in +|\(unknown\) +|\d{1,9} +)?(?P<symbol>\S.{0,200})"),
    lazy_pattern(r"\s{0,8}\d{1,4} +(?P<symbol>/\S{1,200}\.so\S{0,200})"),
)
_OF_RAY = lazy_pattern(r"\[[\d :,-]{19,30} [A-Z] \d{1,9} \d{1,9}\] logging\.cc:\d{1,5}: ", cues=("logging.cc:",))
"""Ray's log prefix, which it repeats in each row of a stack."""
_MOST_LINES = 300
_MOST_SYMBOLS = 1000  # characters


@dataclass(slots=True)
class CrashStack:
    """What one process prints under the message of its crash."""

    lines: int = 0
    is_of_other_thread: bool = False


def is_crash(candidate: Candidate) -> bool:
    """Return whether a stack may follow: a process crashed in native code."""
    return candidate.shape == "fatal" and _CRASH.search(candidate.message) is not None


def extended(candidate: Candidate, stack: CrashStack, text: str) -> Candidate | None:
    """Return the candidate with the call that a line of the stack shows; None if the line is not of the stack."""
    stack.lines += 1
    if stack.lines > _MOST_LINES:
        return None
    text = _OF_RAY.sub("", text)
    if not text.strip():
        return candidate
    thread = _THREAD.match(text)
    if thread is not None:
        stack.is_of_other_thread = thread["other"] is not None
        return candidate
    call = _PYTHON.match(text)
    if call is not None:
        if stack.is_of_other_thread:
            return candidate
        frame = Frame(call["path"], int(call["line"]), call["function"])
        return candidate._replace(frames=(frame, *candidate.frames)[-_MOST_LINES:])
    native = next((found for pattern in _NATIVE if (found := pattern.match(text))), None)
    if native is None:
        return None
    symbols = f"{candidate.native}\n{native['symbol']}".lstrip("\n")
    return candidate._replace(native=symbols[:_MOST_SYMBOLS])
