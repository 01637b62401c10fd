"""What a start is doing, in one short line: `loading weights 45 % · 12 s · then profiling`.

The wording is in `rules/stalls.yaml`. A progress bar is read as it moves, while the log's reader waits for its end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from vllm_doctor.language import ENGLISH, Language
from vllm_doctor.messages import message
from vllm_doctor.phases import FIRST
from vllm_doctor.rulebase.model import Stall


class StartProgress:
    """Follows one server through its starts. Times are seconds of any clock that only goes forward."""

    def __init__(self, phases: Mapping[str, Stall], now: float, language: Language = ENGLISH) -> None:
        self._phases = phases
        self._language = language
        self._key: tuple[int, str] = (1, FIRST)
        self._since = now
        self._percent = ""

    def see(self, piece: bytes, run: int, phase: str, now: float) -> None:
        """Note the start (by its number), the phase after a piece of the log, and the progress in that phase."""
        key = (run, phase)
        if key != self._key:
            self._key, self._since, self._percent = key, now, ""
        words = self._phases.get(key[1])
        if words and words.percent and b"%" in piece:
            found = re.findall(words.percent.encode(), piece)
            self._percent = found[-1].decode() if found else self._percent

    def line(self, now: float) -> str:
        """Return the progress line; "" if the phase is not part of a start."""
        words = self._phases.get(self._key[1])
        if words is None:
            return ""
        far = f" {self._percent} %" if self._percent else ""
        return self._language.say("{doing}{percent} · {time} · then {next}", doing=message(words.doing), percent=far,
                                  time=_seconds(now - self._since), next=message(words.then))


def _seconds(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return message("{minutes} min {seconds:02d} s", minutes=minutes, seconds=rest) if minutes else f"{rest} s"
