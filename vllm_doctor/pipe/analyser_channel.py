"""The pipe between pump and analyser, and the analyser's end of it.

Data is passed in frames, so that a gap in it (`Gap`: the analyser was too slow, the oldest bytes were dropped) is
reported with its size, and two streams can share the pipe. `Reader` turns the frames back into bytes and gaps.
"""

from __future__ import annotations

import os
import select
import struct
from collections.abc import Iterator
from typing import NamedTuple

from vllm_doctor.pipe.status_line import StatusText

READ_SIZE = 256 * 1024  # bytes a read; larger gains nothing

# kind, number of bytes, number of newlines. Kind: bit 0 = stream (0 stdout, 1 stderr); GAP: no payload
# follows, the numbers say what was dropped here; CUT: the gap ends inside a line, whose rest is useless.
FRAME = struct.Struct("<BQQ")
GAP, CUT = 2, 4


class Gap(NamedTuple):
    """A gap in the data that the analyser received. Add `lines` to the line number to keep it right."""

    size: int  # bytes
    lines: int


class Reader:
    """The analyser's end of the pipe.

    Iterating gives `bytes` as they come and a `Gap` where some are missing. Text before and after a gap is
    never joined: the line the gap cuts is ended by a newline, and reading resumes at the start of a line. With
    `whole_lines` (two streams in one pipe) an unfinished line waits for its end, so that lines do not mix.
    `status` takes the text of the terminal's status line.
    """

    _MAX_HELD = 64 * 1024

    def __init__(self, fd: int, *, whole_lines: bool = False, status: StatusText | None = None) -> None:
        self.status = status or StatusText()
        self._fd = fd
        self._whole_lines = whole_lines
        self._held = [b"", b""]  # a stream's unfinished line (whole_lines only)
        self._mid_line = [False, False]  # the stream's last byte given out was no line end
        self._gap: list[Gap | None] = [None, None]  # met, but its end not yet
        self._cut = [False, False]  # that gap ends inside a line
        self._source = self._pieces()
        self._hurried = False
        self.missed = 0  # bytes in all gaps so far

    def __iter__(self) -> Iterator[bytes | Gap]:
        return self._source

    def hurry(self) -> None:
        """Stop reading here and leave out the rest: the report must come now."""
        self._hurried = True

    def wait(self, seconds: float) -> bool:
        """Return whether data arrives within `seconds`. Call it between pieces, to report while the log is silent."""
        return self._hurried or bool(select.select([self._fd], [], [], seconds)[0])

    def _pieces(self) -> Iterator[bytes | Gap]:
        buffer = b""
        kind, missing = 0, 0  # the frame being read and the bytes still to come of it
        while not self._hurried and (chunk := os.read(self._fd, READ_SIZE)):
            buffer = buffer + chunk if buffer else chunk
            at = 0
            parts: list[bytes] = []
            while at < len(buffer):
                if missing:
                    data = buffer[at : at + missing]
                    at += len(data)
                    missing -= len(data)
                    resumed, data = self._resync(kind, data)
                    if resumed:
                        if joined := b"".join(parts):
                            yield joined
                        parts = []
                        yield resumed
                    parts.append(self._complete_lines(kind, data))
                elif len(buffer) - at < FRAME.size:
                    break
                else:
                    kind, size, lines = FRAME.unpack_from(buffer, at)
                    at += FRAME.size
                    if kind & GAP:
                        parts.append(self._open_gap(kind, size, lines))
                    else:
                        missing = size
            buffer = buffer[at:]
            if joined := b"".join(parts):
                yield joined
        yield from self._rest()

    def _open_gap(self, kind: int, size: int, lines: int) -> bytes:
        """Note a gap; return the bytes that end the line before it."""
        stream = kind & 1
        self.missed += size
        before, self._held[stream] = self._held[stream], b""
        earlier = self._gap[stream]
        if earlier:  # no data came between
            size, lines = size + earlier.size, lines + earlier.lines
        elif before or self._mid_line[stream]:
            before += b"\n"
            lines -= 1
        self._gap[stream], self._cut[stream] = Gap(size, lines), bool(kind & CUT)
        self._mid_line[stream] = False
        return before

    def _resync(self, kind: int, data: bytes) -> tuple[Gap | None, bytes]:
        """Return (the gap that ends in this data, the data after it)."""
        stream = kind & 1
        gap = self._gap[stream]
        if gap is None:
            return None, data
        if self._cut[stream]:
            end = data.find(b"\n") + 1
            dropped = end or len(data)
            self.missed += dropped
            gap = Gap(gap.size + dropped, gap.lines + bool(end))
            if not end:
                self._gap[stream] = gap
                return None, b""
            data = data[end:]
        self._gap[stream] = None
        return gap, data

    def _complete_lines(self, kind: int, data: bytes) -> bytes:
        stream = kind & 1
        if not data:
            return b""
        if not self._whole_lines:
            self._mid_line[stream] = not data.endswith(b"\n")
            return data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not end and len(self._held[stream]) + len(data) <= self._MAX_HELD:
            self._held[stream] += data
            return b""
        end = end or len(data)
        whole = self._held[stream] + data[:end]
        self._held[stream] = data[end:]
        self._mid_line[stream] = not whole.endswith((b"\n", b"\r"))
        return whole

    def _rest(self) -> Iterator[bytes | Gap]:
        for stream in (0, 1):
            if gap := self._gap[stream]:
                yield gap
            if held := self._held[stream]:
                yield held + b"\n" if stream == 0 and self._held[1] else held
