"""bytes -> Line: encodings, carriage returns of progress bars, terminal escapes, wrappers.

`LineReader` is fed bytes in any chunks and gives the lines of the log as the server wrote them. Its memory does not
grow with the input: a line is cut at MAX_LINE, and what waits for evidence is bounded (wrappers.py).
"""

from __future__ import annotations

import codecs
import functools
import re
from dataclasses import dataclass

from vllm_doctor.wrappers import BARE, LOG_HEAD, Piece, Unwrapper

MAX_LINE = 256 * 1024  # bytes of one line; the head is kept
_SLICE = 256 * 1024  # bytes worked on at once
_SNIFF = 256  # bytes looked at to tell UTF-16 without a byte order mark
_MAX_SEGMENTS = 64  # pieces between carriage returns kept before they are given out
_MAX_WAIT = 32  # lines that may wait for evidence about a wrapper
_MAX_REFUSED = 8  # times a kind of wrapper may turn out to be none before its lines no longer wait


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the log.

    `number` is the 1-based number of the physical line it begins on; `text` has no wrapper, escape or line end;
    `source` is what wrappers named (container, pod, rank, process), innermost first, joined by " / ".
    """

    number: int
    text: str
    source: str = ""


# --- characters ------------------------------------------------------------------------------------------------

_CONTROLS = bytes([*range(9), *range(11, 32), 127])
_ODD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\xa0\u2028\u2029\ufeff]")
_VISIBLE = {
    **{code: 0x2400 + code for code in range(32) if code not in (9, 10, 13)},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
    0x85: 0x2424, 0x2028: 0x2424, 0x2029: 0x2424, 0xA0: 0x20, 0xFEFF: None,
}  # fmt: skip
_SGR = re.compile(r"\x1b\[[\d;:]*m")
_ESCAPE = re.compile(
    r"\x1b(?:\[(?P<csi>[0-?]*[ -/]*[@-~])|_(?P<bk>bk;t=\d{13})\x07|[\]PX^_][^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\]\d*;?|\[[0-?]*$|[ -/]+[0-~]|[0-Z\\-~]|$)|\x9b[0-?]*[ -/]*[@-~]",
)
# Colours whose escape character was lost or spelled out on the way: `[0;36m(APIServer pid=1)[0;0m`, `\x1b[36m`.
_SPELLED = re.compile(
    r"(?:\^\[|\\x1b|\\u001b|\\033|#033|␛)?\[(?:[0-47]|2[2-9]|[34][0-79]|9[0-7]|0[0-7]|38;5;\d{1,3}|48;5;\d{1,3})"
    r"(?:;\d{1,3}){0,4}m(?!\])",
)
_RESETS = ("[0m", "[0;0m", "[39m", "[22m")
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#39|#x27|#34);")
_ENTITIES = {
    "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&apos;": "'", "&#39;": "'", "&#x27;": "'", "&#34;": '"',
    "&nbsp;": " ",
}  # fmt: skip
_BARE_AMPERSAND = re.compile(r"&(?!(?:lt|gt|amp|quot|apos|nbsp|#39|#x27|#34);)")
# A block of bytes with one of these is read line by line with care.
_MARKS = tuple(mark.encode() for mark in (*_RESETS, "```", *_ENTITIES))


def clean(text: str) -> str:
    """`text` without terminal and HTML escapes, control characters made visible; newlines and carriage returns stay."""
    text = _printable(text)
    return _unescape(text) if "&" in text and ";" in text else text


def _printable(text: str) -> str:
    if "\x1b" in text or "\x9b" in text:
        text = _SGR.sub("", text)
        text = _ESCAPE.sub(_plain, text)
    if "m" in text and any(reset in text for reset in _RESETS):
        text = _SPELLED.sub("", text)
    if _ODD.search(text):
        text = text.translate(_VISIBLE)
    return text


def _plain(m: re.Match[str]) -> str:
    """What an escape sequence leaves behind: moving right is spaces, the first column is a carriage return."""
    csi = m["csi"]
    if csi is None:
        return "_" + m["bk"] if m["bk"] and m.start() == 0 else ""
    if csi.endswith("C"):
        return " " * (min(int(csi[:-1]), 200) if csi[:-1].isdecimal() and len(csi) < 6 else 1)
    return "\r" if csi in ("G", "0G", "1G") else ""


def _unescape(text: str) -> str:
    """Undo HTML's escapes where the whole line was escaped: none of the characters they stand for is left bare."""
    entities = set(_ENTITY.findall(text))
    if not entities or _BARE_AMPERSAND.search(text):
        return text
    if any(_ENTITIES[entity] in text for entity in entities if entity not in ("&amp;", "&nbsp;")):
        return text
    return _ENTITY.sub(lambda m: _ENTITIES[m[0]], text)


_HANZI = re.compile(rb"[\xb0-\xf7][\xa1-\xfe]|[\xa1-\xa3][\xa1-\xfe]")
_HIGH = bytes(range(128, 256))
_BINARY = bytes(0xB7 if code < 32 or 127 <= code <= 160 else code for code in range(256))  # a visible middle dot
_UNFINISHED = re.compile(rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})$")


def _decode(raw: bytes) -> tuple[str, str]:
    """The text of one line, and the encoding it was taken for ("" for UTF-8)."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return _decode_other(raw)
    if "\0" in text and text.count("\0") * 4 >= len(text):
        return _decode_nuls(raw), "utf-16"
    return text, ""


def _decode_other(raw: bytes) -> tuple[str, str]:
    nuls = raw.count(0)
    if nuls * 4 >= len(raw):
        return _decode_nuls(raw), "utf-16"
    if (len(raw) - len(raw.translate(None, _CONTROLS))) * 20 > len(raw) > 8:
        return raw.translate(_BINARY).decode("latin-1"), "binary"
    high = len(raw) - len(raw.translate(None, _HIGH))
    text = raw.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    if len(text) - (len(raw) - high) - bad >= bad:  # more good characters beyond ASCII than bad ones
        return text, ""
    if nuls == 0 and 2 * len(_HANZI.findall(raw)) >= 0.8 * high:
        try:
            return raw.decode("gb18030"), "gb18030"
        except UnicodeDecodeError:
            pass
    try:
        return raw.decode("cp1252"), "latin-1"  # what is called Latin-1 on Windows and the web
    except UnicodeDecodeError:
        return raw.decode("latin-1"), "latin-1"


def _decode_nuls(raw: bytes) -> str:
    """A line of UTF-16 amid bytes (`>>` of PowerShell), split at the newline byte: one byte may belong to another."""
    if raw[0::2].count(0) > raw[1::2].count(0):
        raw = raw[1:]
    return raw[: len(raw) & ~1].decode("utf-16-le", "replace").lstrip("\ufeff")


# --- progress bars ---------------------------------------------------------------------------------------------

# tqdm's end of a bar: `[00:02<00:06, 2.07s/it]`, `[00:02, 3.1it/s]`.
_BAR_END = re.compile(r"\[(?:\d+ days?, )?\d+:\d\d(?::\d\d)?(?:<|, )[^\[\]\r\n]{0,200}\]")
_BAR_HINT = re.compile(rb"\[(?:\d+ days?, )?\d+:\d\d")
_MAX_BAR = 2000  # characters of a line that may be a progress bar
_BAR_PERCENT = re.compile(r"\d{1,3}%(?=\||\s{1,2}Completed)")
_BAR_COUNT = re.compile(r"(?<![\w.])\d[\d.]{0,12}[kMGT]?[A-Za-z]{0,12} $")
_METER = re.compile(r"\d%|\beta\b|\dB/s|[kKMG]i?B\b|/s\b|\d/\d|[━█╸#=>]{3}")
_MOVING = re.compile(r"[\d.,:%\s=#>█▏▎▍▌▋▊▉━╸╺|/\\<?-]+|\b[kMGT]?i?B\b")
# Nothing but a prefix stands before a carriage return: `(Worker pid=1) \rLoading …`, `web-1  | \r…`.
_ONLY_PREFIX = re.compile(r"(?:pid=\d+[^()]{0,60}\)|\||[\dZ]|\]|\]:| [FP]|:) $")
# A containerd record may end amid a bar: its carriage returns wait until its parts are joined.
_RECORD = re.compile(rb"[^\r]{0,200}? std(?:out|err) [FP](?: |$)")


def _bar_parts(text: str) -> list[str]:
    """`text` cut behind each progress bar that something else is glued to."""
    parts, start = [], 0
    for m in _BAR_END.finditer(text):
        rest = text[m.end() :]
        glued = bool(rest) and (rest[0] not in " ,.;)]'\"\\" or LOG_HEAD.match(rest.lstrip(" ")) is not None)
        if glued and _bar_head(text[start : m.start()]) is not None:
            parts.append(text[start : m.end()])
            start = m.end() + len(rest) - len(rest.lstrip(" ")) if rest[0] == " " else m.end()
    parts.append(text[start:])
    return parts


def _bar_head(head: str) -> str | None:
    """What stands before a bar's percentage or count, or None when `head` has neither."""
    percents = list(_BAR_PERCENT.finditer(head, max(0, len(head) - 400)))
    last = percents[-1] if percents else _BAR_COUNT.search(head, max(0, len(head) - 30))
    return head[: last.start()].rstrip(" ") + " " if last else None


@functools.lru_cache(maxsize=128)
def _bar_label(text: str) -> str | None:
    """The label of a line that ends in a progress bar, with all that stands before it; None when it has no bar."""
    text = text.rstrip()
    if not text.endswith("]"):
        return None
    opening = text.rfind("[", max(0, len(text) - 260))
    m = _BAR_END.match(text, opening) if opening >= 0 else None
    return _bar_head(text[:opening]) if m and m.end() == len(text) else None


def _overwrite(segments: list[str], part: str) -> None:
    """Add what stands behind a carriage return: a bar takes the place of its former state, a message never does."""
    for text in _bar_parts(part) if "]" in part else (part,):
        label = _bar_label(text) if len(text) < _MAX_BAR else None
        if label is not None:
            for i in range(len(segments) - 1, max(-1, len(segments) - 9), -1):
                former = _bar_label(segments[i]) if len(segments[i]) < _MAX_BAR else None
                if former is None:
                    break
                if former.endswith(label):  # what stood before the label is kept: the prefix of the first state
                    prefix = former[: len(former) - len(label.lstrip(" "))]
                    segments[i] = prefix + (text if label.strip(" ") else text.lstrip(" "))
                    break
            else:
                former = None
            if former is not None and segments:
                continue
        if segments and segments[-1].endswith(" ") and len(segments[-1]) < 300 and _ONLY_PREFIX.search(segments[-1]):
            segments[-1] += text
        elif label is None and segments and _same_meter(segments[-1], text):
            segments[-1] = text
        else:
            segments.append(text)


def _same_meter(former: str, text: str) -> bool:
    """Whether two texts are states of one meter that is no tqdm bar (pip, curl, huggingface_hub)."""
    if len(text) > 400 or not _METER.search(text) or LOG_HEAD.match(text) or not _METER.search(former):
        return False
    return _MOVING.sub(" ", text).strip() == _MOVING.sub(" ", former).strip()


def _segments(line: str) -> list[str]:
    """What a line with carriage returns shows: messages, and each bar's last state; at least one."""
    segments: list[str] = []
    for part in line.split("\r"):
        if part.strip():
            _overwrite(segments, part)
    return segments or [""]


def unfold(text: str) -> list[str]:
    """The lines in the text of a JSON string, which may hold newlines, carriage returns and terminal escapes."""
    return [segment for line in _printable(text).split("\n") for segment in _segments(line)]


# --- lines that a terminal broke at its width ------------------------------------------------------------------

_MIN_WIDTH, _MAX_WIDTH = 60, 250
_MAX_ROWS = 400
_GIVE_UP = 2000  # lines without a sign of a terminal's width
_NO_CONTINUATION = re.compile(r"\s{2}|[|+=*#~^-]{2}|[|+╭│╰┌└├]|```|[>$#] |$|\S+@\S+[:~]|\(\S+ pid=")


class _Joiner:
    """Joins the rows of a line that a terminal broke at its width W.

    W is believed after two full rows in a row that continue one log line, while no line was longer than W; the next
    broken lines may then have one. Gives up at the first line longer than any terminal is wide.
    """

    def __init__(self, unwrapper: Unwrapper) -> None:
        self.off = False
        self._unwrapper = unwrapper
        self._width = 0
        self._widest = _MIN_WIDTH
        self._seen = 0
        self._rows: list[tuple[int, str]] = []

    def push(self, number: int, text: str) -> list[tuple[int, str]]:
        """Give a line; get those that are complete."""
        size = len(text)
        out: list[tuple[int, str]] = []
        if self._rows:
            if size <= len(self._rows[0][1]) and len(self._rows) < _MAX_ROWS and self._continues(text):
                self._rows.append((number, text))
                return [] if size == len(self._rows[0][1]) else self.flush()
            out = self.flush(whole=size <= len(self._rows[0][1]))
        self._seen += 1
        if size > self._widest:
            if size > _MAX_WIDTH or self._width:
                self.off = True
            self._widest = size
        if self._seen > _GIVE_UP and not self._width:
            self.off = True
        if not self.off and size == self._widest and size > _MIN_WIDTH and self._unwrapper.evident(text):
            self._rows = [(number, text)]
            return out
        out.append((number, text))
        return out

    def flush(self, *, whole: bool = True) -> list[tuple[int, str]]:
        """The rows held back: one line if they are one (and `whole`: no longer line follows), else as they came."""
        rows, self._rows = self._rows, []
        if not rows:
            return []
        width = len(rows[0][1])
        full = sum(len(text) == width for _, text in rows)
        if whole and len(rows) > 1 and (full >= 3 or (full == 2 and len(rows) == 3) or width == self._width):
            self._width = width
            return [(rows[0][0], "".join(text for _, text in rows))]
        return rows

    def _continues(self, text: str) -> bool:
        if _NO_CONTINUATION.match(text) or LOG_HEAD.match(text):
            return False
        return not self._unwrapper.wrapped(text)


# --- the reader ------------------------------------------------------------------------------------------------

_FENCE = re.compile(r"(?:```+|~~~+)[\w.+-]*$")


class LineReader:
    """Reads a log fed in chunks. The same bytes give the same lines, however they are cut.

    `join_wrapped` joins lines that a terminal broke at its width. Afterwards (and meanwhile) `encoding`, `wrappers`
    (the most frequent first), `line_count`, `byte_count` and `long_lines` (cut at MAX_LINE bytes) tell what was read.
    """

    def __init__(self, *, join_wrapped: bool = True) -> None:
        self.line_count = 0
        self.byte_count = 0
        self._long = 0
        self._base = "utf-8"
        self._others: set[str] = set()
        self._head: bytearray | None = bytearray()  # until the encoding is known
        self._decoder: codecs.IncrementalDecoder | None = None
        self._pending = bytearray()  # the segment that has no end yet
        self._skipping = False  # behind the cut of a segment that was too long
        self._segments: list[str] = []  # of the physical line that has no end yet
        self._opened = False  # whether that line has given or holds any segment
        self._flushed = False  # whether some of its segments were given out
        self._unwrapper = Unwrapper(unfold)
        self._joiner = _Joiner(self._unwrapper)
        self._joiner.off = not join_wrapped
        self._held: list[Piece] = []
        self._refused: dict[str, int] = {}
        self._source = ""
        self._out: list[Line] = []

    @property
    def encoding(self) -> str:
        """The encoding: `utf-8`, `utf-8-sig`, `utf-16-le` or `utf-16-be`, `+` those of single lines in another."""
        return "+".join([self._base, *sorted(self._others)])

    @property
    def wrappers(self) -> tuple[str, ...]:
        """The wrappers seen, the most frequent first."""
        return tuple(sorted(self._unwrapper.counts, key=lambda name: (-self._unwrapper.counts[name], name)))

    @property
    def long_lines(self) -> int:
        """How many lines were cut at MAX_LINE."""
        return self._long + self._unwrapper.cut

    def feed(self, data: bytes) -> list[Line]:
        """Read some bytes; get the lines that are complete and certain."""
        self.byte_count += len(data)
        for start in range(0, len(data), _SLICE):
            self._input(data[start : start + _SLICE])
        return self._take()

    def finish(self) -> list[Line]:
        """Read the end of the input; get the lines left."""
        if self._head is not None:
            self._begin(bytes(self._head))
        if self._decoder is not None:
            self._bytes(self._decoder.decode(b"", final=True).encode("utf-8", "replace"))
        if self._pending or self._opened:
            raw = bytes(self._pending)
            self._pending.clear()
            if raw and not self._skipping:
                raw = _trim(raw)
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
        """Tell the encoding from the first `size` bytes, then read `data`."""
        self._head = None
        head = data[:size]
        mark = 0
        if head.startswith(codecs.BOM_UTF8):
            self._base, mark = "utf-8-sig", 3
        elif head.startswith(codecs.BOM_UTF16_LE) and head[2:4] != b"\0\0":
            self._base, mark = "utf-16-le", 2
        elif head.startswith(codecs.BOM_UTF16_BE):
            self._base, mark = "utf-16-be", 2
        else:
            pairs = max(1, len(head) // 2)
            even, odd = head[0::2].count(0), head[1::2].count(0)
            if odd * 5 >= pairs * 2 and even * 10 <= odd:
                self._base = "utf-16-le"
            elif even * 5 >= pairs * 2 and odd * 10 <= even:
                self._base = "utf-16-be"
        if self._base.startswith("utf-16"):
            self._decoder = codecs.getincrementaldecoder(self._base)("replace")
        self._input(data[mark:])

    # Bytes to physical lines and their segments.

    def _bytes(self, data: bytes) -> None:
        start = 0
        if self._skipping:
            separators = (b"\n",) if self._is_record(self._pending) else (b"\n", b"\r")
            ends = [end for end in map(data.find, separators) if end >= 0]
            if not ends:
                return
            start = min(ends)
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
        """Keep the start of a line that has no end yet, within bounds."""
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
        """Whole physical lines: at once where nothing about them is special, else one by one."""
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        if (
            self._joiner.off
            and len(data) == len(data.translate(None, _CONTROLS))
            and not any(mark in data for mark in _MARKS)
            and not _BAR_HINT.search(data)
        ):
            try:
                text = data.decode()
            except UnicodeDecodeError:
                text = ""
            if text and (text.isascii() or not _ODD.search(text)):
                self._plain_block(text)
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
        """One physical line, or what is left of it, without its newline."""
        raw = raw.rstrip(b"\r")
        if b"\r" in raw and not self._is_record(raw):
            for segment in raw.split(b"\r"):
                self._segment(segment)
        elif self._opened:
            self._segment(raw)
        else:
            self.line_count += 1
            text = self._text(raw)
            whole = self._is_record(raw) or ("\r" not in text and not _BAR_END.search(text))
            self._record(self.line_count, [text] if whole else _segments(text))
            return
        self.line_count += 1
        segments, self._segments = self._segments, []
        flushed, self._flushed, self._opened = self._flushed, False, False
        if segments or not flushed:
            self._record(self.line_count, segments or [""], follows=flushed)

    def _is_record(self, raw: bytes | bytearray) -> bool:
        return not self._opened and _RECORD.match(raw) is not None

    def _segment(self, raw: bytes) -> None:
        """What stands between two carriage returns of the physical line being read."""
        self._opened = True
        if not raw:
            return
        for part in self._text(raw).split("\r"):
            if part.strip():
                _overwrite(self._segments, part)
        if len(self._segments) > _MAX_SEGMENTS:
            given, self._segments = self._segments[:-1], self._segments[-1:]
            self._record(self.line_count + 1, given, follows=self._flushed)
            self._flushed = True

    def _text(self, raw: bytes) -> str:
        if len(raw) > MAX_LINE:
            raw = raw[:MAX_LINE]
            self._long += 1
        if len(raw) == MAX_LINE:
            raw = _trim(raw)
        text, encoding = _decode(raw)
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
            proven = self._unwrapper.known
            pieces = self._unwrapper.unwrap(Piece(number, text, "", follows or i > 0))
            if not self._held:
                for piece in pieces:
                    self._offer(piece)
            else:
                self._held += pieces
            if self._held:
                self._settle(grown=self._unwrapper.known > proven)

    def _offer(self, piece: Piece) -> None:
        """Give a piece out, or hold it and all behind it while a wrapper is in doubt."""
        if self._held or (piece.doubt and self._refused.get(_kind(piece.doubt), 0) < _MAX_REFUSED):
            self._held.append(piece)
        elif piece.doubt:
            for final in self._unwrapper.unwrap(piece, final=True):
                self._emit(final)
        else:
            self._emit(piece)

    def _settle(self, *, grown: bool) -> None:
        last = self._held[-1]
        if last.doubt and last.repeats and sum(piece.doubt == last.doubt for piece in self._held) >= 3:
            self._unwrapper.learn(last.doubt)
            grown = True
        if grown:
            held, self._held = self._held, []
            for piece in held:
                for again in self._unwrapper.unwrap(piece) if piece.doubt else (piece,):
                    self._offer(again)
        elif len(self._held) >= _MAX_WAIT or (not last.doubt and not last.follows and LOG_HEAD.match(last.text)):
            self._release()

    def _release(self) -> None:
        """Take what is held as it stands: its wrappers were none."""
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


def _kind(key: str) -> str:
    return key.partition(":")[0]


def _trim(raw: bytes) -> bytes:
    """Without the beginning of a UTF-8 character that was cut off, if the rest of the line has no other fault."""
    m = _UNFINISHED.search(raw, max(0, len(raw) - 4))
    if m is None:
        return raw
    try:
        raw[: m.start()].decode()
    except UnicodeDecodeError:
        return raw
    return raw[: m.start()]
