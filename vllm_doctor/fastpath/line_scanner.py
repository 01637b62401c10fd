"""Which lines of a block of bytes are worth reading: those with one of many literals that are not known as healthy.

A busy server's lines repeat but for their numbers. So what is found out about a line is kept for its shape, in which
each digit is a zero; few lines of a block have a shape that is new. Where most lines are healthy an expression passes
them by; elsewhere all lines of a piece are looked up at once.
"""

from __future__ import annotations

import html
import json
import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, compress, count, repeat
from typing import Any, NamedTuple

from vllm_doctor.fastpath.tracebacks import HEAD, traceback_at
from vllm_doctor.literal_search import Trie, shortest, windows
from vllm_doctor.logs.encoding import NOISE, is_binary, is_noise, line_ends
from vllm_doctor.logs.wrappers.byte_patterns import NO_FRONT, Front, front
from vllm_doctor.patterns import lazy, portable

# What the reader of lines takes off or reads otherwise, so that a literal may stand behind it: terminal escapes, spaces
# that do not break; and a shell's line that goes on. As Latin-1.
_ODD = ("\x1b[", "\x1b(B", "\x1b]", "\xc2\x9b", "\xc2\xa0", "\xef\xbb\xbf", "\\\n", "^\n", "`\n")
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_DIGIT = lazy(rb"\d")
_ID = lazy(rb"[0-9a-f](?<!\w.)[0-9a-f-]{15,}(?!\w)")
_PATIENCE = 500  # shapes of which it is not asked whether they may tell: to prepare that costs as much as to read many
_LONG = 512  # bytes of a line whose shape is remembered
_MOST = 1 << 14  # shapes remembered
_SAMPLE = 4096  # bytes by which noise is suspected
_SPARSE = 256  # bytes for each line that is not healthy: with fewer, lines are looked up in the next pieces
_FEW = 64  # lines of a traceback, which makes no piece one whose lines are looked up
_DENSE = 160  # bytes for each literal: with fewer, it costs less to look up lines than to hear of each
_AGAIN = 32  # such pieces, behind which healthy lines are passed by again
_LEAST, _PART = 1 << 12, 1 << 16  # bytes in which lines are looked up at once: the next ones may be read otherwise


class Shape(NamedTuple):
    """What is known of lines that differ in digits and long ids alone: of these `text` has zeros and none.

    `front` is what stands before their message. `tells`: one of the literals may stand behind a wrapper there;
    `certain`: it does, whatever the digits. `layout` is what the scanner's `layout` says of them, for statistics lines.
    `opens`: with such a line a traceback begins.
    """

    text: bytes
    tells: bool
    certain: bool = True
    layout: Any = None
    opens: bool = False
    front: Front = NO_FRONT


_NEW = Shape(b"", tells=False, certain=False)  # of lines that are not known
_HEALTHY = Shape(b"", tells=True, certain=False)  # of healthy lines that other numbers may make tell
Row = tuple[int, int, bytes, Shape | None]
"""A line of a block: how many stand before it, where it begins, its bytes. The last row is the block's end."""


class Scanner:
    """Finds the lines worth reading, by literals of which each holds one.

    `healthy` is an expression for whole lines that are never worth it; `layout` tells of a shape how statistics lines
    of that shape are read, None for other lines; `may_tell` whether lines of a shape that hold a literal may tell more:
    it is not asked of the first shapes, as many as `patience` says.
    """

    def __init__(self, literals: Iterable[str], healthy: str = "", layout: Callable[[bytes], Any] = lambda _: None,
                 may_tell: Callable[[bytes], bool] = lambda _: True, patience: int = _PATIENCE) -> None:
        self._literals = forms(literals)
        healthy_line = rf"(?:{healthy or '(?!)'})\r?\n"
        self._healthy = lazy(portable(healthy_line).encode("latin-1"))
        # Healthy lines, as many as there are, then another line; nothing more at the end.
        self._next = lazy(portable(rf"(?:{healthy_line})*+(?:([^\n]*\n)|\Z)").encode("latin-1"))
        self._skips = bool(healthy)
        self._layout = layout
        self._may_tell = may_tell
        self._patience = patience
        self._known: dict[bytes, Shape] = {}
        self._unhealthy_pieces = 0  # to come, as far as can be told
        self._worth: dict[bytes, Shape | None] = {}  # by lines with zeros, without their ends; None: says nothing

    @cached_property
    def _words(self) -> list[bytes]:
        """Pieces of the literals, of which a line holds one that holds a literal."""
        return _encoded(windows(self._literals).values())

    @cached_property
    def _numbered(self) -> list[bytes]:
        return [word for word in self._words if _DIGIT.search(word)]

    @cached_property
    def _telling(self) -> re.Pattern[bytes]:
        return _any(self._words)

    @cached_property
    def _telling_words(self) -> re.Pattern[bytes]:
        """What tells in a line without its numbers."""
        return _any(set(self._words).difference(self._numbered))

    def _is_certain(self, text: bytes, start: int) -> bool:
        """Whether such a word stands there."""
        return self._telling_words.search(text, start) is not None

    @cached_property
    def _telling_numbers(self) -> re.Pattern[bytes]:
        return _any(self._numbered)

    @cached_property
    def _telling_zeros(self) -> re.Pattern[bytes]:
        return _any(word.translate(_ZEROS) for word in self._numbered)

    def _has_number(self, line: bytes) -> bool:
        """Whether a word with a number stands in a line."""
        return self._telling_numbers.search(line) is not None

    def _may_have_number(self, zeros: bytes, start: int = 0) -> bool:
        """Whether a word with a number may stand there in a line, given the line with zeros."""
        return self._telling_zeros.search(zeros, start) is not None

    def healthy_at(self, block: bytes, at: int) -> bytes:
        """The line that begins there where it is known as healthy; empty where it is not."""
        match = self._healthy.match(block, at)
        return match[0] if match else b""

    def unhealthy(self, block: bytes, at: int, index: int, end: int) -> Iterator[Row]:
        """The lines of `block[at:end]` that are not known as healthy, given how many lines stand before `at`.

        A line end stands before `at` and before `end`.
        """
        for match in self._next.finditer(block, at, end):
            line = match[1]
            if line is None:
                break
            begin = match.start(1)
            index += line_ends(block[at:begin])
            yield index, begin, line, self.shape(line)
            at, index = begin + len(line), index + 1
        yield index + line_ends(block[at:end]), end, b"", None

    def telling(self, block: bytes, at: int, index: int, end: int) -> Iterator[Row]:
        """Those of the lines that are worth reading."""
        size = _LEAST
        while at < end:
            stop = block.index(b"\n", min(at + size, end - 1)) + 1
            if is_binary(block[at:at + _SAMPLE]):
                index = yield from self._searched(block, at, index, stop)
            elif self._skips and not self._unhealthy_pieces:
                index = yield from self._walked(block, at, index, stop)
            else:
                self._unhealthy_pieces = max(0, self._unhealthy_pieces - 1)
                index = yield from self._looked_up(block, at, index, stop)
            at, size = stop, min(2 * size, _PART)
        yield index, end, b"", None

    # Of a piece each of these gives the lines worth reading, and returns how many lines stand before its end.

    def _searched(self, block: bytes, at: int, index: int, end: int) -> Generator[Row, None, int]:
        """Of a piece of noise: of its lines of text no two are of one shape."""
        search = self._telling.search
        for lines, begin, stop in _texts(block, at, end):
            if search(block, begin, stop):
                line = block[begin:stop]
                shape = self._worth_of(line)
                if shape:
                    yield index + lines, begin, line, shape
        return index + line_ends(block[at:end])

    def _walked(self, block: bytes, at: int, index: int, end: int) -> Generator[Row, None, int]:
        """Of a piece whose lines are healthy for the most part: these are passed by."""
        room = _FEW + (end - at) // _SPARSE
        while at < end:
            for row in self.unhealthy(block, at, index, end):
                room -= 1
                index, at, line, shape = row
                if shape and self.tells(shape, line):
                    yield row
                    if shape.opens and (found := traceback_at(block, at, end)):
                        at, index = at + len(found.lines), index + found.line_count
                        break  # its calls are read with its head, or not at all
        if room < 0:
            self._unhealthy_pieces = _AGAIN
        return index

    def _looked_up(self, block: bytes, at: int, index: int, end: int) -> Generator[Row, None, int]:
        """Of a piece of which few lines are healthy: all are looked up at once."""
        lines = block[at:end - 1].translate(_ZEROS).split(b"\n")
        found = list(map(self._worth.get, lines, repeat(_NEW)))
        if not any(found):
            return index + len(lines)
        ends = list(accumulate(map(len, lines)))
        for place in compress(count(), found):
            zeros, shape = lines[place], found[place]
            stop = at + ends[place] + place + 1
            begin = stop - len(zeros) - 1
            line = block[begin:stop]
            worth = self._worth_as(shape, line)
            if worth:
                yield index + place, begin, line, worth
        return index + len(lines)

    def _worth_as(self, known: Shape | None, line: bytes) -> Shape | None:
        """The shape of a line worth reading, given what is known of it by its zeros; None for another."""
        if known is _NEW:
            return self._worth_of(line)
        if known is _HEALTHY:
            return None if self._healthy.fullmatch(line) else self._worth_of(line)
        return known if known and self.tells(known, line) else None

    def _worth_of(self, line: bytes) -> Shape | None:
        """The shape of a line that is not known, None for one not worth reading."""
        if self._skips and self._healthy.fullmatch(line):
            if len(line) <= _LONG and not _ID.search(line):
                self._remember_healthy(line[:-1].translate(_ZEROS))
            return None
        zeros = line[:-1].translate(_ZEROS)
        shape = self._shape(zeros + b"\n")
        worth = shape if shape.tells else None
        if len(line) == len(shape.text) <= _LONG:  # without an id
            self._remember(zeros, worth)
        return worth if worth and self.tells(worth, line) else None

    def _remember_healthy(self, zeros: bytes) -> None:
        if not self._is_certain(zeros, front(zeros).size):
            self._remember(zeros, _HEALTHY if self._may_have_number(zeros) else None)

    def _remember(self, zeros: bytes, worth: Shape | None) -> None:
        if len(self._worth) >= _MOST:
            self._worth.clear()
        self._worth[zeros] = worth

    def tells(self, shape: Shape, line: bytes) -> bool:
        """Whether a line is worth reading that is not known as healthy."""
        return shape.tells and (shape.certain or self._has_number(line))

    def shape(self, line: bytes) -> Shape:
        """The shape of a line with its end."""
        zeros = line.translate(_ZEROS)
        return self._known.get(zeros) or self._shape(zeros)

    def _shape(self, zeros: bytes) -> Shape:
        text = _ID.sub(b"\0", zeros)
        shape = self._known.get(text)
        if shape is None:
            before = front(text)
            certain = self._is_certain(text, before.size)
            tells = (certain or self._may_have_number(text, before.size)) and not is_binary(text)
            if tells and self._patience:
                self._patience -= 1
                if not self._patience:  # the earlier ones are asked when they come again
                    self._known.clear()
                    self._worth.clear()
            if tells and not self._patience:
                tells = self._may_tell(text[before.size:])
            layout = self._layout(text) if tells else None
            opens = text[:len(text) - before.rest].rstrip().endswith(HEAD)
            shape = Shape(text, tells, certain, layout, opens, before)
            if len(text) <= _LONG:
                if len(self._known) >= _MOST:
                    self._known.clear()
                self._known[text] = shape
        return shape


class _Engine:
    """Finds words in bytes, all at once, with the extra `fast`. Several threads may use it."""

    def __init__(self, words: Sequence[bytes]) -> None:
        import hyperscan  # noqa: PLC0415

        self._words = words
        self._database: Any = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(expressions=words, ids=list(range(len(words))), elements=len(words),
                               flags=[0] * len(words), literal=True)
        self._scratch = hyperscan.Scratch  # its working memory, one for each thread
        self._threads = threading.local()

    def search(self, data: bytes | memoryview, note: Callable[[int, int, int, int, Any], None]) -> None:
        """Tell of each word that stands there: its number, 0, where it ends, and two more things of no use."""
        scratch = getattr(self._threads, "scratch", None)
        if scratch is None:
            scratch = self._threads.scratch = self._scratch(self._database)
        self._database.scan(data, match_event_handler=note, scratch=scratch)

    def found_in(self, data: bytes) -> list[bytes]:
        """The words that stand there."""
        found: list[bytes] = []
        self.search(data, lambda place, *_: found.append(self._words[place]))
        return found


class FastScanner(Scanner):
    """The same lines, found by a multi-pattern engine (the extra `fast`)."""

    # A block, a part of it, and where literals end there, None where lines are to be looked up: that costs less. Set at
    # once, as several threads may use a scanner.
    _scanned: tuple[bytes, range, Sequence[int] | None] = (b"", range(0), None)
    _dense_blocks = 0  # to come, as far as can be told

    @cached_property
    def _words(self) -> list[bytes]:
        """The literals: to hear of each piece that is found costs more than to look for more."""
        return _encoded(self._literals)

    @cached_property
    def _engine(self) -> _Engine:
        return _Engine(self._words)

    @cached_property
    def _engine_of_zeros(self) -> _Engine:
        return _Engine(list({word.translate(_ZEROS) for word in self._numbered}))

    def _is_certain(self, text: bytes, start: int) -> bool:
        return not all(_DIGIT.search(word) for word in self._engine.found_in(text[start:]))

    def _has_number(self, line: bytes) -> bool:
        return any(_DIGIT.search(word) for word in self._engine.found_in(line))

    def _may_have_number(self, zeros: bytes, start: int = 0) -> bool:
        return bool(self._numbered and self._engine_of_zeros.found_in(zeros[start:]))

    def telling(self, block: bytes, at: int, index: int, end: int) -> Iterator[Row]:
        """The lines worth reading."""
        scanned, part, found = self._scanned
        if block is not scanned or at not in part or end > part.stop:
            found = self._scan(block, at, end)
        if found is None:
            yield from super().telling(block, at, index, end)
            return
        known_as = self._worth.get
        behind = at  # the line in which the last literal stood
        for place in found[bisect_left(found, at):]:
            if place < behind:
                continue
            begin, behind = block.rfind(b"\n", 0, place) + 1, block.index(b"\n", place) + 1
            shape = known_as(block[begin:behind - 1].translate(_ZEROS), _NEW)
            if shape is None:
                continue
            line = block[begin:behind]
            if shape.certain or (shape := self._worth_as(shape, line)):
                index += line_ends(block[at:begin])
                yield index, begin, line, shape
                at, index = behind, index + 1
                if shape.opens and (traceback := traceback_at(block, begin, end)):
                    behind = begin + len(traceback.lines)  # its calls are read with its head, or not at all
        yield index + line_ends(block[at:end]), end, b"", None

    def _scan(self, block: bytes, at: int, end: int) -> Sequence[int] | None:
        """Find the literals of a part at once: a scan that stops at each would read the rest again."""
        self._dense_blocks = max(0, self._dense_blocks - 1)
        found: list[int] | None = None
        if not self._dense_blocks:
            found, before = [], at - 1
            note = found.append
            self._engine.search(memoryview(block)[at:end],
                                lambda _word, _begin, stop, _flags, _context: note(stop + before))
            if len(found) * _DENSE > end - at:
                self._dense_blocks, found = _AGAIN, None
        self._scanned = block, range(at, end), found
        return found


def _encoded(words: Iterable[str]) -> list[bytes]:
    return [word.encode("latin-1") for word in shortest(words)]


def _any(words: Iterable[bytes]) -> re.Pattern[bytes]:
    return re.compile(Trie(word.decode("latin-1") for word in words).any().encode("latin-1"))


def forms(literals: Iterable[str]) -> set[str]:
    """What lines hold that hold a literal, be it in a JSON string or an HTML page, or odd ones; as Latin-1."""
    found = set(_ODD)
    for literal in literals:
        quoted = json.dumps(literal)[1:-1]
        safe = re.sub(r"[<>&]", lambda match: f"\\u{ord(match[0]):04x}", quoted)  # as Go writes JSON
        found.update(form.encode().decode("latin-1") for form in (literal, quoted, safe, html.escape(literal)))
    return found


def _texts(block: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The lines that are not binary: how many stand before, where each begins and ends. All are told at once."""
    part = block[at:end - 1]
    sizes, kept = (map(len, lines.split(b"\n")) for lines in (part, part.translate(None, NOISE)))
    for index, (size, left) in enumerate(zip(sizes, kept, strict=True)):
        stop = at + size + 1
        if not is_noise(size, left):
            yield index, at, stop
        at = stop
