"""Bytes of a long log that say nothing are passed over: most lines of a busy server are of this kind.

A line says nothing when it is known to be healthy (`rules/healthy.yaml`) or holds none of the literals without which no
rule, fact or reader of this package learns anything. Bytes are searched in large blocks, so that such lines are never
made into text. What is passed over depends on the lines alone, not on how the bytes were cut.
"""

# Annotations are values here: as texts, those of a NamedTuple would be compiled at every start.

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from vllm_doctor.command.finder import WORDS as COMMAND_WORDS
from vllm_doctor.events import WORDS as EVENT_WORDS
from vllm_doctor.rules import RuleBase
from vllm_doctor.samples import expression
from vllm_doctor.scan import FastScanner, Find, Scanner
from vllm_doctor.wrappers.timestamps import PART_WORDS

ENGINE = "VLLM_DOCTOR_ENGINE"
"""Environment variable: `re` does without the extra `fast` where it is installed."""
# The wrappers behind which those lines are known: a time stamp before each (kubectl, docker), docker's JSON around it.
_STAMP = r"[0-9]{4}-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9](?:\.[0-9]{1,9})?Z "
_JSON = r'\{"log":"'
_JSON_END = r'\\n","stream":"std(?:out|err)","time":"[0-9TZ:.+-]+"\}'
READ_WHOLE = 4000  # lines at the beginning that are all read: a start, with its banners and settings, is among them
_LONG = 1 << 16  # bytes of a line that are kept back to see whether it is worth reading


class Reader(NamedTuple):
    """Who reads a stream."""

    find: Callable[[], Find | None]
    """What finds the next line worth reading as things stand; None while every line counts."""
    alone: Callable[[bytes, bool], bool]
    """Reads a line by itself, given whether nothing awaits it; False for one to be given out."""
    sampler: Callable[[], Callable[[Sequence[bytes], int], bool]]
    """What reads statistics lines, given how many lines behind the next one they stand; False for one not read."""
    read: Callable[[bytes], None]
    """Reads a line in full."""
    skip: Callable[[int, int], None]
    """Hears of so many lines and bytes that are passed over, those of statistics lines among them."""


class Skimmer:
    """Cuts a stream into what a reader must read in order, which is given out, and the rest."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
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
        taker = _Taker(self._reader, block)
        while taker.search(end):
            yield taker.give()
        self._lines += taker.lines


class _Taker:
    """Takes what is found in a block and hands it to the reader. A line end stands before the block's first line."""

    def __init__(self, reader: Reader, block: bytes) -> None:
        self.lines = 0  # dealt with so far
        self._at = 1  # the first line not dealt with
        self._reader = reader
        self._block = block
        self._find: Find | None = None
        self._refused = False
        self._samples: list[tuple[int, Sequence[bytes]]] = []  # not yet read: many are read in one go

    def search(self, end: int) -> bool:
        """Whether there is a line to be given out. Those before it are dealt with."""
        while self._at < end:
            self._find, self._refused = self._reader.find(), False
            if self._find is None:
                return True
            if self._find(self._block, self._at, end, self):
                if self._read_samples():
                    self._pass_over(end)
            elif self._refused:
                return True
        return False

    def give(self) -> bytes:
        """The line that `search` found."""
        start, self._at = self._at, self._block.index(b"\n", self._at) + 1
        self.lines += 1
        return self._block[start:self._at]

    def line(self, begin: int, stop: int, alone: bool) -> bool:
        if self._samples and not self._read_samples():
            return False
        self._pass_over(begin)
        self._refused = not self._reader.alone(self._block[begin:stop], alone)
        if self._refused:
            return False
        self._at = stop
        self.lines += 1
        return self._reader.find() is self._find

    def sample(self, begin: int, groups: Sequence[bytes]) -> None:
        self._samples.append((begin, groups))

    def _read_samples(self) -> bool:
        """Read the statistics lines so far. False when one changed how the lines behind it are read."""
        found, self._samples = self._samples, []
        count, at, lines, sample = self._block.count, self._at, 0, self._reader.sampler()
        for begin, groups in found:
            lines += count(b"\n", at, begin)
            at = begin
            if not sample(groups, lines):
                self._pass_over(begin)
                self._reader.read(groups[0])
                self._at = at = begin + len(groups[0])
                self.lines += 1
                if self._reader.find() is not self._find:
                    return False
                lines, sample = 0, self._reader.sampler()
        return True

    def _pass_over(self, end: int) -> None:
        if self._at < end:
            lines = self._block.count(b"\n", self._at, end)
            self._reader.skip(lines, end - self._at)
            self._at = end
            self.lines += lines


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


def words(base: RuleBase, *, serving: bool) -> tuple[list[str], str, str]:
    """Literals of which every line worth reading holds one, the expressions for healthy and for statistics lines."""
    readers = (*EVENT_WORDS, *COMMAND_WORDS, *PART_WORDS)
    others = base.anchors[len(base.markers):]
    markers = (marker.pattern.anchor for marker in base.markers
               if marker.status or marker.phase != "runtime" or not serving)
    if not serving:
        return [*readers, *markers, *others], "", ""
    inside = base.healthy.replace('"', r'\\"')
    healthy = rf"{base.healthy}|{_STAMP}{base.healthy}|{_JSON}{inside}{_JSON_END}"
    sample = rf"(?:|{_STAMP}|{_JSON})({expression(base).regex})(?:{_JSON_END})?+"
    return [*readers, *markers, *others], healthy, sample
