"""Statistics lines of a busy server, read in short: each is counted in its load, few are read for what they say.

What rules find in such a line depends on the state of the load alone, so of the lines in one state the first and the
last are read in full, as many as a report keeps; of those between only the load is taken.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from operator import itemgetter

from vllm_doctor.load import Load
from vllm_doctor.patterns import lazy
from vllm_doctor.rules import RuleBase
from vllm_doctor.series import FIRST, Kept, Series
from vllm_doctor.typed import Any, NamedTuple

WORDINGS = ("stats-v1", "stats-v1-unnumbered", "stats-v0")
"""The wordings of facts (`rules/facts/runtime.yaml`) whose lines are meant."""
# The wrappers behind which those lines are known: a time stamp before each (kubectl, docker), docker's JSON around it.
STAMP = r"[0-9]{4}-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9](?:\.[0-9]{1,9})?Z "
JSON = r'\{"log":"'
JSON_END = r'\\n","stream":"std(?:out|err)","time":"[0-9TZ:.+-]+"\}'
# What is read of a line, behind what is rare: a line that counts some of these is read in full.
_RARE = ("preemptions", "swapped_requests")
_FIELDS = ("engine_index", "num_engines", "running_requests", "waiting_requests", "kv_cache_usage_percent",
           "prefix_cache_hit_percent")
_MOST = 1e9  # no requests and no percent are more
_MOST_STATES = 4096
_MOST_NUMBERS = 4096
_PREFIX = r"(?:\([!-~]+ pid=\d+\) )?INFO (?:\d{4}-)?(?P<stamp>\d\d-\d\d \d\d:\d\d:\d\d) \[?[\w./-]+:\d+\] "


class Layout(NamedTuple):
    """Where in the statistics lines of one shape the values stand.

    `line` is the server's line, without a wrapper. `unpack` gives the values as they stand in the line; of these
    `order` takes what is rare in such a line, then those of _FIELDS, empty where it has none.
    """

    wording: str
    line: slice
    stamp: slice
    unpack: Callable[[bytes], tuple[bytes, ...]]
    order: Callable[[tuple[bytes, ...]], tuple[bytes, ...]]


class Layouts:
    """The wordings of a rule base."""

    def __init__(self, base: RuleBase) -> None:
        self._expressions = [(wording.id, lazy(_whole(wording.regex))) for wording in base.facts
                             if wording.id in WORDINGS]

    def of(self, shape: bytes) -> Layout | None:
        """The layout of a shape; None where it is none of statistics lines."""
        for wording, expression in self._expressions:
            match = expression.fullmatch(shape)
            if match:
                spans = {name: match.span(name) for name, value in match.groupdict().items() if value}
                found = sorted((spans[name], name) for name in (*_RARE, *_FIELDS) if name in spans)
                at = {name: place for place, (_, name) in enumerate(found, 1)}
                rare = next((at[name] for name in _RARE if name in at), 0)
                order = itemgetter(rare, *(at.get(name, 0) for name in _FIELDS))
                return Layout(wording, slice(*spans["line"]), slice(*spans["stamp"]),
                              _unpacks([span for span, _ in found], len(shape)), order)
        return None


def _unpacks(spans: Sequence[tuple[int, int]], size: int) -> Callable[[bytes], tuple[bytes, ...]]:
    """What cuts the bytes of these spans out of a line of that size, behind an empty field."""
    formed, at = "0s", 0
    for begin, stop in spans:
        formed += f"{begin - at}x{stop - begin}s"
        at = stop
    return struct.Struct(f"{formed}{size - at}x").unpack


class _Numbers(dict[bytes, Any]):
    """Numbers as read: most come again. Raises ValueError for what is none, or more than there can be."""

    def __init__(self, make: Callable[[bytes], float]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, text: bytes) -> float:
        value = self._make(text)
        if value > _MOST:
            raise ValueError
        if len(self) < _MOST_NUMBERS:
            self[text] = value
        return value


_WHOLE, _PERCENT = _Numbers(int), _Numbers(float)


def _whole(regex: str) -> bytes:
    """The expression for a whole line of a wording."""
    return rf"(?:{STAMP}|{JSON})?(?P<line>{_PREFIX}{regex}\.?)(?:{JSON_END})?[ \r]*\n".encode()


class Samples:
    """The statistics lines of one run."""

    def __init__(self) -> None:
        self._states: dict[tuple[Any, ...], Series] = {}

    def take(self, raw: bytes, number: int, layout: Layout, load: Load) -> bool:
        """Count a statistics line in the load and keep it back; False for one to be read in full at once."""
        rare, engine, engines, runs, waits, usage, hits = layout.order(layout.unpack(raw))
        if rare and rare.strip(b"0"):
            return False
        try:
            running, waiting, percent = _WHOLE[runs], _WHOLE[waits], _PERCENT[usage] if usage else -1.0
            no_hits = hits != b"" and not _PERCENT[hits]
        except ValueError:  # 0..2
            return False
        band = 0 if percent < 0 else 1 if percent < 5 else 2 if percent < 90 else 3
        state = layout.wording, engine, engines, running > 0, waiting > 0, hits == b"", no_hits, band
        seen = self._states.get(state)
        if seen is None:
            if len(self._states) >= _MOST_STATES:
                return False
            seen = self._states[state] = Series()
        seen.lines += 1
        if seen.lines <= FIRST:
            return False
        load.count(running, waiting, percent if percent > 0 else 0.0, _WHOLE[engine] if engine else 0, no_hits, number,
                   raw[layout.stamp])
        seen.keep(number, raw, layout.line)
        return True

    def rest(self) -> list[Kept]:
        """The lines kept back, in order; they are not given again."""
        return [kept for state in self._states.values() for kept in state.rest()]
