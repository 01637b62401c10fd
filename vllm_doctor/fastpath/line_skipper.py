"""Skip the lines of a long log that cannot change the report.

Skipped: lines that are known to be healthy (`rules/healthy.yaml`), and lines with none of the literals that rules,
facts and readers need. Repeated messages, statistics lines and tracebacks are offered to the consumer, which only
counts them where it can.
Safe, because the first READ_WHOLE lines (a start with its banners and settings) are always read, and nothing is
skipped while a message, traceback or command may continue. The result depends on the lines alone, not on how the
bytes were cut into chunks.
Gain: bytes are searched in large blocks, so most lines of a busy server are never decoded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from vllm_doctor.command.finder import WORDS as COMMAND_WORDS
from vllm_doctor.events.reader import CHAIN, START_WORDS, may_concern_starts
from vllm_doctor.events.reader import WORDS as EVENT_WORDS
from vllm_doctor.fastpath.line_scanner import FastScanner, LineTemplate, Row, Scanner
from vllm_doctor.fastpath.repeated_tracebacks import Traceback, traceback_at
from vllm_doctor.fastpath.statistics_lines import Layouts
from vllm_doctor.logs.terminal_escapes import printable
from vllm_doctor.logs.wrappers.byte_patterns import COLOUR, JSON, JSON_END, WRAPPER
from vllm_doctor.logs.wrappers.timestamps import PART_WORDS
from vllm_doctor.matching.matcher import pattern_ref
from vllm_doctor.rulebase.model import Pattern, RuleBase
from vllm_doctor.text.literal_search import any_of

ENGINE = "VLLM_DOCTOR_ENGINE"
"""Environment variable: `re` disables the extra `fast`."""
READ_WHOLE = 4000  # lines at the beginning that are always read: a start with its banners and settings
_STRUCTURE = (*EVENT_WORDS, *COMMAND_WORDS, *PART_WORDS)  # of lines that matter without a pattern
_FAILURES = (  # messages of a killed process, and error records that no rule matches
    "Fatal Python error", "Caught signal", "egfault encountered", "Bus error", "Killed", "core dumped", '" 50',
    "ERROR ", "ERROR:",
    "CRITICAL ", "CRITICAL:", "terminate called", "Exception ignored in", *CHAIN,
)
_AWAITED = 1 << 13  # bytes to read before checking again whether something may continue
_LONG = 1 << 16  # bytes of an unfinished line that are kept until it is known whether the line matters


class Mode(NamedTuple):
    """How the next lines are read: with which scanner, and whether some may continue what came before (`awaited`)."""

    scanner: Scanner
    awaited: bool = False


class Consumer(Protocol):
    """The reader of a stream; `Shortcuts` implements it."""

    def mode(self) -> Mode | None:
        """Return how the next lines are read; None if every line must be read."""

    def next_number(self) -> int:
        """Return the number of the next line."""

    def expects_continuation(self, data: bytes, number: int, template: LineTemplate) -> bool:
        """Return whether a line may continue what came before."""

    def read_short(self, data: bytes, number: int, template: LineTemplate, *, is_candidate: bool) -> bool:
        """Count a line as one of many of its kind; return False if it must be read in full.

        No rule, fact or reader can match it without `is_candidate`.
        """

    def read_traceback(self, traceback: Traceback, data: bytes, number: int, template: LineTemplate) -> bool:
        """Count a traceback, given its last line; return False if it must be read in full."""

    def read_ending(self, block: bytes, at: int) -> int:
        """Read the next line if it is a healthy line after something open; return its size."""

    def read_single_line(self, data: bytes) -> bool:
        """Read the next line on its own; return False if it must be read in context."""

    def skip(self, lines: int, size: int) -> None:
        """Record that lines and bytes are skipped."""


class LineSkipper:
    """The division of a stream into bytes that must be read in order, which are yielded, and the rest."""

    def __init__(self, reader: Consumer) -> None:
        self._reader = reader
        self._lines = 0  # complete lines so far
        self._tail = b""  # of the line that has not ended yet
        self._mid_line = False  # the beginning of that line was already yielded

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield the parts of some bytes that must be read in order."""
        start = 0
        if self._lines < READ_WHOLE or self._mid_line:
            start = self._head(data)
            yield data[:start]
            if start == len(data):
                return
        block = b"\n" + self._tail + data[start:]  # each of its lines follows a line end
        end = block.rfind(b"\n") + 1
        self._tail = block[end:]
        if end > 1:
            yield from self._block(block, end)
        if len(self._tail) > _LONG:
            yield self._tail
            self._tail, self._mid_line = b"", True

    def _traceback(self, mode: Mode, block: bytes, begin: int, end: int, number: int) -> tuple[int, int] | None:
        """Offer the traceback at `begin` to the reader; return its end and line count if the reader counted it."""
        found = traceback_at(block, begin, end)
        if found is None:
            return None
        exception = begin + len(found.lines)
        stop = block.index(b"\n", exception) + 1
        last = block[exception:stop]
        if not self._reader.read_traceback(found, last, number + found.line_count, mode.scanner.template_of(last)):
            return None
        return stop, found.line_count + 1

    def _rows(self, mode: Mode, block: bytes, at: int, index: int, end: int) -> Iterator[Row]:
        """Return the lines to examine."""
        if mode.awaited:
            return mode.scanner.unhealthy_lines(block, at, index, end)
        return mode.scanner.candidate_lines(block, at, index, end)

    def rest(self) -> bytes:
        """Return the line without an end, at the end of the input."""
        tail, self._tail = self._tail, b""
        return tail

    def _head(self, data: bytes) -> int:
        """Return how many bytes belong to the first lines, or to the long line being read."""
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
        """Yield the parts of `block[1:end]` to read; `at` and `index` are the first line not handled yet."""
        reader, at, index = self._reader, 1, 0
        mode = reader.mode()
        while at < end:
            if (mode is None or mode.awaited) and (size := reader.read_ending(block, at)):
                at, index, mode = at + size, index + 1, reader.mode()
                continue
            if mode is None:
                stop = block.index(b"\n", at) + 1
                yield block[at:stop]
                at, index, mode = stop, index + 1, reader.mode()
                continue
            next_mode: Mode | None = mode
            first = reader.next_number() - index
            for place, begin, line, template in self._rows(mode, block, at, index, _reach(mode, block, at, end)):
                if template and template.opens_traceback and (
                        read := self._traceback(mode, block, begin, end, first + place)):
                    reader.skip(place + read[1] - index, read[0] - at)
                    at, index = read[0], place + read[1]
                    if size := reader.read_ending(block, at):
                        at, index = at + size, index + 1
                    next_mode = reader.mode()
                    break
                number, stop = first + place, begin + len(line)
                awaited = mode.awaited and template and reader.expects_continuation(line, number, template)
                is_counted = template and not awaited and reader.read_short(
                    line, number, template, is_candidate=not mode.awaited or mode.scanner.is_candidate(template, line))
                if is_counted and (next_mode := reader.mode()) is mode:
                    continue
                here, lines = (stop, place + 1) if is_counted else (begin, place)
                if at < here:
                    reader.skip(lines - index, here - at)
                if template and not is_counted:
                    if awaited or not reader.read_single_line(line):
                        yield line
                    lines, next_mode = lines + 1, reader.mode()
                at, index = stop, lines
                if mode.awaited or next_mode is not mode:
                    break  # the next line may end what is open, even a healthy one
            mode = reader.mode() if next_mode is mode else next_mode
        self._lines += index


def _reach(mode: Mode, block: bytes, at: int, end: int) -> int:
    """Return how far to read in this mode: an awaited line comes soon, or not at all."""
    return block.find(b"\n", at + _AWAITED, end - 1) + 1 or end if mode.awaited else end


@lru_cache(maxsize=64)
def mode_of(base: RuleBase, *, awaited: bool, serving: bool, earlier_starts: bool = False) -> Mode:
    """Return how lines are read; with `earlier_starts` only the begin and end of server starts matter."""
    return Mode(start_scanner() if earlier_starts else scanner(base, serving=serving), awaited)


@lru_cache(maxsize=4)
def scanner(base: RuleBase, *, serving: bool) -> Scanner:
    """Return the scanner for lines that may matter; while `serving`, healthy lines do not."""
    healthy, layout = (_healthy(base), Layouts(base).of) if serving else ("", lambda _: None)
    return _scanner_type()(candidate_literals(base, serving=serving), healthy, layout)


def _scanner_type() -> type[Scanner]:
    if os.environ.get(ENGINE) == "re":
        return Scanner
    try:
        import hyperscan  # noqa: F401, PLC0415 - an optional extra
    except ImportError:
        return Scanner
    return FastScanner


@lru_cache(maxsize=1)
def start_scanner() -> Scanner:
    """Return the scanner for lines that may begin or end a server start."""
    literals = any_of(START_WORDS)

    def may_matter(template: bytes) -> bool:
        text = printable(template.decode(errors="replace"))
        return literals.search(text) and may_concern_starts(text)

    return _scanner_type()(START_WORDS, may_matter=may_matter, patience=0)


def candidate_literals(base: RuleBase, *, serving: bool) -> list[str]:
    """Return literals of which every line that may matter contains at least one."""
    markers = (marker.pattern.anchor for marker in base.markers
               if marker.status or marker.phase != "runtime" or not serving)
    found = [*_STRUCTURE, *_FAILURES, *markers]
    for at, anchor in enumerate(base.anchors[len(base.markers):], len(base.markers)):
        if any(anchor in healthy for healthy in base.healthy_anchors):
            found += _distinctive_literals(pattern_ref(base, at).pattern, base.healthy_anchors)
        else:
            found.append(anchor)
    return found


def _distinctive_literals(pattern: Pattern, healthy: Sequence[str]) -> Sequence[str]:
    """Return literals of which every match of a pattern contains one, and no healthy line if possible."""
    groups = [] if pattern.required_literals.sufficient else pattern.required_literals.required
    return next((group for group in groups if not any(word in anchor for word in group for anchor in healthy)),
                [pattern.anchor])


def _healthy(base: RuleBase) -> str:
    """Return the expression for healthy lines, with or without a wrapper."""
    inside = base.healthy.replace('"', r'\\"')
    wrapper = WRAPPER.replace("?P<source>", "?:")
    return rf"{base.healthy}|(?:{wrapper}(?:{COLOUR})?|{COLOUR}){base.healthy}|{JSON}{inside}{JSON_END}"
