"""The load of a running vLLM server, from its periodic statistics lines, in bounded memory.

A saturated cache or a queue matters only when it lasts; one busy line does not. The counters here measure it: how
many lines, how many of them saturated, queued, pinned or stalled, the peaks, and the periods of each state
(load_periods.py). With data parallelism each engine prints its own lines; consecutive lines and peaks are counted for
each engine separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vllm_doctor.facts.load_curve import LoadCurve
from vllm_doctor.facts.load_periods import LoadPeriod, LoadPeriodTracker, Moment

SATURATED_PERCENT = 90.0
"""KV cache usage from which a queue waits for the cache: a new request needs blocks for its entire prompt."""
_EMPTY_PERCENT = 50.0  # a cache below it holds no request back
ROOMY_PERCENT = 80.0
"""KV cache usage below which a queue does not wait for the cache."""
USUAL_MAX_NUM_SEQS = {128, 256, 512, 1024}
"""Default values of --max-num-seqs, over releases, GPUs and engines."""
_MAX_ENGINES = 256


class _Engine:
    """The counters of one engine: consecutive stalled lines, and queued lines at the peak of running requests."""

    def __init__(self) -> None:
        self.stalled_in_a_row = 0
        self.peak_running = 0
        self.pinned_lines = 0


class ServerLoad:
    """The counters over the statistics lines of one run; lines of several engines count together."""

    def __init__(self) -> None:
        self.stats_lines = 0
        self.busy_lines = 0
        self.saturated_lines = 0
        self.saturated_running = 0  # on the last of them, as is the usage
        self.saturated_percent = 0.0
        self.queued_lines = 0
        self.queued_while_empty_lines = 0
        self.stalled_lines = 0
        self.longest_stall = 0
        self.peak_running = 0
        self.peak_waiting = 0
        self.peak_kv_cache_usage_percent = 0.0
        self.zero_prefix_hit_lines = 0
        self.curve = LoadCurve()
        self._engines: dict[int, _Engine] = {}
        self._in_period = False
        self._trackers = {name: LoadPeriodTracker() for name in ("saturation", "stall", "queue")}

    def add(self, values: Mapping[str, Any], at: Moment = Moment()) -> None:  # noqa: B008 - frozen
        """Count one statistics line, given its facts and its moment."""
        if "running_requests" in values:
            self.count(int(values["running_requests"]), int(values.get("waiting_requests", 0)),
                       float(values.get("kv_cache_usage_percent", 0.0)), int(values.get("engine_index", 0)),
                       values.get("prefix_cache_hit_percent") == 0, *at)

    def count(self, running: int, waiting: int, usage: float, index: int, no_prefix_hits: bool,  # noqa: PLR0917 - for each line of a long log
              line: int, stamp: str | bytes) -> None:
        """Count one statistics line of an engine: its requests, its cache usage in percent, its place in the log."""
        self.stats_lines += 1
        self.curve.add(usage, running, waiting)
        if running:
            self.busy_lines += 1
            self.peak_running = max(self.peak_running, running)
        if usage > self.peak_kv_cache_usage_percent:  # noqa: PLR1730 - `max` costs more, for each line of a long log
            self.peak_kv_cache_usage_percent = usage
        if no_prefix_hits:
            self.zero_prefix_hit_lines += 1
        index, engine = self._engine(index)
        if waiting:
            self._queue(engine, running, waiting, usage)
        elif engine.stalled_in_a_row:
            engine.stalled_in_a_row = 0
        if waiting or self._in_period:
            at = Moment(line, stamp if isinstance(stamp, str) else stamp.decode())
            self._track_period(index, running, waiting, usage, at)
        if running > engine.peak_running:
            engine.peak_running, engine.pinned_lines = running, 0
        if waiting:
            engine.pinned_lines += running == engine.peak_running and running > 0 and usage < ROOMY_PERCENT

    def count_unqueued(self, running: Sequence[int], waiting: Iterable[int], usage: Sequence[float],
                       indices: Sequence[int], no_prefix_hits: Sequence[bool | None]) -> bool:
        """Count lines without waiting requests together; return False if their order matters."""
        if self._in_period or any(waiting) or any(engine.stalled_in_a_row for engine in self._engines.values()):
            return False
        self.stats_lines += len(running)
        self.curve.add_unqueued(usage, running)
        self.busy_lines += len(running) - running.count(0)
        self.peak_running = max(self.peak_running, *running)
        self.peak_kv_cache_usage_percent = max(self.peak_kv_cache_usage_percent, *usage)
        self.zero_prefix_hit_lines += no_prefix_hits.count(True)
        is_single_engine = indices.count(indices[0]) == len(indices)
        peaks = {indices[0]: max(running)} if is_single_engine else dict(sorted(zip(indices, running, strict=True)))
        for index, most in peaks.items():
            engine = self._engine(index)[1]
            if most > engine.peak_running:
                engine.peak_running, engine.pinned_lines = most, 0
        return True

    def _engine(self, index: int) -> tuple[int, _Engine]:
        """Return the number under which an engine is counted, and its counters."""
        engine = self._engines.get(index)
        if engine is None:
            if len(self._engines) >= _MAX_ENGINES:
                index = -1  # all further engines together
            engine = self._engines.setdefault(index, _Engine())
        return index, engine

    def _queue(self, engine: _Engine, running: int, waiting: int, usage: float) -> None:
        self.peak_waiting = max(self.peak_waiting, waiting)
        self.queued_lines += 1
        if usage >= SATURATED_PERCENT:
            self.saturated_lines += 1
            self.saturated_running, self.saturated_percent = running, usage
        elif usage < _EMPTY_PERCENT and running:
            self.queued_while_empty_lines += 1
        if running:
            engine.stalled_in_a_row = 0
        else:
            self.stalled_lines += 1
            engine.stalled_in_a_row += 1
            self.longest_stall = max(self.longest_stall, engine.stalled_in_a_row)

    def _track_period(self, index: int, running: int, waiting: int, usage: float, at: Moment) -> None:
        kind = "" if not waiting else "saturation" if usage >= SATURATED_PERCENT else "queue" if running else "stall"
        self._in_period = False
        for name, tracker in self._trackers.items():
            if name == kind or tracker.engines:
                tracker.add(index, name == kind, at, waiting, idle=not running and not waiting)
                if tracker.engines:
                    self._in_period = True

    @property
    def current_period(self) -> tuple[str, LoadPeriod] | None:
        """Return the current period and its kind: requests wait for a full cache, with none running, or in a queue."""
        current = ((kind, tracker.current_period) for kind, tracker in self._trackers.items())
        return next(((kind, period) for kind, period in current if period), None)

    @property
    def pinned_lines(self) -> int:
        """Return the lines with a queue at the peak of running requests while the cache had room."""
        return sum(engine.pinned_lines for engine in self._engines.values()
                   if engine.peak_running == self.peak_running)

    @property
    def stalled_at_end(self) -> int:
        """Return the last consecutive lines (of the engine with the most) with waiting and no running requests."""
        return max((engine.stalled_in_a_row for engine in self._engines.values()), default=0)

    @property
    def requests_that_fit(self) -> float | None:
        """Return how many requests of the observed length fit in a saturated cache; None if the cache was empty."""
        peak = self.peak_kv_cache_usage_percent
        return self.peak_running * SATURATED_PERCENT / peak if peak else None

    def summary(self) -> dict[str, int | float | str]:
        """Return the counters by name, for rules; empty without statistics lines."""
        if not self.stats_lines:
            return {}
        names = ("stats_lines", "busy_lines", "saturated_lines", "saturated_running", "saturated_percent",
                 "queued_lines", "queued_while_empty_lines", "pinned_lines", "stalled_lines", "longest_stall",
                 "stalled_at_end", "peak_running", "peak_waiting", "peak_kv_cache_usage_percent",
                 "zero_prefix_hit_lines")
        summary_values: dict[str, int | float | str] = {name: getattr(self, name) for name in names}
        summary_values["peak_is_usual_limit"] = self.peak_running in USUAL_MAX_NUM_SEQS
        if self.requests_that_fit is not None:
            summary_values["requests_that_fit"] = self.requests_that_fit
        for name, tracker in self._trackers.items():
            summary_values[f"{name}_periods"] = tracker.periods.number
            summary_values[f"{name}_time"] = tracker.periods.describe()
        return summary_values
