"""Which lines of a block of bytes are worth reading: those with one of many literals that are not known as healthy."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from vllm_doctor.patterns import lazy, portable
from vllm_doctor.windows import Trie, windows

# What the reader of lines takes off or reads otherwise, so that a literal may stand behind it: terminal escapes, spaces
# that do not break; and a shell's line that goes on. As Latin-1.
_ODD = ("\x1b[", "\x1b(B", "\x1b]", "\xc2\x9b", "\xc2\xa0", "\xef\xbb\xbf", "\\\n", " ^\n", " `\n")
_CONTROLS = bytes(code for code in (*range(1, 32), 127) if code not in b"\t\n\r\x1b")
_BRACKET = ord("(")  # the prefix of a process begins with it
_PREFIX = 120  # bytes in which such prefixes stand
_SPACES = b" \t\r\f\v"

Take = Callable[[int, int, bool], bool]
"""`take(begin, stop, alone)` gets the line `block[begin:stop]`, with its end, and says whether to go on.

`alone` says that it cannot be part of what came before.
"""
Find = Callable[[bytes, int, int, Take], bool]
"""`find(block, start, end, take)` gives lines of `block[start:end]` in order; whether it came to the end.

A line end stands before `start` and before `end`.
"""


class Scanner:
    """Finds the lines worth reading. `healthy` is an expression for whole lines that are never worth it."""

    def __init__(self, literals: Iterable[str], healthy: str = "") -> None:
        forms = {form for literal in literals for form in _forms(literal)}
        words = Trie([*windows(forms).values(), *_ODD])
        self._words = [word.encode("latin-1") for word in words.words]
        self._telling = lazy(words.any().encode("latin-1"))
        self._healthy = lazy(rf"(?:{healthy})\n".encode("latin-1")) if healthy else None
        known = rf"(?:(?:{healthy})\n)*+" if healthy else ""
        self._next = lazy(portable(rf"{known}(?:([^\n]*\n)|\Z)").encode("latin-1"))

    def unhealthy(self, block: bytes, start: int, end: int, take: Take) -> bool:
        """Finds the lines that are not known as healthy."""
        return all(take(begin, stop, False) for begin, stop in self._unknown(block, start, end))

    def tells(self, line: bytes) -> bool:
        """Whether a line is worth reading that is not known as healthy."""
        return self._telling.search(line) is not None and not _is_binary(line)

    def telling(self, block: bytes, start: int, end: int, take: Take) -> bool:
        """Finds the lines worth reading."""
        search = self._telling.search
        if self._healthy is None:

            def find(at: int) -> int:
                found = search(block, at, end)
                return found.start() if found else -1

            return self._hits(block, start, end, take, find)
        for begin, stop in self._unknown(block, start, end):
            if search(block, begin, stop) and not _is_binary(block[begin:stop]) and not take(begin, stop, True):
                return False
        return True

    def telling_or(self, starts: tuple[bytes, ...], *, bare: bool) -> Find:
        """What finds these, and the lines of processes: those that begin so, or without a process."""
        search = self._telling.search

        def find(block: bytes, start: int, end: int, take: Take) -> bool:
            for begin, stop in self._unknown(block, start, end):
                if block[begin] == _BRACKET:
                    theirs = block.startswith(starts, begin) or block.find(b") (", begin, begin + _PREFIX) > 0
                else:
                    theirs = bare or block[begin] in _SPACES
                found = theirs or (search(block, begin, stop) and not _is_binary(block[begin:stop]))
                if found and not take(begin, stop, not theirs):
                    return False
            return True

        return find

    def _unknown(self, block: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Where the lines that are not known as healthy begin and end."""
        for line in self._next.finditer(block, start, end):
            begin, stop = line.span(1)
            if begin < 0:
                return
            yield begin, stop

    def _hits(self, block: bytes, start: int, end: int, take: Take, find: Callable[[int], int]) -> bool:
        """Gives the lines that count and hold what `find` finds at or behind a place (-1: nothing)."""
        while start < end and (found := find(start)) >= 0:
            begin, start = block.rfind(b"\n", 0, found) + 1, block.index(b"\n", found) + 1
            known = self._healthy is not None and self._healthy.match(block, begin, start)
            if not known and not _is_binary(block[begin:start]) and not take(begin, start, True):
                return False
        return True


class FastScanner(Scanner):
    """The same with a multi-pattern engine (the extra `fast`). Raises ImportError where that is not installed."""

    def __init__(self, literals: Iterable[str], healthy: str = "") -> None:
        import hyperscan  # noqa: PLC0415 - an extra, and only for long logs

        super().__init__(literals, healthy)
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._ended = hyperscan.ScanTerminated
        count = len(self._words)
        self._database.compile(expressions=self._words, ids=list(range(count)), elements=count, flags=[0] * count,
                               literal=True)

    def telling(self, block: bytes, start: int, end: int, take: Take) -> bool:
        """Finds the lines worth reading."""
        view: Any = memoryview(block)
        ends: list[int] = []

        def note(_id: int, _begin: int, stop: int, _flags: int, _context: object) -> bool:
            ends.append(stop)
            return True  # the first is enough

        def find(at: int) -> int:
            ends.clear()
            with contextlib.suppress(self._ended):
                self._database.scan(view[at:end], match_event_handler=note)
            return at + ends[0] - 1 if ends else -1

        return self._hits(block, start, end, take, find)


def _forms(literal: str) -> set[str]:
    """A literal as it stands in a line, in a JSON string and in an HTML page, its bytes as Latin-1."""
    import html  # noqa: PLC0415 - its table of all entities costs 1 ms, and only long logs come here

    quoted = json.dumps(literal)[1:-1]
    safe = re.sub(r"[<>&]", lambda found: f"\\u{ord(found[0]):04x}", quoted)  # as Go writes JSON
    return {form.encode().decode("latin-1") for form in (literal, quoted, safe, html.escape(literal))}


def _is_binary(line: bytes) -> bool:
    """Whether it is no text: more than a twentieth are control characters (zeros aside, which pad files)."""
    return (len(line) - len(line.translate(None, _CONTROLS))) * 20 > len(line)
