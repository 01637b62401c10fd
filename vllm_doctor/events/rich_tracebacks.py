"""Tracebacks that the library Rich draws in a box, as many command-line programs print them."""

from __future__ import annotations

from vllm_doctor.text.patterns import lazy_pattern
from vllm_doctor.text.traceback_head import TRACEBACK, TRACEBACK_WORDS

_HEAD = lazy_pattern(r"\s*[╭+][─-]+ Traceback \(most recent call last\) [─-]+", cues=(TRACEBACK_WORDS,))
_FOOT = lazy_pattern(r"\s*[╰+][─-]{8,}")
_CALL = lazy_pattern(
    r"(?P<path>(?:[~/.\w*]|[A-Za-z]:\\)[^:\n]{0,400}\.py):(?P<line>\d{1,9}) in (?P<function>[\w<>.]{1,200})$")
_PATH = lazy_pattern(r"(?:[~/]|[A-Za-z]:\\)\S{20,400}$")
"""The beginning of a path that continues in the next row."""
_RAISES = lazy_pattern(r"(?:[❱>?]|\\u2771) +\d{1,6} (?:[│|] {0,3})*(?P<code>.*)$")


def begins_box(text: str) -> bool:
    """Return whether a line begins such a traceback."""
    return _HEAD.match(text) is not None


class RichBox:
    """The rows of one box, converted to the lines that Python prints for the same traceback."""

    def __init__(self) -> None:
        self._is_open = False
        self._path = ""  # the beginning of a path that was broken at the width of the box

    def line(self, text: str) -> str | None:
        """Return the line of a traceback for a row; empty for a row that has none, None for a line of no box."""
        if begins_box(text):
            self._is_open, self._path = True, ""
            return TRACEBACK
        row = text.strip()
        if not row.startswith(("│ ", "| ")):
            is_foot = self._is_open and _FOOT.match(text) is not None
            self._is_open = False
            return "" if is_foot else None
        inside = row[2:].rstrip("│| ").lstrip(" ")
        path = self._path + inside
        call = _CALL.match(path)
        if call is not None and (self._is_open or row.startswith("│")):
            self._is_open, self._path = True, ""
            return f'  File "{call["path"]}", line {call["line"]}, in {call["function"]}'
        if not self._is_open:
            return None
        self._path = path if _PATH.match(path) else ""
        raises = _RAISES.match(inside)
        return f"    {raises['code']}" if raises is not None else ""
