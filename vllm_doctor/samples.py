"""Statistics lines of a busy server, read in short: each is counted in its load, few are read for what they say.

What rules find in such a line depends on the state of the load alone, so of the lines in one state the first and the
last are read in full, as many as a report keeps; of those between only the load is taken.
"""

# Annotations are values here: as texts, those of a NamedTuple would be compiled at every start.

import re
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from vllm_doctor.errors import RuleError
from vllm_doctor.load import Load
from vllm_doctor.rules import RuleBase

WORDING = "stats-v1"
"""The wording of a fact (`rules/facts/runtime.yaml`) whose lines are meant."""
_GROUPS = ("stamp", "engine_index", "num_engines", "running_requests", "waiting_requests", "preemptions",
           "kv_cache_usage_percent", "prefix_cache_hit_percent")
_FIRST = 8
_LAST = 8
_MOST = 1e9  # no requests and no percent are more
_MOST_STATES = 4096
_PREFIX = r"(?:\(\w+ pid=\d+\) )?INFO (?:\d{4}-)?(\d\d-\d\d \d\d:\d\d:\d\d) \[[\w./-]+:\d+\] "


class Kept(NamedTuple):
    """A line still to be read in full; `times` counts it and those it stands for."""

    number: int
    raw: bytes
    times: int


class _State:
    """The lines of one state: how many came, how many of them were given out or stand for others, the last ones."""

    __slots__ = ("given", "last", "lines")

    def __init__(self) -> None:
        self.lines = 0
        self.given = _FIRST
        self.last: deque[tuple[int, bytes]] = deque(maxlen=_LAST)


@lru_cache(maxsize=4)
def expression(base: RuleBase) -> str:
    """Matches such a line with vLLM's prefix. Its groups are what `Samples.take` reads, in the order of _GROUPS."""
    pattern = next(wording.regex for wording in base.facts if wording.id == WORDING)
    names = re.findall(r"\(\?P<(\w+)>", pattern)
    if ["stamp", *(name for name in names if name in _GROUPS)] != [*_GROUPS]:
        raise RuleError(f"`{WORDING}` must name in this order: {', '.join(_GROUPS[1:])}")
    groups = re.sub(r"\(\?P<(\w+)>", lambda group: "(" if group[1] in _GROUPS else "(?:", pattern)
    return rf"{_PREFIX}(?:{groups})"


class Samples:
    """The statistics lines of one run."""

    def __init__(self) -> None:
        self._states: dict[tuple[Any, ...], _State] = {}

    def take(self, groups: Sequence[bytes], number: int, load: Load) -> bool:
        """Count a statistics line in the load and keep it back; False for a line to be read in full at once.

        `groups` are the line as it stands, the server's line in it, what `expression` found there, and nothing.
        """
        _, raw, stamp, engine, engines, runs, waits, preempted, usage, hits, _ = groups
        if preempted:
            return False
        try:
            running, waiting, percent = int(runs), int(waits), -1.0 if usage is None else float(usage)
            no_hits = hits is not None and not float(hits)
        except ValueError:  # 0..2
            return False
        if max(running, waiting, percent) > _MOST:
            return False
        band = 0 if percent < 0 else 1 if percent < 5 else 2 if percent < 90 else 3
        state = engine, engines, running > 0, waiting > 0, hits is None, no_hits, band
        seen = self._states.get(state)
        if seen is None:
            if len(self._states) >= _MOST_STATES:
                return False
            seen = self._states[state] = _State()
        seen.lines += 1
        if seen.lines <= _FIRST:
            return False
        load.count(running, waiting, max(percent, 0.0), int(engine or 0), no_hits, number, stamp)
        seen.last.append((number, raw))
        return True

    def rest(self) -> list[Kept]:
        """The lines kept back, in order; they are not given again."""
        kept: list[Kept] = []
        for state in self._states.values():
            gone = state.lines - state.given - len(state.last)
            for number, raw in state.last:
                kept.append(Kept(number, raw, 1 + gone))
                gone = 0
            state.given = max(state.lines, _FIRST)
            state.last.clear()
        return sorted(kept)
