"""Statistics lines of a busy server, read in short: each is counted in its load, few are read for what they say.

What rules find in such a line depends on the state of the load alone, so of the lines in one state the first and the
last are read in full, as many as a report keeps; of those between only the load is taken.
"""

# Annotations are values here: as texts, those of a NamedTuple would be compiled at every start.

import re
from collections import deque
from functools import lru_cache
from typing import Any, NamedTuple

from vllm_doctor.load import Load
from vllm_doctor.rules import RuleBase
from vllm_doctor.spells import Moment

WORDING = "stats-v1"
"""The wording of a fact (`rules/facts/runtime.yaml`) whose lines are meant."""
_HINT = b": Avg prompt throughput: "
_FIRST = 16
_LAST = 8
_MOST_STATES = 4096
_PREFIX = r"(?:\(\w+ pid=\d+\) )?INFO (?:\d{4}-)?(?P<stamp>\d\d-\d\d \d\d:\d\d:\d\d) \[[\w./-]+:\d+\] "


class Kept(NamedTuple):
    """A line still to be read in full; `times` counts it and those it stands for."""

    number: int
    raw: bytes
    times: int = 1


class _State:
    """The lines of one state: how many came, the last ones, how many before them were let go."""

    __slots__ = ("gone", "last", "lines")

    def __init__(self) -> None:
        self.lines = 0
        self.gone = 0
        self.last: deque[Kept] = deque(maxlen=_LAST)


@lru_cache(maxsize=4)
def _whole(base: RuleBase) -> re.Pattern[bytes]:
    """Matches such a line with vLLM's prefix."""
    pattern = next(wording.regex for wording in base.facts if wording.id == WORDING)
    return re.compile(rf"{_PREFIX}(?:{pattern})\s*".encode())


class Samples:
    """The statistics lines of one run."""

    def __init__(self, base: RuleBase) -> None:
        self._base = base
        self._states: dict[tuple[Any, ...], _State] = {}

    def take(self, raw: bytes, number: int, load: Load) -> bool:
        """Count a statistics line in the load and keep it back; False for a line to be read in full at once."""
        match = _whole(self._base).fullmatch(raw) if _HINT in raw else None
        if match is None or match["preemptions"]:
            return False
        running, waiting = int(match["running_requests"]), int(match["waiting_requests"])
        usage, hits = match["kv_cache_usage_percent"], match["prefix_cache_hit_percent"]
        engine, percent = match["engine_index"], -1.0 if usage is None else float(usage)
        state = (engine, match["num_engines"], running > 0, waiting > 0, hits and float(hits) > 0,
                 (percent >= 0) + (percent >= 5) + (percent >= 90))
        seen = self._states.get(state)
        if seen is None:
            if len(self._states) >= _MOST_STATES:
                return False
            seen = self._states[state] = _State()
        seen.lines += 1
        if seen.lines <= _FIRST:
            return False
        values: dict[str, Any] = {"running_requests": running, "waiting_requests": waiting}
        if usage is not None:
            values["kv_cache_usage_percent"] = percent
        if hits is not None:
            values["prefix_cache_hit_percent"] = float(hits)
        if engine is not None:
            values["engine_index"] = int(engine)
        load.add(values, Moment(number, match["stamp"].decode()))
        seen.gone += len(seen.last) == _LAST
        seen.last.append(Kept(number, raw))
        return True

    def rest(self) -> list[Kept]:
        """The lines kept back, in order; they are not given again."""
        kept: list[Kept] = []
        for state in self._states.values():
            if state.last:
                first, *others = state.last
                kept += [first._replace(times=1 + state.gone), *others]
                state.last.clear()
                state.gone = 0
        return sorted(kept)
