"""Lines that a terminal broke at its width: the rows of one log line are joined again.

A log copied from a terminal, tmux or a chat has each long line in rows of equal width. `RowJoiner` finds the width from
the rows themselves and gives up as soon as a line proves that no terminal broke this log. k9s and similar tools draw a
frame around a pod's log; a log copied from there has its bars and padding in every row.
"""

from __future__ import annotations

from vllm_doctor.logs.wrappers import Unwrapper
from vllm_doctor.text.patterns import lazy_pattern

_MIN_WIDTH, _MAX_WIDTH = 60, 250
_MAX_ROWS = 400
_BREAKS = 3  # lines broken once, at the same width, that prove the width
_GIVE_UP = 2000  # lines without evidence of a terminal's width
_NO_CONTINUATION = lazy_pattern(r"\s{2}|[|+=*#~^-]{2}|[|+╭│╰┌└├]|```|[>$#] |$|[^\s@]{1,80}@\S{1,255}?[:~]|\(\S+ pid=")

_PADDING = "  "  # of a row that a terminal filled up: its line ends there

_BAR = "│ "
_FRAMES = frozenset("│┌┐└┘├┤╭╮╰╯")

_WORD = lazy_pattern(r"\w\w$")
_TORN_CALL = lazy_pattern(r'[^"]*\bFile "[^"]+$')
_REST_OF_CALL = lazy_pattern(r'[^"]+", line \d+, in ')
_STATISTICS, _END_OF_STATISTICS = "Avg prompt throughput: ", "KV cache usage: "


class RowJoiner:
    """The joining of the rows of a line that a terminal broke at its width W.

    W is assumed after two consecutive full rows that continue one log line, at a call of a traceback that is broken
    within its path, at a line of statistics that is broken once, or at the third other line that is broken once, within
    a word, while no line was longer than W; later broken lines may then have one break. It gives up at the first line
    longer than any terminal is wide.
    """

    def __init__(self, unwrapper: Unwrapper) -> None:
        self.off = False
        self._unwrapper = unwrapper
        self._width = 0
        self._widest = _MIN_WIDTH
        self._seen = 0
        self._rows: list[tuple[int, str]] = []
        self._framed = False  # whether the rows are in a frame
        self._broken: set[str] = set()  # the different lines of the greatest width that seem to be broken once

    def push(self, number: int, text: str) -> list[tuple[int, str]]:
        """Add a line; return the lines that are complete."""
        if text.startswith(_BAR) and (row := self._text_in_frame(text)) is not None:
            return self._push_inside(number, *row)
        size = len(text)
        if self._framed or (size > _MAX_WIDTH and text[0] in _FRAMES):
            return [*self.flush(), (number, text)]
        complete: list[tuple[int, str]] = []
        if self._rows:
            if size <= len(self._rows[0][1]) and len(self._rows) < _MAX_ROWS and self._continues(text):
                self._rows.append((number, text))
                return [] if size == len(self._rows[0][1]) and not text.endswith(_PADDING) else self.flush()
            complete = self.flush(whole=size <= len(self._rows[0][1]))
        self._seen += 1
        if size > self._widest:
            if size > _MAX_WIDTH or self._width:
                self.off = True
            self._widest = size
            self._broken.clear()
        if self._seen > _GIVE_UP and not self._width:
            self.off = True
        if not self.off and size == self._widest and size > _MIN_WIDTH and not text.endswith(_PADDING):
            self._rows = [(number, text)]
            return complete
        complete.append((number, text))
        return complete

    def flush(self, *, whole: bool = True) -> list[tuple[int, str]]:
        """Return the rows held back: joined if they are one line (`whole`: no longer line follows), else unchanged."""
        rows, self._rows = self._rows, []
        if not rows:
            return []
        if not self._framed:
            width = len(rows[0][1])
            full = sum(len(text) == width for _, text in rows)
            if not whole or len(rows) < 2 or not (full >= 3 or (full == 2 and len(rows) == 3) or width == self._width
                                                  or self._broken_again(rows)):
                return rows
            self._width = width
        return [(rows[0][0], "".join(text for _, text in rows))]

    def _text_in_frame(self, text: str) -> tuple[str, bool] | None:
        """Return the text of a row in a frame, and whether it fills the row; None before a log line in such a frame."""
        row = text.rstrip()
        closed = row.endswith(" │")
        room = row[2:-2] if closed else row[2:]
        message = room.rstrip()
        if not self._framed:
            if not closed or not message or message[0].isspace() or not self._unwrapper.begins_log_line(message):
                return None
            self._framed = True
            self._unwrapper.count("frame")
        full = closed and len(room) - len(message) <= 1  # it may be broken at a blank
        return (room if full else message), full

    def _push_inside(self, number: int, message: str, full: bool) -> list[tuple[int, str]]:
        """Add a row in a frame, which continues in the next one if it is full; return the complete lines."""
        complete: list[tuple[int, str]] = []
        if self._rows:
            if len(self._rows) < _MAX_ROWS and self._continues(message):
                self._rows.append((number, message))
                return [] if full else self.flush()
            complete = self.flush()
        if not full:
            return [*complete, (number, message)]
        self._rows = [(number, message)]
        return complete

    def _broken_again(self, rows: list[tuple[int, str]]) -> bool:
        """Return whether this line is sure to be broken, or is the third of its width that continues inside a word."""
        first, second = rows[0][1], rows[1][1]
        if len(rows) == 2 and _is_torn(first, second):
            return True
        if len(rows) == 2 and len(self._broken) < _BREAKS and _WORD.match(first[-1:] + second[:1]):
            self._broken.add(first)
        return len(self._broken) >= _BREAKS

    def _continues(self, text: str) -> bool:
        """Return whether a row continues the line held back, which must begin as a log line does."""
        begins_log_line = self._unwrapper.begins_log_line
        if begins_log_line(text) or (len(self._rows) == 1 and not begins_log_line(self._rows[0][1])):
            return False
        return not _NO_CONTINUATION.match(text) and not self._unwrapper.looks_wrapped(text)


def _is_torn(first: str, second: str) -> bool:
    """Return whether a call of a traceback or a line of statistics is sure to be broken between two rows."""
    if _STATISTICS in first:
        return _END_OF_STATISTICS not in first and _END_OF_STATISTICS in second
    return _TORN_CALL.match(first) is not None and _REST_OF_CALL.match(second) is not None
