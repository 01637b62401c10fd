"""Which lines of a block of bytes are worth reading: those with one of many literals that are not known as healthy."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from vllm_doctor.patterns import lazy, portable
from vllm_doctor.windows import Trie, windows

# What the reader of lines takes off or reads otherwise, so that a literal may stand behind it: terminal escapes, spaces
# that do not break; and a shell's line that goes on. As Latin-1.
_ODD = ("\x1b[", "\x1b(B", "\x1b]", "\xc2\x9b", "\xc2\xa0", "\xef\xbb\xbf", "\\\n", " ^\n", " `\n")
_CONTROLS = bytes(code for code in (*range(1, 32), 127) if code not in b"\t\n\r\x1b")
_BRACKET = ord("(")  # the prefix of a process begins with it
_PREFIX = 120  # bytes in which such prefixes stand
_SAMPLE = 1  # the group of a statistics line


class Taker(Protocol):
    """Gets what is found in a block."""

    def line(self, begin: int, stop: int, alone: bool) -> bool:
        """A line with its end; `alone`: it is no part of what came before. Whether to go on."""

    def sample(self, begin: int, groups: Sequence[bytes]) -> None:
        """A statistics line that is no part of what came before: where it begins, and the groups of `Scanner`."""


Find = Callable[[bytes, int, int, Taker], bool]
"""`find(block, start, end, taker)` gives lines of `block[start:end]` in order; whether it came to the end.

A line end stands before `start` and before `end`.
"""


class Scanner:
    """Finds the lines worth reading, by literals of which each holds one.

    `healthy` is an expression for whole lines that are never worth it, `sample` one for statistics lines.
    """

    def __init__(self, literals: Iterable[str], healthy: str = "", sample: str = "") -> None:
        forms = {form for literal in literals for form in _forms(literal)}
        words = Trie([*windows(forms).values(), *_ODD])
        self._words = [word.encode("latin-1") for word in words.words]
        self._telling = lazy(words.any().encode("latin-1"))
        self._skips = bool(healthy)
        # Healthy lines, as many as there are, then a line of statistics or another one; nothing more at the end.
        self._next = lazy(portable(rf"(?:(?:{healthy or '(?!)'})\n)*+"
                                   rf"(?:({sample or '(?!)'}[ \r]*\n)|([^\n]*\n)|\Z)").encode("latin-1"))

    def unhealthy(self, block: bytes, start: int, end: int, taker: Taker) -> bool:
        """Finds the lines that are not known as healthy, none of them alone."""
        return self._unknown(block, start, end, taker, lambda _block, _begin, _stop: True)

    def tells(self, line: bytes) -> bool:
        """Whether a line is worth reading that is not known as healthy."""
        return self._telling.search(line) is not None and not _is_binary(line)

    def telling(self, block: bytes, start: int, end: int, taker: Taker) -> bool:
        """Finds the lines worth reading."""
        if self._skips:
            return self._unknown(block, start, end, taker)
        search = self._telling.search

        def find(at: int) -> int:
            found = search(block, at, end)
            return found.start() if found else -1

        return self._hits(block, start, end, taker, find)

    def telling_or(self, starts: tuple[bytes, ...], *, bare: bool) -> Find:
        """What finds these, and the lines of processes: those that begin so, or without a process."""

        def theirs(block: bytes, begin: int, stop: int) -> bool:
            if block[begin] == _BRACKET:
                return block.startswith(starts, begin) or block.find(b") (", begin, begin + _PREFIX) > 0
            return bare or block.find(b"(", begin, stop) >= 0  # the process may stand behind a wrapper

        return lambda block, start, end, taker: self._unknown(block, start, end, taker, theirs)

    def sample_in(self, line: bytes) -> Sequence[bytes] | None:
        """What a statistics line tells, as `Taker.sample` gets it; None for another line."""
        match = self._next.match(line)
        return match.groups() if match and match.lastindex == _SAMPLE and not match.start(_SAMPLE) else None

    def _unknown(self, block: bytes, start: int, end: int, taker: Taker,
                 theirs: Callable[[bytes, int, int], bool] | None = None) -> bool:
        """Gives the lines that are not known as healthy: those that are `theirs`, of the others those that tell."""
        search = self._telling.search
        for match in self._next.finditer(block, start, end):
            kind = match.lastindex
            if kind is None:
                return True
            begin, stop = match.span(kind)
            awaited = theirs is not None and theirs(block, begin, stop)
            if kind == _SAMPLE and not awaited:
                taker.sample(begin, match.groups())
                continue
            found = awaited or (search(block, begin, stop) and not _is_binary(block[begin:stop]))
            if found and not taker.line(begin, stop, not awaited):
                return False
        return True

    def _hits(self, block: bytes, start: int, end: int, taker: Taker, find: Callable[[int], int]) -> bool:
        """Gives the lines that count and hold what `find` finds at or behind a place (-1: nothing)."""
        while start < end and (found := find(start)) >= 0:
            begin, start = block.rfind(b"\n", 0, found) + 1, block.index(b"\n", found) + 1
            match = self._next.match(block, begin, start)
            if match is None or match.lastindex is None:
                continue  # a healthy line
            if match.lastindex == _SAMPLE:
                taker.sample(begin, match.groups())
            elif not _is_binary(block[begin:start]) and not taker.line(begin, start, True):
                return False
        return True


class FastScanner(Scanner):
    """The same with a multi-pattern engine (the extra `fast`). Raises ImportError where that is not installed."""

    def __init__(self, literals: Iterable[str], healthy: str = "", sample: str = "") -> None:
        import hyperscan  # noqa: PLC0415 - an extra, and only for long logs

        super().__init__(literals, healthy, sample)
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        count = len(self._words)
        self._database.compile(expressions=self._words, ids=list(range(count)), elements=count, flags=[0] * count,
                               literal=True)
        self._block = b""
        self._ends: list[int] = []  # where literals end in that block

    def telling(self, block: bytes, start: int, end: int, taker: Taker) -> bool:
        """Finds the lines worth reading."""
        if block is not self._block:  # all at once: a scan that stops at each literal would read the rest again
            self._block, self._ends = block, []
            note = self._ends.append
            self._database.scan(memoryview(block)[:end],  # type: ignore[type-var] # any buffer will do
                                match_event_handler=lambda _id, _begin, stop, _flags, _context: note(stop))
        found = iter(self._ends[bisect_right(self._ends, start):])

        def find(at: int) -> int:
            return next((stop - 1 for stop in found if stop > at), -1)

        return self._hits(block, start, end, taker, find)


def _forms(literal: str) -> set[str]:
    """A literal as it stands in a line, in a JSON string and in an HTML page, its bytes as Latin-1."""
    import html  # noqa: PLC0415 - its table of all entities costs 1 ms, and only long logs come here

    quoted = json.dumps(literal)[1:-1]
    safe = re.sub(r"[<>&]", lambda found: f"\\u{ord(found[0]):04x}", quoted)  # as Go writes JSON
    return {form.encode().decode("latin-1") for form in (literal, quoted, safe, html.escape(literal))}


def _is_binary(line: bytes) -> bool:
    """Whether it is no text: more than a twentieth are control characters (zeros aside, which pad files)."""
    return (len(line) - len(line.translate(None, _CONTROLS))) * 20 > len(line)
