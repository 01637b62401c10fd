"""The times that a log prints, as one start of the server goes on."""

from __future__ import annotations

from vllm_doctor.phases import ORDER

_WARM_UP = "Warming up model for the compilation"  # on CPUs: before the KV cache a marker; in older releases after it
_FAILURES = frozenset({"ERROR", "CRITICAL"})


class StartClock:
    """The times of one start: the first, the last, and those at which it reached its phases."""

    def __init__(self) -> None:
        self.first = ""
        self.last = ""
        self.phases: list[tuple[str, str]] = []  # each phase reached, with the last time printed by then
        self.serving = ""
        self.error = ""  # of the first error since the last phase was reached
        self._is_yearless = False  # vLLM prints no year

    def see(self, time: str, level: str, text: str) -> None:
        """Record the time of a line; beside vLLM's, none of another program, whose clock may be of another zone."""
        has_year = time[4:5] == "-"
        if has_year and self._is_yearless:
            return
        self._is_yearless = not has_year
        self.first = self.first or time
        self.last = time
        if text.startswith(_WARM_UP) and any(phase == "kv-cache" for phase, _ in self.phases):
            self.reach("graph-capture")
        if level in _FAILURES:
            self.error = self.error or time

    def reach(self, phase: str) -> None:
        """Record that the start reached a phase with the line seen last."""
        if not self.phases or ORDER[phase] > ORDER[self.phases[-1][0]]:
            self.phases.append((phase, self.last))
            self.error = ""

    def serve(self) -> None:
        """Record that the server began to serve with the line seen last."""
        self.serving = self.serving or self.last
