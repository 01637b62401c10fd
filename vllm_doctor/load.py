"""The load of a serving vLLM, from its periodic statistics lines, in bounded memory.

A saturated cache or a waiting queue is a finding only when it lasts; one busy line is not. The counters here tell that:
how many lines, how many of them saturated, queued, stalled, and the peaks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SATURATED_PERCENT = 90.0
"""KV cache usage from which on a queue waits for the cache: a new request needs blocks for its whole prompt."""


@dataclass(slots=True)
class Load:
    """Counters over the statistics lines of one run. Lines of several engines count together."""

    stats_lines: int = 0
    saturated_lines: int = 0
    queued_lines: int = 0
    queued_while_empty_lines: int = 0
    stalled_lines: int = 0
    stalled_in_a_row: int = 0
    longest_stall: int = 0
    peak_running: int = 0
    peak_waiting: int = 0
    peak_kv_cache_usage_percent: float = 0.0
    zero_prefix_hit_lines: int = 0

    def add(self, values: Mapping[str, Any]) -> None:
        """Count one statistics line, given the facts it showed."""
        if "running_requests" not in values:
            return
        running = int(values["running_requests"])
        waiting = int(values.get("waiting_requests", 0))
        usage = float(values.get("kv_cache_usage_percent", 0.0))
        self.stats_lines += 1
        self.peak_running = max(self.peak_running, running)
        self.peak_waiting = max(self.peak_waiting, waiting)
        self.peak_kv_cache_usage_percent = max(self.peak_kv_cache_usage_percent, usage)
        self.zero_prefix_hit_lines += values.get("prefix_cache_hit_percent") == 0
        if waiting:
            self.queued_lines += 1
            if usage >= SATURATED_PERCENT:
                self.saturated_lines += 1
            elif usage < 50.0 and running:
                self.queued_while_empty_lines += 1
        if waiting and not running:
            self.stalled_lines += 1
            self.stalled_in_a_row += 1
            self.longest_stall = max(self.longest_stall, self.stalled_in_a_row)
        else:
            self.stalled_in_a_row = 0

    def summary(self) -> dict[str, int | float]:
        """The counters by name, for rules; empty when no statistics line was seen."""
        if not self.stats_lines:
            return {}
        names = ("stats_lines", "saturated_lines", "queued_lines", "queued_while_empty_lines", "stalled_lines",
                 "longest_stall", "peak_running", "peak_waiting", "peak_kv_cache_usage_percent",
                 "zero_prefix_hit_lines")
        return {name: getattr(self, name) for name in names}
