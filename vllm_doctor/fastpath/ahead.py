"""Another process goes ahead in a large file and finds the lines worth reading, while this one reads those it found.

The same scanner searches the same bytes, so nothing is read otherwise than without it. Where it is of no use (one core,
a pipe, another platform), or ends before the file does, the reader searches by itself.
"""

from __future__ import annotations

import io
import os
import struct
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from vllm_doctor.fastpath.line_scanner import Row, Scanner, Shape
from vllm_doctor.fastpath.statistics_lines import Sample
from vllm_doctor.logs.encoding import line_ends
from vllm_doctor.logs.inputs import LARGE

if TYPE_CHECKING:
    from vllm_doctor.fastpath.line_skipper import Reader

JOBS = "VLLM_DOCTOR_JOBS"
"""Environment variable: with `1` there is no other process."""
_CHUNK = 1 << 18
_LONG = 1 << 20  # bytes of a line at which it gives up: the reader reads such lines as they come
_DENSE = 400  # bytes of the file for each row: with fewer it gives up, as the reader has more to do than to search
_FAIR = 16  # pieces of the file behind which that is judged
_OFTEN = 64  # searches for something else, as when a server restarts, after which it begins anew with that
_LINE_END = ord("\n")
_SIZE = struct.Struct("=Q")  # of the rows of a piece, in bytes
# The lines before it, where it begins and ends in the file, the number of its shape. The last is the piece's end, with
# _END; a piece that the reader is to search itself has one before that, with _LEFT.
_ROW = struct.Struct("=QQQQ")
_PIPE = 1 << 20  # bytes
_MOST_SHAPES = 4096  # that have a number; the others have 0
_LEFT, _END = _MOST_SHAPES + 1, _MOST_SHAPES + 2


class Ahead:
    """What goes ahead in `file`, which was not read yet."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._fd = file.fileno()
        self._start = file.tell()
        self._scanner: Scanner | None = None  # with what the process searches
        self._others = 0  # searches in a row with another one
        self._was_right = False  # what it searches with was asked for
        self._process = 0
        self._pipe: IO[bytes] | None = None
        self._rows: deque[tuple[int, int, int, int]] = deque()
        self._shapes: dict[int, Shape] = {}  # by their numbers
        self._state: tuple[int, int] | None = None  # of the file that the other process reads
        self._is_same = False  # it is still what that process read
        self._base = self._lines = 0  # of the block in hand
        self._first = 0  # the number of its first line
        self._reader: Reader  # who reads it

    def enter(self, bytes_before: int, lines_before: int, reader: Reader) -> None:
        """Hear of the next block, which begins with a line end: what stands before its first line, and who reads it."""
        self._first, self._reader = reader.number(), reader
        self._base, self._lines = self._start + bytes_before - 1, lines_before
        self._is_same = self._state == _state(self._fd)

    def telling(self, scanner: Scanner, block: bytes, at: int, index: int, end: int) -> Iterator[Row]:
        """What `scanner.telling` gives of that block but for most statistics lines: the reader hears of these."""
        base, lines = self._base, self._lines
        self._others = 0 if scanner is self._scanner else self._others + 1
        if self._others >= _OFTEN or (self._others and not self._was_right):
            self._begin(scanner, base + at, lines + index)
        self._was_right = True
        if scanner is not self._scanner or not self._reaches(base + end):
            yield from scanner.telling(block, at, index, end)
            return
        rows, is_sure = self._rows, False
        shapes = self._shapes if self._is_same else {}
        samples: list[Sample] = []
        while (row := rows.popleft())[1] < base + end:
            before, begin, stop, kind = row
            before, begin, stop = before - lines, begin - base, stop - base
            if kind == _END or (begin < at and not (kind == _LEFT and at < stop)):
                continue
            is_other = not is_sure and ((begin >= at and (before < index or block[begin - 1] != _LINE_END))
                                        or (stop <= end and block[stop - 1] != _LINE_END))  # another file by now
            is_found, is_sure = kind != _LEFT and not is_other, self._is_same
            if is_found:
                line, at, index = block[begin:stop], stop, before + 1
                shape = shapes.get(kind) or self._shape(scanner, kind, line)
                layout = shape.layout
                if layout is not None and not layout.counts_rare:
                    samples.append((line, self._first + before, layout))
                    continue
            if samples:
                self._reader.sample(samples)
                samples = []
            if is_found:
                yield before, begin, line, shape
                continue
            if is_other:
                self.close()
                stop = end
            else:
                rows.appendleft(row)  # the reader may come again amid it
                at, index = (begin, before) if begin > at else (at, index)
            for found in scanner.telling(block, at, index, min(stop, end)):
                if found[3]:
                    yield found
            index, at = found[:2]
            if stop >= end:
                break
        else:
            rows.appendleft(row)
        if samples:
            self._reader.sample(samples)
        yield index + line_ends(block[at:end]), end, b"", None

    def _shape(self, scanner: Scanner, kind: int, line: bytes) -> Shape:
        shape = scanner.shape(line)
        if kind and self._is_same:
            self._shapes[kind] = shape
        return shape

    def close(self) -> None:
        """End the other process, if there is one."""
        self._rows.clear()
        self._shapes.clear()
        self._is_same = False
        self._end()

    def _end(self) -> None:
        if self._pipe:
            self._pipe.close()
            self._pipe = None
            os.waitpid(self._process, 0)

    def _reaches(self, end: int) -> bool:
        """Whether all rows before this place of the file are there; waits while the other process runs."""
        while not (self._rows and self._rows[-1][2] >= end):
            if self._pipe is None:
                return False
            self._receive(self._pipe)
        return True

    def begin(self, scanner: Scanner, skip: int) -> None:
        """Begin with what will be asked for, most likely, behind so many lines."""
        self._begin(scanner, self._start, 0, skip)

    def _begin(self, scanner: Scanner, at: int, lines: int, skip: int = 0) -> None:
        self.close()
        self._scanner, self._others = scanner, 0
        self._state = _state(self._fd)
        if self._state[0] - at < LARGE:
            return
        reading, writing = os.pipe()
        try:
            self._process = os.fork()
        except OSError:  # there may be no more processes
            os.close(reading)
            os.close(writing)
            return
        if not self._process:
            try:
                os.close(reading)
                with open(writing, "wb") as pipe:
                    _search(scanner, self._fd, _behind(self._fd, at, skip), lines + skip, pipe)
            finally:  # without a word: the reader goes on by itself
                os._exit(0)
        os.close(writing)
        _widen(reading)
        self._pipe = open(reading, "rb", buffering=0)  # noqa: SIM115 - closed by `close`

    def _receive(self, pipe: IO[bytes]) -> None:
        """The rows of one more piece; none when the other process is at its end."""
        size = _received(pipe, _SIZE.size)
        rows = _received(pipe, _SIZE.unpack(size)[0]) if len(size) == _SIZE.size else b""
        if rows and len(rows) % _ROW.size == 0:
            self._rows.extend(_ROW.iter_unpack(rows))
        else:
            self._end()


def is_possible() -> bool:
    """Whether there may be another process, and a core for it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores > 1 and hasattr(os, "fork") and os.environ.get(JOBS) != "1"


def _received(pipe: IO[bytes], size: int) -> bytes:
    """So many bytes; fewer when the other process is at its end."""
    data = pipe.read(size)
    while data and len(data) < size:
        more = pipe.read(size - len(data))
        if not more:
            break
        data += more
    return data


def _widen(pipe: int) -> None:
    """Let a pipe hold the rows of many pieces, so that neither process waits because the other is slow for a while."""
    import fcntl  # noqa: PLC0415 - where there is `fork` there is this

    with suppress(AttributeError, OSError):  # Linux only, and no more than a user may have
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)


def _waits(pipe: IO[bytes]) -> bool:
    """Whether the reader has taken all that was written; False where that cannot be told."""
    import fcntl  # noqa: PLC0415 - where there is `fork` there are these
    import termios  # noqa: PLC0415

    unread = bytearray(4)
    try:
        fcntl.ioctl(pipe, termios.FIONREAD, unread)
    except OSError:
        return False
    return not any(unread)


def _state(fd: int) -> tuple[int, int]:
    """The size of a file, and when it was last written."""
    now = os.fstat(fd)
    return now.st_size, now.st_mtime_ns


def _behind(fd: int, at: int, lines: int) -> int:
    """Where the line begins in a file that is so many lines behind the one that begins there."""
    while lines and (data := os.pread(fd, _CHUNK, at)):
        stop = 0
        for _ in range(min(lines, data.count(b"\n"))):
            stop = data.index(b"\n", stop) + 1
            lines -= 1
        at += stop if not lines else len(data)
    return at


def _search(scanner: Scanner, fd: int, at: int, lines: int, pipe: IO[bytes]) -> None:
    """Write the rows of a file from where a line begins, given how many lines stand before."""
    tail = b""
    patience, left = _FAIR, False
    kinds: dict[bytes, int] = {}  # the numbers of shapes
    while data := os.pread(fd, _CHUNK, at + len(tail)):
        block = b"\n" + tail + data
        end = block.rfind(b"\n") + 1
        tail = block[end:]
        if end > 1:
            left = not left and _waits(pipe)
            rows, index = bytearray(), 0
            if left:  # it would only wait meanwhile
                rows += _ROW.pack(lines, at, at + end - 1, _LEFT)
                index = line_ends(block[1:end])
            else:
                for index, begin, line, shape in scanner.telling(block, 1, 0, end):
                    if shape:
                        kind = kinds.get(shape.text, 0)
                        if not kind and len(kinds) < _MOST_SHAPES:
                            kind = kinds[shape.text] = len(kinds) + 1
                        rows += _ROW.pack(lines + index, at + begin - 1, at + begin + len(line) - 1, kind)
                patience = patience - 1 if len(rows) * _DENSE > end * _ROW.size else _FAIR
            lines, at = lines + index, at + end - 1
            rows += _ROW.pack(lines, at, at, _END)
            pipe.write(_SIZE.pack(len(rows)) + rows)
            pipe.flush()
        if len(tail) > _LONG or not patience:
            return
