"""bytes -> Line: the lines that the server wrote, however the log was collected.

`LineReader` is fed bytes in any chunks and returns the lines as the server wrote them: decoded (encoding.py), with the
last state of progress bars (progress_bars.py), with the rows of a terminal joined (rejoined_rows.py) and without
wrappers (wrappers/). Its memory does not grow with the input: a line is cut at MAX_LINE, and the lines that wait for
evidence are bounded.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

from vllm_doctor.logs.encoding import CONTROLS, ODD, decode, is_binary, sniff, trim
from vllm_doctor.logs.line_prefix import BARE, LOG_HEAD
from vllm_doctor.logs.progress_bars import BAR_END, BAR_HINT, overwrite, visible_texts
from vllm_doctor.logs.rejoined_rows import RowJoiner
from vllm_doctor.logs.terminal_escapes import ENTITIES, RESETS, SGR, SPELLED_RETURN, clean, printable
from vllm_doctor.logs.wrappers import Piece, Unwrapper
from vllm_doctor.text.patterns import lazy_pattern

MAX_LINE = 256 * 1024  # bytes of one line; the rest of a longer line is dropped
_SLICE = 256 * 1024  # bytes processed at once
_SHORT = 4096  # maximal bytes of a line that is parsed on its own
_SNIFF = 256  # bytes inspected to detect UTF-16 without a byte order mark
_MAX_SEGMENTS = 64  # pieces between carriage returns that are kept before they are returned
_MAX_WAIT = 32  # lines that may wait for evidence about a wrapper
_MAX_REFUSED = 8  # times that a kind of wrapper may be refuted before its lines no longer wait

# A block of bytes that contains one of these is read line by line.
_MARKS = lazy_pattern(
    "|".join(
        re.escape(mark) for mark in (*RESETS, SPELLED_RETURN, "```", "~~~", *ENTITIES)
    ).encode(),
)
# A containerd record may end inside a progress bar: its carriage returns wait until its parts are joined.
_RECORD = lazy_pattern(rb"[^\r]{0,200}? std(?:out|err) [FP](?: |$)")
# Docker's API writes the stream's number, three zeros and a size before each write of a container: mostly one line.
_FRAMES = (b"\1\0\0\0", b"\2\0\0\0")
_FRAME_SIZE = 8  # bytes; with a line feed among the bytes of the size, the last ones begin the next line
_SGR = lazy_pattern(SGR.encode())
_FENCE = lazy_pattern(r"(?:```+|~~~+)[\w.+-]*$")


class Line(NamedTuple):
    """One line of the log.

    `number` is the 1-based number of the physical line it begins on; `text` has no wrapper, escape or line end;
    `source` holds the names in its wrappers (container, pod, rank, process), innermost first, joined by " / ".
    `refusal` marks vLLM's refusal of a request, `handler` a record of a module that handles requests.
    """

    number: int
    text: str
    source: str = ""
    refusal: bool = False
    handler: bool = False


def unfold(text: str) -> list[str]:
    """Return the lines in the text of a JSON string, which may contain newlines, carriage returns and escapes."""
    return [segment for line in printable(text).split("\n") for segment in visible_texts(line)]


class LineReader:
    """A reader of a log that is fed in chunks; the same bytes give the same lines, however they are cut.

    `join_wrapped` joins lines that a terminal broke at its width. `encoding`, `wrappers` (the most frequent first),
    `line_count`, `byte_count` and `long_lines` (cut at MAX_LINE bytes) describe the bytes read so far.
    """

    def __init__(self, *, join_wrapped: bool = True) -> None:
        self.line_count = 0
        self.byte_count = 0
        self._long = 0
        self._base = "utf-8"
        self._others: set[str] = set()
        self._head: bytearray | None = bytearray()  # until the encoding is known
        self._decoder: codecs.IncrementalDecoder | None = None
        self._frame_rest = 0  # bytes of a frame's size at the beginning of the next line
        self._pending = bytearray()  # the segment that has not ended yet
        self._skipping = False  # after the cut of a segment that was too long
        self._segments: list[str] = []  # of the physical line that has not ended yet
        self._opened = False  # whether that line has returned or holds any segment
        self._flushed = False  # whether some of its segments were returned
        self._unwrapper = Unwrapper(unfold)
        self._joiner = RowJoiner(self._unwrapper)
        self._joiner.off = not join_wrapped
        self._held: list[Piece] = []
        self._refused: dict[str, int] = {}
        self._source = ""
        self._out: list[Line] = []

    @property
    def encoding(self) -> str:
        """Return the encoding: `utf-8`, `utf-8-sig`, `utf-16-le` or `utf-16-be`, plus `+` and those of single lines."""
        return "+".join([self._base, *sorted(self._others)])

    @property
    def wrappers(self) -> tuple[str, ...]:
        """Return the wrappers seen, the most frequent first."""
        return tuple(sorted(self._unwrapper.counts, key=lambda name: (-self._unwrapper.counts[name], name)))

    @property
    def long_lines(self) -> int:
        """Return how many lines were cut at MAX_LINE."""
        return self._long + self._unwrapper.cut

    @property
    def is_idle(self) -> bool:
        """Return whether the next line is independent: no earlier line is held back, and it is no row of a terminal."""
        return (self._joiner.off and self._head is None and self._decoder is None and not self._pending
                and not self._opened and not self._held and not self._frame_rest
                and not self._unwrapper.has_incomplete_messages)

    def skip(self, lines: int, size: int) -> None:
        """Count complete lines that are not read. Call it only while `is_idle`."""
        self.line_count += lines
        self.byte_count += size

    def parse_single_line(self, data: bytes) -> Line | None:
        """Parse one complete line as the next one; return None if it must be fed. Call it only while `is_idle`."""
        if data.endswith(b"\r\n"):
            data = data[:-2] + b"\n"
        text = _plain_text(_SGR.sub(b"", data) if b"\x1b[" in data else data)
        piece = None if text is None else self._unwrapper.unwrap_single_line(text)
        return piece and Line(self.line_count + 1, piece.text.rstrip(), piece.source)

    def feed(self, data: bytes) -> list[Line]:
        """Read some bytes; return the lines that are complete and certain."""
        if len(data) < _SHORT and self.is_idle and (line := self.parse_single_line(data)):
            self.skip(1, len(data))
            self._source = line.source
            return [line]
        self.byte_count += len(data)
        for start in range(0, len(data), _SLICE):
            self._input(data[start : start + _SLICE])
        return self._take()

    def finish(self) -> list[Line]:
        """Read the end of the input; return the remaining lines."""
        if self._head is not None:
            self._begin(bytes(self._head))
        if self._decoder is not None:
            self._bytes(self._decoder.decode(b"", final=True).encode("utf-8", "replace"))
        if self._pending or self._opened:
            raw = bytes(self._pending)
            self._pending.clear()
            if raw and not self._skipping:
                raw = trim(raw)
            self._physical(raw)
        self._skipping = False
        for number, text in self._joiner.flush():
            self._messages(number, [text], follows=False)
        self._release()
        for piece in self._unwrapper.rest():
            self._emit(piece)
        return self._take()

    def _take(self) -> list[Line]:
        out, self._out = self._out, []
        return out

    # Encoding.

    def _input(self, data: bytes) -> None:
        if self._head is not None:
            self._head += data
            newline = self._head.find(b"\n", 3)
            if newline < 0 and len(self._head) < _SNIFF:
                return
            self._begin(bytes(self._head), newline + 1 if 0 <= newline < _SNIFF else _SNIFF)
        elif self._decoder is not None:
            self._bytes(self._decoder.decode(data).encode("utf-8", "replace"))
        else:
            self._bytes(data)

    def _begin(self, data: bytes, size: int = _SNIFF) -> None:
        """Detect the encoding from the first `size` bytes, then read `data`."""
        self._head = None
        self._base, mark = sniff(data[:size])
        if self._base.startswith("utf-16"):
            self._decoder = codecs.getincrementaldecoder(self._base)("replace")
        self._input(data[mark:])

    # Bytes to physical lines and their segments.

    def _bytes(self, data: bytes) -> None:
        start = 0
        if self._skipping:
            start = data.find(b"\n")
            inner = data.find(b"\r", 0, start if start >= 0 else len(data))
            if inner >= 0 and not self._is_record(self._pending):
                start = inner
            if start < 0:
                return
            self._skipping = False
        last = data.rfind(b"\n")
        if last < start:
            self._keep(data[start:])
            return
        if self._pending or self._opened or start:
            first = data.find(b"\n", start)
            raw = bytes(self._pending) + data[start:first]
            self._pending.clear()
            self._physical(raw)
            start = first + 1
        if start <= last:
            self._block(data[start : last + 1])
        self._keep(data[last + 1 :])

    def _keep(self, tail: bytes) -> None:
        """Keep the beginning of a line that has not ended yet, within bounds."""
        self._pending += tail
        if len(self._pending) <= MAX_LINE:
            return
        end = self._pending.rfind(b"\r")
        if end >= 0 and not self._is_record(self._pending):
            for segment in bytes(self._pending[:end]).split(b"\r"):
                self._segment(segment)
            del self._pending[: end + 1]
        if len(self._pending) > MAX_LINE:
            del self._pending[MAX_LINE:]
            self._long += 1
            self._skipping = True

    def _block(self, data: bytes) -> None:
        """Read complete physical lines: together if all of them are plain, else one by one."""
        if b"\r" in data and not any(frame in data for frame in _FRAMES):  # whose sizes may hold both
            data = data.replace(b"\r\n", b"\n")
        if data and self._joiner.off and not self._frame_rest and _is_plain(data):
            self._plain_block(data.decode())
            return
        for raw in data[:-1].split(b"\n"):
            self._physical(raw)

    def _plain_block(self, text: str) -> None:
        bare, out, number = BARE.match, self._out, self.line_count
        for line in text[:-1].split("\n"):
            number += 1
            if not self._held and bare(line):
                out.append(Line(number, line.rstrip()))
                self._source = ""
            else:
                self._record(number, [line])
        self.line_count = number

    def _physical(self, raw: bytes) -> None:
        """Read one physical line, or the rest of one, without its newline; one that is not text is read as empty."""
        if self._frame_rest:
            raw, self._frame_rest = raw[self._frame_rest:], 0
        elif raw.startswith(_FRAMES):
            self._frame_rest = max(0, _FRAME_SIZE - len(raw + b"\n"))
            raw = raw[_FRAME_SIZE:]
            self._unwrapper.count("docker-stream")
        raw = b"" if is_binary(raw) else raw.rstrip(b"\r")
        if b"\r" in raw and not self._is_record(raw):
            for segment in raw.split(b"\r"):
                self._segment(segment)
        elif self._opened:
            self._segment(raw)
        else:
            self.line_count += 1
            text = self._text(raw)
            whole = self._is_record(raw) or ("\r" not in text and not BAR_END.search(text))
            self._record(self.line_count, [text] if whole else visible_texts(text))
            return
        self.line_count += 1
        segments, self._segments = self._segments, []
        flushed, self._flushed, self._opened = self._flushed, False, False
        if segments or not flushed:
            self._record(self.line_count, segments or [""], follows=flushed)

    def _is_record(self, raw: bytes | bytearray) -> bool:
        return not self._opened and b" std" in raw and _RECORD.match(raw) is not None

    def _segment(self, raw: bytes) -> None:
        """Read the text between two carriage returns of the current physical line."""
        self._opened = True
        if not raw:
            return
        for part in self._text(raw).split("\r"):
            if part.strip():
                overwrite(self._segments, part)
        if len(self._segments) > _MAX_SEGMENTS:
            complete, self._segments = self._segments[:-1], self._segments[-1:]
            self._record(self.line_count + 1, complete, follows=self._flushed)
            self._flushed = True

    def _text(self, raw: bytes) -> str:
        if len(raw) > MAX_LINE:
            raw = raw[:MAX_LINE]
            self._long += 1
        if len(raw) == MAX_LINE:
            raw = trim(raw)
        text, encoding = decode(raw)
        if encoding:
            self._others.add(encoding)
        return clean(text)

    # Physical lines to messages.

    def _record(self, number: int, segments: list[str], *, follows: bool = False) -> None:
        if self._joiner.off:
            self._messages(number, segments, follows=follows)
            return
        if len(segments) == 1 and not follows:
            for first, text in self._joiner.push(number, segments[0]):
                self._messages(first, [text], follows=False)
            return
        for first, text in self._joiner.flush():
            self._messages(first, [text], follows=False)
        self._messages(number, segments, follows=follows)

    def _messages(self, number: int, segments: list[str], *, follows: bool) -> None:
        for i, text in enumerate(segments):
            proven = self._unwrapper.proven_count
            pieces = self._unwrapper.unwrap(Piece(number, text, "", follows or i > 0))
            if not self._held:
                for piece in pieces:
                    self._offer(piece)
            else:
                self._held += pieces
            if self._held:
                self._emit_settled(grown=self._unwrapper.proven_count > proven)

    def _offer(self, piece: Piece) -> None:
        """Emit a piece, or hold it and all later ones while a wrapper is in doubt."""
        if self._held or (piece.doubt and self._refused.get(_kind(piece.doubt), 0) < _MAX_REFUSED):
            self._held.append(piece)
        elif piece.doubt:
            for final in self._unwrapper.unwrap(piece, final=True):
                self._emit(final)
        else:
            self._emit(piece)

    def _emit_settled(self, *, grown: bool) -> None:
        last = self._held[-1]
        if last.doubt and last.repeats and sum(piece.doubt == last.doubt for piece in self._held) >= 3:
            self._unwrapper.mark_proven(last.doubt)
            grown = True
        if grown:
            held, self._held = self._held, []
            for piece in held:
                for again in self._unwrapper.unwrap(piece) if piece.doubt else (piece,):
                    self._offer(again)
        elif len(self._held) >= _MAX_WAIT or (not last.doubt and not last.follows and LOG_HEAD.match(last.text)):
            self._release()

    def _release(self) -> None:
        """Emit the pieces held back unchanged: they had no wrappers."""
        held, self._held = self._held, []
        for kind in {_kind(piece.doubt) for piece in held if piece.doubt}:
            self._refused[kind] = self._refused.get(kind, 0) + 1
        for piece in held:
            for final in self._unwrapper.unwrap(piece, final=True) if piece.doubt else (piece,):
                self._emit(final)

    def _emit(self, piece: Piece) -> None:
        text = piece.text.rstrip()
        if "\r" in text:  # what looked like a containerd record was none
            for part in unfold(text):
                self._emit(piece._replace(text=part))
            return
        if "```" in text or "~~~" in text:
            if _FENCE.match(text):
                return
            bare = text.removeprefix("```").removesuffix("```")
            text = bare.rstrip() if LOG_HEAD.match(bare) else text
        source = piece.source or (self._source if piece.follows else "")
        self._source = source
        self._out.append(Line(piece.number, text, source))


def _plain_text(data: bytes) -> str | None:
    """Return the text of one complete, short, plain line without its end; None for any other."""
    whole = 0 < len(data) < _SHORT and data.find(b"\n") == len(data) - 1
    return data[:-1].decode() if whole and _is_plain(data) else None


def _is_plain(data: bytes) -> bool:
    """Return whether bytes are plain text: no controls except line ends, no marks, no progress bars."""
    if len(data) != len(data.translate(None, CONTROLS)) or _MARKS.search(data) or BAR_HINT.search(data):
        return False
    if data.isascii():
        return True
    try:
        return not ODD.search(data.decode())
    except UnicodeDecodeError:
        return False


def _kind(key: str) -> str:
    return key.partition(":")[0]
