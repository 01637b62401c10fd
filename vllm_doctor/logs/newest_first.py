"""Logs whose newest lines come first, as viewers of log collectors show and export them.

What tells: the times of the lines fall, or the calls of a traceback stand in reverse above its head.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from vllm_doctor.logs.pasted_text import Row
from vllm_doctor.text.patterns import lazy_pattern
from vllm_doctor.text.traceback_head import TRACEBACK

_TIME = lazy_pattern(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d|\b\d\d-\d\d \d\d:\d\d:\d\d|\b\d\d:\d\d:\d\d")
_CALL = lazy_pattern(r"(?P<front>.{0,200}?)(?P<indent>[ \t]{1,40})File \"[^\"]{1,400}\", line \d{1,7}")
_REACH = 120  # characters at the beginning of a line in which its time stands
_FALLS = 3  # changes of the time that show the order of a log without tracebacks
_MIXED = 0.1  # for each change in that order, so many in the other: lines of several processes


def is_newest_first(lines: Sequence[str]) -> bool:
    """Return whether the newest of some lines come first."""
    lines = [line for line in lines if line.strip()]
    above, below = _calls_around_heads(lines)
    if below:  # one traceback in the usual order outweighs whatever a client may have made a server print
        return False
    falls, rises = _changes_of_time(lines)
    if above:
        return falls >= rises and _has_sources_above(lines)
    return falls >= _FALLS and rises <= _MIXED * falls


def oldest_first(lines: Sequence[str]) -> list[Row]:
    """Return the lines in the order in which they were written, with their numbers in the input."""
    return [Row(number, lines[number - 1]) for number in range(len(lines), 0, -1)]


def _changes_of_time(lines: Sequence[str]) -> tuple[int, int]:
    """Return how often the time falls, and how often it rises, from one line to the next."""
    times = [match[0] for line in lines if (match := _TIME.search(line[:_REACH]))]
    pairs = [pair for pair in pairwise(times) if len(pair[0]) == len(pair[1])]
    return sum(one > other for one, other in pairs), sum(one < other for one, other in pairs)


def _calls_around_heads(lines: Sequence[str]) -> tuple[int, int]:
    """Return how many heads of tracebacks have a call above them and none below, and how many have one below."""
    above = below = 0
    for before, line, behind in _with_neighbours(lines):
        if TRACEBACK in line:
            below += 'File "' in behind
            above += 'File "' in before and 'File "' not in behind
    return above, below


def _has_sources_above(lines: Sequence[str]) -> bool:
    """Return whether more calls have a source line only above them than only below.

    Those are the ends of tracebacks: between two calls, the line stands above the one and below the other.
    """
    above = below = 0
    for before, line, behind in _with_neighbours(lines):
        if call := _CALL.match(line):
            one, other = (_is_source(near, call["front"], call["indent"]) for near in (before, behind))
            above += one and not other
            below += other and not one
    return above > below


def _with_neighbours(lines: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Return each line between the one before it and the one behind it, which are empty at the ends."""
    return zip(["", *lines], lines, [*lines[1:], ""], strict=False)


def _is_source(line: str, front: str, indent: str) -> bool:
    """Return whether a line is indented deeper than a call, behind the same prefix, and is no call itself."""
    return line.startswith(f"{front}{indent} ") and 'File "' not in line
