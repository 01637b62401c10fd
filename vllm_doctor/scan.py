"""Which lines of a block of bytes are worth reading: those with one of many literals that are not known as healthy.

A busy server's lines repeat but for their numbers. So what is found out about a line is kept for its shape, in which
each digit is a zero; few lines of a block have a shape that is new.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from vllm_doctor.characters import NOISE, is_binary, is_noise
from vllm_doctor.patterns import lazy, portable
from vllm_doctor.tracebacks import HEAD
from vllm_doctor.typed import Any, NamedTuple
from vllm_doctor.windows import Trie, windows

# What the reader of lines takes off or reads otherwise, so that a literal may stand behind it: terminal escapes, spaces
# that do not break; and a shell's line that goes on. As Latin-1.
_ODD = ("\x1b[", "\x1b(B", "\x1b]", "\xc2\x9b", "\xc2\xa0", "\xef\xbb\xbf", "\\\n", "^\n", "`\n")
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_ID = lazy(rb"[0a-f](?<!\w.)[0a-f-]{15,}(?!\w)")  # in a shape
_PATIENCE = 500  # shapes of which it is not asked whether they may tell: to prepare that costs as much as to read many
_LONG = 512  # bytes of a line whose shape is remembered
_MOST = 1 << 14  # shapes remembered
_SAMPLE = 4096  # bytes by which noise is suspected
_PART = 1 << 15  # bytes of it that are told from text at once


class Shape(NamedTuple):
    """What is known of lines that differ in digits and long ids alone: of these `text` has zeros and none.

    `tells`: one of the literals may stand in them; `certain`: it does, whatever the digits. `layout` is what the
    scanner's `layout` says of them, for statistics lines. `opens`: with such a line a traceback begins.
    """

    text: bytes
    tells: bool
    certain: bool = True
    layout: Any = None
    opens: bool = False


Row = tuple[int, int, bytes, Shape | None]
"""A line of a block: how many stand before it, where it begins, its bytes. The last row is the block's end."""


class Scanner:
    """Finds the lines worth reading, by literals of which each holds one.

    `healthy` is an expression for whole lines that are never worth it; `layout` tells of a shape how statistics lines
    of that shape are read, None for other lines; `may_tell` whether lines of a shape that hold a literal may tell more.
    """

    def __init__(self, literals: Iterable[str], healthy: str = "", layout: Callable[[bytes], Any] = lambda _: None,
                 may_tell: Callable[[bytes], bool] = lambda _: True) -> None:
        self._words = [word.encode("latin-1") for word in Trie(windows(forms(literals)).values()).words]
        self._numbered = [word for word in self._words if re.search(rb"\d", word)]
        self._healthy = lazy(portable(healthy or "(?!)").encode("latin-1"))
        # Healthy lines, as many as there are, then another line; nothing more at the end.
        self._next = lazy(portable(rf"(?:(?:{healthy or '(?!)'})\n)*+(?:([^\n]*\n)|\Z)").encode("latin-1"))
        self._skips = bool(healthy)
        self._layout = layout
        self._may_tell = may_tell
        self._patience = _PATIENCE
        self._known: dict[bytes, Shape] = {}

    @cached_property
    def _telling(self) -> re.Pattern[bytes]:
        return _any(self._words)

    @cached_property
    def _telling_words(self) -> re.Pattern[bytes]:
        """What tells in a line without its numbers."""
        return _any(set(self._words).difference(self._numbered))

    @cached_property
    def _telling_numbers(self) -> re.Pattern[bytes]:
        return _any(self._numbered)

    @cached_property
    def _telling_zeros(self) -> re.Pattern[bytes]:
        return _any(word.translate(_ZEROS) for word in self._numbered)

    def unhealthy(self, block: bytes, at: int, index: int, end: int) -> Iterator[Row]:
        """The lines of `block[at:end]` that are not known as healthy, given how many lines stand before `at`.

        A line end stands before `at` and before `end`.
        """
        return self._walk(block, at, index, end, every=True)

    def telling(self, block: bytes, at: int, index: int, end: int) -> Iterator[Row]:
        """Those of the lines that are worth reading."""
        if self._skips:
            return self._walk(block, at, index, end, every=False)
        return self._hits(block, at, index, end, self._search(block, at, end))

    def tells(self, shape: Shape, line: bytes) -> bool:
        """Whether a line is worth reading that is not known as healthy."""
        return shape.tells and (shape.certain or self._telling_numbers.search(line) is not None)

    def _walk(self, block: bytes, at: int, index: int, end: int, *, every: bool) -> Iterator[Row]:
        known = self._known.get
        for match in self._next.finditer(block, at, end):
            line = match[1]
            if line is None:
                break
            zeros = line.translate(_ZEROS)
            shape = known(zeros) or self._shape(zeros)
            if every or (shape.tells and (shape.certain or self.tells(shape, line))):
                begin = match.start(1)
                index += block.count(b"\n", at, begin)
                yield index, begin, line, shape
                at, index = begin + len(line), index + 1
        yield index + block.count(b"\n", at, end), end, b"", None

    def _search(self, block: bytes, at: int, end: int) -> Iterator[tuple[int, int]]:
        """Where lines with a literal begin and end. Lines of noise are told from text sooner than searched."""
        search = self._telling.search
        while at < end:
            stop, texts = end, iter([(at, end)])
            if is_binary(block[at:at + _SAMPLE]):
                stop = block.index(b"\n", min(at + _PART, end - 1)) + 1
                texts = _texts(block, at, stop)
            for begin, until in texts:
                at = begin
                while found := search(block, at, until):
                    place = found.start()
                    at = block.index(b"\n", place) + 1
                    yield block.rfind(b"\n", 0, place) + 1, at
            at = stop

    def _hits(self, block: bytes, at: int, index: int, end: int, lines: Iterable[tuple[int, int]]) -> Iterator[Row]:
        """Those of the lines with a literal that are worth reading."""
        for begin, stop in lines:
            line = block[begin:stop]
            shape = self._shape_of_hit(line)
            if shape is not None:
                index += block.count(b"\n", at, begin)
                yield index, begin, line, shape
                at, index = stop, index + 1
        yield index + block.count(b"\n", at, end), end, b"", None

    def _shape_of_hit(self, line: bytes) -> Shape | None:
        """The shape of a line that holds a literal; None for one that is healthy or no text."""
        zeros = line.translate(_ZEROS)
        shape = self._known.get(zeros)
        if shape is None:
            if self._healthy.fullmatch(line, 0, len(line) - 1) if self._skips else is_binary(line):
                return None
            shape = self._shape(zeros)
        return shape if shape.tells else None

    def shape(self, line: bytes) -> Shape:
        """The shape of a line with its end."""
        zeros = line.translate(_ZEROS)
        return self._known.get(zeros) or self._shape(zeros)

    def _shape(self, zeros: bytes) -> Shape:
        text = _ID.sub(b"\0", zeros)
        shape = self._known.get(text)
        if shape is None:
            certain = self._telling_words.search(text) is not None
            tells = (certain or self._telling_zeros.search(text) is not None) and not is_binary(text)
            if tells and self._patience:
                self._patience -= 1
                if not self._patience:
                    self._known.clear()  # the earlier ones are asked when they come again
            if tells and not self._patience:
                tells = self._may_tell(text)
            shape = Shape(text, tells, certain, self._layout(text) if tells else None, text.endswith(HEAD))
            if len(text) <= _LONG:
                if len(self._known) >= _MOST:
                    self._known.clear()
                self._known[text] = shape
        return shape


class FastScanner(Scanner):
    """The same with a multi-pattern engine (the extra `fast`). Raises ImportError where that is not installed."""

    def __init__(self, literals: Iterable[str], healthy: str = "", layout: Callable[[bytes], Any] = lambda _: None,
                 may_tell: Callable[[bytes], bool] = lambda _: True) -> None:
        import hyperscan  # noqa: PLC0415 - an extra, and only for long logs

        super().__init__(literals, healthy, layout, may_tell)
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        count = len(self._words)
        self._database.compile(expressions=self._words, ids=list(range(count)), elements=count, flags=[0] * count,
                               literal=True)
        self._scanned = b""
        self._found: list[int] = []  # where literals end in that block

    def telling(self, block: bytes, at: int, index: int, end: int) -> Iterator[Row]:
        """The lines worth reading."""
        if block is not self._scanned:  # all at once: a scan that stops at each literal would read the rest again
            self._scanned, self._found = block, []
            note = self._found.append
            self._database.scan(memoryview(block)[:end],  # type: ignore[type-var] # any buffer will do
                                match_event_handler=lambda _id, _begin, stop, _flags, _context: note(stop - 1))
        return self._hits(block, at, index, end, self._lines(block, at))

    def _lines(self, block: bytes, at: int) -> Iterator[tuple[int, int]]:
        """Where the lines begin and end in which literals were found."""
        for place in self._found[bisect_left(self._found, at):]:
            if place >= at:  # else it stands in a line that was dealt with
                at = block.index(b"\n", place) + 1
                yield block.rfind(b"\n", 0, place) + 1, at


def _any(words: Iterable[bytes]) -> re.Pattern[bytes]:
    return re.compile(Trie(word.decode("latin-1") for word in words).any().encode("latin-1"))


def forms(literals: Iterable[str]) -> set[str]:
    """What lines hold that hold a literal, be it in a JSON string or an HTML page, or odd ones; as Latin-1."""
    import html  # noqa: PLC0415 - its table of all entities costs 1 ms, and only long logs come here

    found = set(_ODD)
    for literal in literals:
        quoted = json.dumps(literal)[1:-1]
        safe = re.sub(r"[<>&]", lambda match: f"\\u{ord(match[0]):04x}", quoted)  # as Go writes JSON
        found.update(form.encode().decode("latin-1") for form in (literal, quoted, safe, html.escape(literal)))
    return found


def _texts(block: bytes, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Where the lines begin and end that are not binary, all told at once."""
    part = block[at:end - 1]
    sizes, kept = (map(len, lines.split(b"\n")) for lines in (part, part.translate(None, NOISE)))
    for size, left in zip(sizes, kept, strict=True):
        stop = at + size + 1
        if not is_noise(size, left):
            yield at, stop
        at = stop
