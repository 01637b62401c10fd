"""The timeline as a report shows it."""

from __future__ import annotations

from typing import NamedTuple


class PhaseTime(NamedTuple):
    """The seconds of one phase, and of the work in it whose duration vLLM prints (None: it prints none)."""

    phase: str
    seconds: float
    printed: float | None = None


class Timeline(NamedTuple):
    """The phases of one start in their order; their seconds sum to `total_seconds`.

    `unexplained_seconds` is the time for which the log prints no duration. `dominant` is the longest phase, None if all
    took no time. `first_time` and `last_time` are the clock's text at both ends; `advice` says how the release shortens
    the longest phase.
    """

    total_seconds: float
    phases: tuple[PhaseTime, ...]
    unexplained_seconds: float
    dominant: str | None
    first_time: str
    last_time: str
    is_complete: bool  # the server served at the end of it
    advice: tuple[str, ...] = ()
