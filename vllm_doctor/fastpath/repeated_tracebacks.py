"""Find a traceback in bytes that were not decoded yet, so that a repeated one is recognized by its calls.

Skipped: the lines of a traceback with the same calls as an earlier one; its exception is counted as a repeated message.
Safe, because only the exception differs between such tracebacks. A traceback counts only if it is complete: each
line has the prefix of the first one except for the time, and the line of the exception follows without indentation.
Gain: one search instead of reading 20 to 100 lines for each failed request.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from vllm_doctor.logs.encoding import line_ends
from vllm_doctor.logs.wrappers.byte_patterns import JSON, JSON_END, SAME_WRAPPER, WRAPPER, process_of
from vllm_doctor.text.patterns import lazy_pattern, portable
from vllm_doctor.text.traceback_head import TRACEBACK

HEAD = TRACEBACK.encode()
# Each line begins as the first one does, except for the time. The calls are indented, the exception is not.
_PROCESS = process_of(r"[!-~]+(?: (?:rank=\d+|[PT]P\d\w*))? pid=\d+")
_BY = rf"(?P<process>(?:{_PROCESS})?)"
_FIRST, _JSON_FIRST = rf"(?P<wrapper>(?:{WRAPPER})?){_BY}", rf"(?P<wrapper>{JSON}){_BY}"
_HEAD = re.escape(TRACEBACK)
_STAMP = r"(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d "


def _calls(first: str, wrapper: str, end: str) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Compile the expressions for a head and its calls, given the first line's begin and each end: printed, logged."""
    same = rf"{wrapper}(?P=process)"
    record = rf"{same}(?P=level) {_STAMP}(?P=place)"
    logged = rf"(?P<level>ERROR|CRITICAL) {_STAMP}(?P<place>\[?[\w./-]+:\d+\] )(?P<text>{_HEAD})"
    return (lazy_pattern(portable(rf"{first}{_HEAD}{end}\r?\n(?:{same}  [^\n]*\n)+(?={same}[A-Za-z_])").encode()),
            lazy_pattern(portable(rf"{first}{logged}{end}\r?\n(?:{record}  [^\n]*\n)+(?={record}[A-Za-z_])").encode()))


_CALLS = _calls(_FIRST, SAME_WRAPPER, "")
_JSON_CALLS = _calls(_JSON_FIRST, JSON, JSON_END)
_PREFIX = lazy_pattern(portable(_FIRST).encode())
_TIME = lazy_pattern(rb"\d\d:\d\d")
_WRAPPER = lazy_pattern(portable(rf"(?m)^(?:{WRAPPER}|{JSON})|{JSON_END}\r?$").encode())
_LONG = 1 << 15  # maximal bytes of its lines
_KNOWN = 8  # tracebacks of one prefix that are compared directly
_REACH = 512  # bytes that contain the prefix of a head


class Traceback(NamedTuple):
    """The lines of a traceback before its exception, and their count; `calls` is equal for the same calls."""

    calls: bytes
    lines: bytes
    line_count: int


class _SamePrefix:
    """The tracebacks whose lines all have the same prefix, without a time in it."""

    def __init__(self, prefix: bytes) -> None:
        same = re.escape(prefix).decode("latin-1")
        head, exception = rf"{same}{_HEAD}\r?\n", f"{same}[A-Za-z_]"
        self._exception = re.compile(exception.encode("latin-1"))
        self._calls = re.compile(rf"{head}(?:{same}  [^\n]*\n)+(?={exception})".encode("latin-1"))
        self._known: tuple[Traceback, ...] = ()  # replaced, never changed: several threads may read logs

    def at(self, block: bytes, begin: int, end: int) -> Traceback | None:
        """Return the traceback that begins at `begin`."""
        for known in self._known:
            lines = known.lines
            if block.startswith(lines, begin, end) and self._exception.match(block, begin + len(lines), end):
                return known
        match = self._calls.match(block, begin, end)
        if not match or len(match[0]) > _LONG:
            return None
        found = _traceback(match[0], match[0])
        self._known = (*self._known, found)[-_KNOWN:]
        return found


def traceback_at(block: bytes, begin: int, end: int) -> Traceback | None:
    """Return the traceback that begins at `begin`; None if it is incomplete or other lines interrupt it."""
    head = block.find(HEAD, begin, end)
    same_prefix = _with_prefix(block[begin:head]) if begin <= head < begin + _REACH else None
    if same_prefix is not None:
        return same_prefix.at(block, begin, end)
    printed, logged = _JSON_CALLS if block.startswith(b"{", begin) else _CALLS
    found = printed.match(block, begin, end) or logged.match(block, begin, end)
    if not found:
        return None
    text = _WRAPPER.sub(b"", found[0]) if found["wrapper"] else found[0]
    if "level" in found.groupdict():
        prefix = found.start("text") - found.end("wrapper")  # equally long on each line
        text = b"\n".join((found["process"], found["level"], found["place"],
                           *(line[prefix:] for line in text.split(b"\n"))))
    return _traceback(text, found[0]) if len(text) <= _LONG else None


def _traceback(text: bytes, lines: bytes) -> Traceback:
    return Traceback(b"%d" % hash(text), lines, line_ends(lines))


@lru_cache(maxsize=64)
def _with_prefix(prefix: bytes) -> _SamePrefix | None:
    """Return the tracebacks of lines with this prefix; None if the prefix contains a time."""
    return None if not _PREFIX.fullmatch(prefix) or _TIME.search(prefix) else _SamePrefix(prefix)
