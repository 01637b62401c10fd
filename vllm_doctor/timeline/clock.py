"""The times that a log prints, as one start of the server goes on."""

from __future__ import annotations

from vllm_doctor.phases import ORDER
from vllm_doctor.text.times import seconds_between

_WARM_UP = "Warming up model for the compilation"  # on CPUs: before the KV cache a marker; in older releases after it
_OTHER_ZONE = 2700  # seconds; zones differ by an hour or more
_FAILURES = frozenset({"ERROR", "CRITICAL"})


class StartClock:
    """The times of one start: the first, the last, and those at which it reached its phases."""

    def __init__(self) -> None:
        self.first = ""
        self.last = ""
        self.phases: list[tuple[str, str]] = []  # each phase reached, with the last time printed by then
        self.serving = ""
        self.error = ""  # of the first error since the last phase was reached
        self._is_own = False  # a time was printed as vLLM does, without a year

    def see(self, time: str, level: str, text: str) -> None:
        """Record the time of a line, if it is not of another program, with the clock of another time zone."""
        is_own = time[4:5] != "-"
        if self.first and is_own != self._is_own and abs(seconds_between(self.last, time) or 0.0) >= _OTHER_ZONE:
            if not is_own:
                return
            self.first = ""
        self._is_own = self._is_own or is_own
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
