"""Bytes of a long log that say nothing are passed over: most lines of a busy server are of this kind.

A line says nothing when it is known to be healthy (`rules/healthy.yaml`) or holds none of the literals without which no
rule, fact or reader of this package learns anything. Bytes are searched in large blocks, so that such lines are never
made into text. What is passed over depends on the lines alone, not on how the bytes were cut.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import lru_cache

from vllm_doctor.command.finder import WORDS as COMMAND_WORDS
from vllm_doctor.events import WORDS as EVENT_WORDS
from vllm_doctor.rules import RuleBase
from vllm_doctor.scan import FastScanner, Find, Scanner
from vllm_doctor.wrappers.timestamps import PART_WORDS

ENGINE = "VLLM_DOCTOR_ENGINE"
"""Environment variable: `re` does without the extra `fast` where it is installed."""
READ_WHOLE = 4000  # lines at the beginning that are all read: a start, with its banners and settings, is among them
_LONG = 1 << 16  # bytes of a line that are kept back to see whether it is worth reading


class Skimmer:
    """Cuts a stream into what is to be read in order and what is not.

    `find` is asked for what finds the lines to be read as things stand, or None while every line counts. `alone` gets
    each of them, with whether nothing awaits it, and says whether it could be read by itself; one that could not is
    given out. `skip` gets the number of lines and bytes that were passed over.
    """

    def __init__(self, find: Callable[[], Find | None], alone: Callable[[bytes, bool], bool],
                 skip: Callable[[int, int], None]) -> None:
        self._find = find
        self._alone = alone
        self._skip = skip
        self._lines = 0  # complete ones so far
        self._tail = b""  # of the line that has no end yet
        self._mid_line = False  # the beginning of that line was given out already

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """What to read in order of some more bytes."""
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

    def _block(self, block: bytes, end: int) -> Iterator[bytes]:
        """The lines of `block[1:end]`."""
        at, find, refused = 1, None, False

        def take(begin: int, stop: int, alone: bool) -> bool:
            nonlocal at, refused
            self._pass_over(block, at, begin)
            refused = not self._alone(block[begin:stop], alone)
            self._lines += not refused
            at = begin if refused else stop
            return not refused and self._find() is find

        while at < end:
            find, refused = self._find(), True
            if find is not None:
                refused = False
                if find(block, at, end, take):
                    self._pass_over(block, at, end)
                    return
            if refused:
                line_end = block.index(b"\n", at) + 1
                self._lines += 1
                yield block[at:line_end]
                at = line_end

    def _pass_over(self, block: bytes, start: int, end: int) -> None:
        if start < end:
            lines = block.count(b"\n", start, end)
            self._lines += lines
            self._skip(lines, end - start)


@lru_cache(maxsize=64)
def finder(base: RuleBase, open_processes: tuple[str, ...], *, serving: bool) -> Find:
    """What finds the lines worth reading; `open_processes` print something that goes on."""
    made = scanner(base, serving=serving)
    if not open_processes:
        return made.telling
    starts = tuple(f"({process}) ".encode() for process in open_processes if process)
    return made.telling_or(starts, bare="" in open_processes)


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
