"""Count the statistics lines of a busy server; only the first and last few of each state are read in full.

Skipped: a statistics line (`Avg prompt throughput: …`) in a state of the load of which enough lines were read.
Safe, because its numbers are still added to the server's load, and what rules find in such a line depends only on
that state: whether requests run or wait, whether tokens are processed, and how full the cache is. FIRST and LAST
lines of each state are read in full, as many as a report keeps.
The lines are counted in batches, before another line is read in full and before anything asks for the load.
Gain: a server prints one such line every ten seconds for weeks; most lines of a quiet log are of this kind.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from vllm_doctor.facts.server_load import ServerLoad
from vllm_doctor.fastpath.retained_lines import FIRST, LAST, RetainedLine, RetainedLines
from vllm_doctor.logs.wrappers.byte_patterns import COLOUR, JSON, JSON_END, WRAPPER
from vllm_doctor.rulebase.model import RuleBase
from vllm_doctor.text.patterns import lazy_pattern, portable

WORDINGS = ("stats-v1", "stats-v1-unnumbered", "stats-v0")
"""The wordings of facts (`rules/facts/runtime.yaml`) that match statistics lines."""
# A line in which one of these is counted is read in full; of other lines only the fields are read.
_RARE = ("preemptions", "swapped_requests")
_FIELDS = ("engine_index", "num_engines", "prompt_tokens_per_s", "generation_tokens_per_s", "running_requests",
           "waiting_requests", "kv_cache_usage_percent", "prefix_cache_hit_percent")  # in the order they are printed in
_NUMBER = lazy_pattern(rb"0{1,9}(?:\.0*)?")  # of a template
_NONE = b"0.0"  # tokens per second
_BATCH = 256  # lines that are counted together
_MOST_STATES = 4096
_MOST_NUMBERS = 4096
_PREFIX = (rf"(?:{COLOUR})?(?:\([!-~]+ pid=\d+\)(?:{COLOUR})? )?"
           r"INFO (?:\d{4}-)?(?P<stamp>\d\d-\d\d \d\d:\d\d:\d\d) \[?[\w./-]+:\d+\] ")


class Layout(NamedTuple):
    """The positions of the values in the statistics lines of one template.

    `line` is the server's line without a wrapper, `source` the name in the wrapper; `rare` is the position of a count
    that such lines rarely have, empty without one. `unpack` returns the values of _FIELDS, empty for those the line
    lacks.
    """

    wording: str
    line: slice
    source: slice
    stamp: slice
    rare: slice
    unpack: Callable[[bytes], tuple[bytes, ...]]


StatisticsLine = tuple[bytes, int, Layout]
"""A statistics line, its number and its layout."""


class Layouts:
    """The layouts of statistics lines, from the wordings of a rule base."""

    def __init__(self, base: RuleBase) -> None:
        self._expressions = [(wording.id, lazy_pattern(_line_expression(wording.regex))) for wording in base.facts
                             if wording.id in WORDINGS]

    def of(self, shape: bytes) -> Layout | None:
        """Return the layout of a template; None if it is not one of statistics lines."""
        for wording, expression in self._expressions:
            match = expression.fullmatch(shape)
            if match:
                spans = {name: match.span(name) for name, value in match.groupdict().items() if value}
                found = [spans[name] for name in _FIELDS if name in spans]
                if not all(_NUMBER.fullmatch(shape, *span) for span in found):  # 0..2, or more than is possible
                    return None
                rare = slice(*next((spans[name] for name in _RARE if name in spans), (0, 0)))
                source = slice(*spans.get("source", (0, 0)))
                return Layout(wording, slice(*spans["line"]), source, slice(*spans["stamp"]), rare,
                              _unpacker(spans, len(shape)))
        return None


def _unpacker(spans: Mapping[str, tuple[int, int]], size: int) -> Callable[[bytes], tuple[bytes, ...]]:
    """Return a function that cuts the fields out of a line of `size` bytes, given their positions."""
    formed, at = "", 0
    for name in _FIELDS:
        begin, stop = spans.get(name, (at, at))
        formed += f"{begin - at}x{stop - begin}s"
        at = stop
    return struct.Struct(f"{formed}{size - at}x").unpack


class _Values(dict[bytes, Any]):
    """A cache of converted values: most printed numbers repeat."""

    def __init__(self, convert: Callable[[bytes], Any]) -> None:
        super().__init__()
        self._convert = convert

    def __missing__(self, text: bytes) -> Any:
        value = self._convert(text)
        if len(self) < _MOST_NUMBERS:
            self[text] = value
        return value


def _usage(text: bytes) -> tuple[float, int]:
    """Return a usage in percent, and its part of the scale; part 0 for an empty text."""
    percent = float(text or -1)
    return max(percent, 0.0), 0 if percent < 0 else 1 if percent < 5 else 2 if percent < 90 else 3


def _is_zero_hit_rate(text: bytes) -> bool | None:
    """Return whether a hit rate in percent is zero; None for an empty text."""
    return not float(text) if text else None


_INTEGERS, _USAGES, _HIT_RATES = _Values(lambda text: int(text or 0)), _Values(_usage), _Values(_is_zero_hit_rate)


def _line_expression(regex: str) -> bytes:
    """Return the expression for an entire line of a wording."""
    return portable(rf"(?:{WRAPPER}|{JSON})?(?P<line>{_PREFIX}{regex}\.?)(?:{JSON_END})?[ \r]*\n").encode()


class StatisticsLines:
    """The statistics lines of one run."""

    def __init__(self) -> None:
        self._load = ServerLoad()
        self._uncounted: list[StatisticsLine] = []  # not counted yet
        self._first: list[RetainedLine] = []
        self._states: dict[tuple[Any, ...], RetainedLines] = {}

    @property
    def load(self) -> ServerLoad:
        """Return the load that all lines so far show."""
        self._count()
        return self._load

    def try_shortcut(self, raw: bytes, number: int, layout: Layout) -> bool:
        """Keep a statistics line back; return False if it must be read in full now."""
        if raw[layout.rare].strip(b"0"):
            return False
        self._uncounted.append((raw, number, layout))
        if len(self._uncounted) >= _BATCH:
            self._count()
        return True

    def _count(self) -> None:
        batch, self._uncounted = self._uncounted, []
        if not batch:
            return
        values = [layout.unpack(raw) for raw, _, layout in batch]
        names, sharing, prompts, answers, runs, waits, usages, hits = zip(*values, strict=True)
        engines, running, waiting = ([*map(_INTEGERS.__getitem__, texts)] for texts in (names, runs, waits))
        percents, bands = zip(*map(_USAGES.__getitem__, usages), strict=True)
        no_hits = [*map(_HIT_RATES.__getitem__, hits)]
        if not self._load.count_unqueued(running, waiting, percents, engines, no_hits):
            for numbers, (raw, number, layout) in zip(zip(running, waiting, percents, engines, no_hits, strict=True),
                                                      batch, strict=True):
                self._load.count(*numbers, number, raw[layout.stamp])
        wordings = [layout.wording for _, _, layout in batch]
        some = (map(bool, running), map(bool, waiting), *(map(_NONE.__ne__, tokens) for tokens in (prompts, answers)))
        states = zip(wordings, names, sharing, *some, no_hits, bands, strict=True)
        by_state: defaultdict[tuple[Any, ...], list[StatisticsLine]] = defaultdict(list)
        for state, line in zip(states, batch, strict=True):
            by_state[state].append(line)
        for key, lines in by_state.items():
            self._keep(key, lines)

    def _keep(self, state: tuple[Any, ...], lines: Sequence[StatisticsLine]) -> None:
        """Keep lines of one state back, except the first ones."""
        states = self._states
        retained = states.get(state)
        if retained is None:
            retained = states.setdefault(state if len(states) < _MOST_STATES else (), RetainedLines())
        first = max(0, FIRST - retained.lines)
        retained.lines += len(lines)
        self._first += (RetainedLine(number, raw[layout.line], 1, source=raw[layout.source])
                        for raw, number, layout in lines[:first])
        rest = lines[first:]
        retained.keep_last(len(rest), ((number, raw, layout.line, layout.source)
                                       for raw, number, layout in rest[-LAST:]))

    def first(self) -> list[RetainedLine]:
        """Return the first lines of each state, each only once."""
        if self._uncounted:
            self._count()
        first, self._first = sorted(self._first), []
        return first

    def rest(self) -> list[RetainedLine]:
        """Return the lines kept back, each only once."""
        return [*self.first(), *(kept for state in self._states.values() for kept in state.rest())]
