"""Tracebacks of IPython, which notebooks show below a cell."""

from __future__ import annotations

from vllm_doctor.text.patterns import lazy_pattern
from vllm_doctor.text.traceback_head import TRACEBACK_WORDS

_HEAD = lazy_pattern(r"\s*(?P<name>[A-Z]\w{2,80}) {2,}Traceback \(most recent call last\):?\s*$",
                     cues=(TRACEBACK_WORDS,))
_CALL = lazy_pattern(
    r"\s*(?P<file>File )?\[?(?P<path>[~/.\w][^\s:\]]{0,300}\.py)(?::(?P<line>\d{1,9}))?"
    r"(?P<link>\]\([^)\s]{0,400}\))?,? in (?:[\w.]{1,200}\.)?(?P<function><?\w{1,200}>?)", cues=(".py",))
"""Also where Colab or an editor made a link of the path."""
_CELL = lazy_pattern(r"\s*(?:(?:Cell|Input) In ?\[|<ipython-input-|/tmp/ipykernel_)")
_RAISES = lazy_pattern(r"\s*-{1,5}> ?\[?\d{1,6}(?:\]\([^)\s]{0,400}\)?)?(?: (?P<code>.*))?$")
_CONTEXT = lazy_pattern(r"\s*\d{1,6}(?: |$)")


def class_at_head(text: str) -> str | None:
    """Return the class of the exception, with which IPython begins a traceback; None for another line."""
    match = _HEAD.match(text)
    return match["name"] if match is not None else None


class NotebookTraceback:
    """The rows of one traceback, converted to the lines that Python prints for the same calls."""

    def __init__(self) -> None:
        self._is_open = False

    def line(self, text: str) -> str | None:
        """Return the line of a traceback for a row; empty for a row that has none, None for a line of no traceback."""
        if class_at_head(text) is not None:
            self._is_open = True
            return f"{text.rstrip(': ')}:"
        call = _CALL.match(text)
        if call is not None and (self._is_open or call["link"] or (call["file"] and call["line"])):
            self._is_open = True
            return f'  File "{call["path"]}", line {call["line"] or 0}, in {call["function"]}'
        if not self._is_open:
            return None
        raises = _RAISES.match(text)
        if raises is not None:
            return f"    {raises['code'].strip()}" if raises["code"] else ""
        self._is_open = _CELL.match(text) is not None or _CONTEXT.match(text) is not None
        return "" if self._is_open else None
