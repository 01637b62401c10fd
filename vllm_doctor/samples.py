"""Statistics lines of a busy server, read in short: each is counted in its load, few are read for what they say.

What rules find in such a line depends on the state of the load alone, so of the lines in one state the first and the
last are read in full, as many as a report keeps; of those between only the load is taken.
"""

# Annotations are values here: as texts, those of a NamedTuple would be compiled at every start.

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from vllm_doctor.load import Load
from vllm_doctor.patterns import lazy
from vllm_doctor.rules import RuleBase
from vllm_doctor.series import FIRST, Kept, Series

WORDINGS = ("stats-v1", "stats-v1-unnumbered", "stats-v0")
"""The wordings of facts (`rules/facts/runtime.yaml`) whose lines are meant."""
_FIELDS = ("engine_index", "num_engines", "running_requests", "waiting_requests", "kv_cache_usage_percent",
           "prefix_cache_hit_percent")
_RARE = ("preemptions", "swapped_requests")  # a line that counts some is read in full
_RAW, _STAMP, _BEFORE = 1, 2, 3  # the places of the line, of its time, of the first group of a wording
_NONE = -1  # the place of a group that matches no such line
_MOST = 1e9  # no requests and no percent are more
_MOST_STATES = 4096
_GROUP = lazy(r"\(\?P<(\w+)>")
_PREFIX = (r"(?:\([!-~]++ pid=[0-9]++\) )?+INFO (?:[0-9]{4}-)?+([0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9]) "
           r"\[?[!-Z^-~]++\] ")
# What the wordings say in ways that are slower on bytes: they are tried on many lines of a long log.
_QUICKER = ((r"[\d.]+", "[0-9.]++"), (r"\d", "[0-9]"), ("[0-9]+)", "[0-9]++)"), (")?(", ")?+("))


class Expression(NamedTuple):
    """Matches such a line with vLLM's prefix. `layouts` tell for each wording where its groups stand.

    A layout is the place of a group that only this wording has, and what takes the fields out of all groups.
    """

    regex: str
    layouts: Sequence[tuple[int, Callable[[Sequence[bytes]], Any]]]


@lru_cache(maxsize=4)
def expression(base: RuleBase) -> Expression:
    """The expression for the wordings of a rule base."""
    patterns = {wording.id: wording.regex for wording in base.facts if wording.id in WORDINGS}
    regexes, layouts, at = [], [], _BEFORE
    for wording in WORDINGS:
        names = [name for name in _GROUP.findall(patterns[wording]) if name in {*_FIELDS, *_RARE}]
        regexes.append(_GROUP.sub(lambda group: "(" if group[1] in {*_FIELDS, *_RARE} else "(?:", patterns[wording]))
        for slow, quick in _QUICKER:
            regexes[-1] = regexes[-1].replace(slow, quick)
        places = {name: at + place for place, name in enumerate(names)}
        rare = next((places[name] for name in _RARE if name in places), _NONE)
        layouts.append((places["running_requests"], itemgetter(rare, *(places.get(name, _NONE) for name in _FIELDS))))
        at += len(names)
    return Expression(rf"{_PREFIX}(?:{'|'.join(regexes)})\.?", layouts)


class Samples:
    """The statistics lines of one run."""

    def __init__(self, base: RuleBase) -> None:
        self._layouts = expression(base).layouts
        self._states: dict[tuple[Any, ...], Series] = {}

    def take(self, groups: Sequence[bytes], number: int, load: Load) -> bool:
        """Count a statistics line in the load and keep it back; False for a line to be read in full at once.

        `groups` are the line as it stands, the server's line in it, what `expression` found there, and nothing.
        """
        only, fields = next(layout for layout in self._layouts if groups[layout[0]] is not None)
        rare, engine, engines, runs, waits, usage, hits = fields(groups)
        if rare and rare.strip(b"0"):
            return False
        try:
            running, waiting, percent = int(runs), int(waits), -1.0 if usage is None else float(usage)
            no_hits = hits is not None and not float(hits)
        except ValueError:  # 0..2
            return False
        if max(running, waiting, percent) > _MOST:
            return False
        band = 0 if percent < 0 else 1 if percent < 5 else 2 if percent < 90 else 3
        state = only, engine, engines, running > 0, waiting > 0, hits is None, no_hits, band
        seen = self._states.get(state)
        if seen is None:
            if len(self._states) >= _MOST_STATES:
                return False
            seen = self._states[state] = Series()
        seen.lines += 1
        if seen.lines <= FIRST:
            return False
        load.count(running, waiting, max(percent, 0.0), int(engine or 0), no_hits, number, groups[_STAMP])
        seen.keep(number, groups[_RAW])
        return True

    def rest(self) -> list[Kept]:
        """The lines kept back, in order; they are not given again."""
        return [kept for state in self._states.values() for kept in state.rest()]
