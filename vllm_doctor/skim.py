"""Bytes of a long log that say nothing are passed over: most lines of a busy server are of this kind.

A line says nothing when it is known to be healthy (`rules/healthy.yaml`) or holds none of the literals without which no
rule, fact or reader of this package learns anything. Bytes are searched in large blocks, so that such lines are never
made into text. What is passed over depends on the lines alone, not on how the bytes were cut.
"""

# Annotations are values here: as texts, those of a NamedTuple would be compiled at every start.

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from vllm_doctor.command.finder import WORDS as COMMAND_WORDS
from vllm_doctor.events import WORDS as EVENT_WORDS
from vllm_doctor.rules import RuleBase
from vllm_doctor.scan import FastScanner, Scanner
from vllm_doctor.wrappers.timestamps import PART_WORDS

ENGINE = "VLLM_DOCTOR_ENGINE"
"""Environment variable: `re` does without the extra `fast` where it is installed."""
READ_WHOLE = 4000  # lines at the beginning that are all read: a start, with its banners and settings, is among them
_LONG = 1 << 16  # bytes of a line that are kept back to see whether it is worth reading


Find = Callable[[bytes, int, int], int]
"""`find(block, start, end)`: where the first line to be read begins at or behind `start`; `end` when there is none."""


class Passed(NamedTuple):
    """So many lines and bytes were passed over."""

    lines: int
    size: int


class Skimmer:
    """Cuts a stream into what is to be read and what was passed over.

    `find` is asked before each line: for what finds the next line to be read as things stand, or None while every line
    counts.
    """

    def __init__(self, find: Callable[[], Find | None]) -> None:
        self._find = find
        self._lines = 0  # complete ones so far
        self._tail = b""  # of the line that has no end yet
        self._mid_line = False  # the beginning of that line was given out already

    def pieces(self, data: bytes) -> Iterator[bytes | Passed]:
        """What to read of some more bytes, in order."""
        start = 0
        if self._lines < READ_WHOLE or self._mid_line:
            start = self._head(data)
            yield data[:start]
            if start == len(data):
                return
        block = b"\n" + self._tail + data[start:]  # each line of it begins behind a line end
        end = block.rfind(b"\n") + 1
        self._tail = block[end:]
        if end > 1:
            yield from self._block(block, end)
        if len(self._tail) > _LONG:
            yield self._tail
            self._tail, self._mid_line = b"", True

    def rest(self) -> bytes:
        """At the end: the line that has no end."""
        tail, self._tail = self._tail, b""
        return tail

    def _head(self, data: bytes) -> int:
        """How many of the bytes belong to the lines at the beginning, or to the long line being read."""
        count = data.count(b"\n")
        wanted = max(READ_WHOLE - self._lines, 1)
        self._mid_line = (self._mid_line or bool(data)) and not data.endswith(b"\n")
        if count < wanted:
            self._lines += count
            return len(data)
        at = -1
        for _ in range(wanted):
            at = data.index(b"\n", at + 1)
        self._lines += wanted
        self._mid_line = False
        return at + 1

    def _block(self, block: bytes, end: int) -> Iterator[bytes | Passed]:
        """The lines of `block[1:end]`."""
        at = 1
        while at < end:
            find = self._find()
            if find is not None and (found := find(block, at, end)) > at:
                passed = Passed(block.count(b"\n", at, found), found - at)
                self._lines += passed.lines
                yield passed
                at = found
                if at == end:
                    return
            line_end = block.index(b"\n", at) + 1
            self._lines += 1
            yield block[at:line_end]
            at = line_end


@lru_cache(maxsize=4)
def scanner(base: RuleBase, *, serving: bool) -> Scanner:
    """What finds the lines worth reading; while the server serves, those that say no more than that are not."""
    if os.environ.get(ENGINE) != "re":
        with contextlib.suppress(ImportError):
            return FastScanner(*words(base, serving=serving))
    return Scanner(*words(base, serving=serving))


def words(base: RuleBase, *, serving: bool) -> tuple[list[str], str]:
    """Literals of which every line worth reading holds one, and the expression for healthy lines."""
    readers = (*EVENT_WORDS, *COMMAND_WORDS, *PART_WORDS)
    others = base.anchors[len(base.markers):]
    markers = (marker.pattern.anchor for marker in base.markers
               if marker.status or marker.phase != "runtime" or not serving)
    return [*readers, *markers, *others], base.healthy if serving else ""
