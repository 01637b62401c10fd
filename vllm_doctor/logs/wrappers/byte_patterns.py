"""The wrappers around most long logs, as expressions on bytes for lines that are not unwrapped.

A time stamp before each line (kubectl, docker), the name of a container (compose), a host and its program (journald),
Docker's JSON around it, and the colour of vLLM's process.
"""

from __future__ import annotations

from typing import NamedTuple

from vllm_doctor.logs.wrappers.timestamps import STAMP
from vllm_doctor.text.patterns import lazy_pattern, portable

_DATE = r"[A-Z][a-z][a-z] [ 0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9] "
_CONTAINER = r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,120}+(?= {1,80}+\| )"
_PROGRAM = r"[A-Za-z0-9_.-]{1,255}+ [A-Za-z][^ \[\]:]{0,80}+\[[0-9]+\](?=: )"
_TIME, _INNER_TIME = rf"(?:{STAMP} |{_DATE})?+", rf"(?:{STAMP} )?+"
_NAMED = r"(?: {1,80}+\| |: )"  # after a source
WRAPPER = rf"(?=[A-Za-z0-9]){_TIME}(?:(?P<source>{_CONTAINER}|{_PROGRAM}){_NAMED})?+{_INNER_TIME}"
SAME_WRAPPER = rf"{_TIME}(?(source)(?P=source){_NAMED}){_INNER_TIME}"
"""The same wrapper before a later line of the message that WRAPPER precedes."""
COLOUR = r"\x1b\[[0-9;]{1,8}m"
JSON = r'\{"log":"'
JSON_END = r'\\n","stream":"std(?:out|err)","time":"[0-9TZ:.+-]+"\}'


def process_of(name: str) -> str:
    """Return the expression for a process as vLLM prints it, given the expression for the text in brackets."""
    return rf"(?:{COLOUR})?\({name}\)(?:{COLOUR})? "


_PROCESS = process_of(r"[^()\n]{1,120}+")
_WRAPPER_AND_PROCESS = lazy_pattern(
    portable(rf"(?P<wrapper>(?:{WRAPPER}|{JSON})?)(?P<process>(?:{_PROCESS})?)").encode())
_JSON_END = lazy_pattern(rf"{JSON_END}[ \r]*\n$".encode())
_COLON = ord(":")
_NOTHING = slice(0)


class MessageWrapper(NamedTuple):
    """The wrapper of a message, for lines that differ only in their digits.

    `size` is its size in bytes before the message and `rest` after it; `source` is the name in the wrapper,
    `process` the process that vLLM prints.
    """

    size: int
    source: slice
    process: slice
    rest: int = 0


def wrapper_of(line: bytes) -> MessageWrapper:
    """Return the wrapper of a line."""
    match = _WRAPPER_AND_PROCESS.match(line)
    if match is None or (match.start("source") == 0 and line[match.end("source")] == _COLON):  # no date: a message
        return NO_WRAPPER
    source = slice(*match.span("source")) if match["source"] else _NOTHING
    end = _JSON_END.search(line) if line[:1] == b"{" else None
    rest = len(line) - end.start() if end else 0
    return MessageWrapper(match.end("wrapper"), source, slice(*match.span("process")), rest)


NO_WRAPPER = MessageWrapper(0, _NOTHING, _NOTHING)
