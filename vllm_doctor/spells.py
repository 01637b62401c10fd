"""Spells: stretches in which something lasted while the server served, told by its statistics lines.

Memory does not grow with the log: beside the spell that goes on only the first, the last and the longest are kept, and
the totals of all. Times are the log's own; it prints no year and, in some set-ups, no time at all.
"""

from __future__ import annotations

from vllm_doctor.patterns import lazy
from vllm_doctor.typed import NamedTuple

LASTING = 3
"""Statistics lines of one engine from which on it is no short peak, and without which it is over."""
_GAP = 600.0  # seconds without such a line that end a spell: an idle server prints no statistics
_STAMP = lazy(r"\b(?:\d{4}-)?(\d\d-\d\d \d\d:\d\d:\d\d)\b")
_STAMP_REACH = 160  # characters of a line in which vLLM's prefix stands


class Moment(NamedTuple):
    """A line of the log and the time it prints, as `11-20 14:02:31`; empty where it prints none."""

    line: int = 0
    stamp: str = ""

    @classmethod
    def of(cls, line: int, text: str) -> Moment:
        """The moment of a line, from its text with vLLM's prefix."""
        found = _STAMP.search(text, 0, _STAMP_REACH)
        return cls(line, found[1] if found else "")

    def seconds_until(self, later: Moment) -> float | None:
        """The seconds from here to a later line, which may be in the next year; None where a time is not known."""
        from datetime import datetime  # noqa: PLC0415 - most logs have no spells

        try:  # a leap year, so that 02-29 is a day
            begin, end = (datetime.fromisoformat(f"2000-{at.stamp}") for at in (self, later))
        except ValueError:
            return None
        seconds = (end - begin).total_seconds()
        return seconds if seconds > -180 * 86400 else seconds + 366 * 86400


class Spell(NamedTuple):
    """One stretch: its first and last line, how many lines of the engine most concerned, how many requests waited."""

    first: Moment
    last: Moment
    lines: int
    waiting: int

    @property
    def seconds(self) -> float:
        """How long it took by the log's own times; 0 where they are not known."""
        return max(0.0, self.first.seconds_until(self.last) or 0.0)


class Spells(NamedTuple):
    """All spells of one kind in one run."""

    number: int = 0
    seconds: float = 0.0
    waiting: int = 0  # the most requests that waited in any of them
    first: Spell | None = None
    last: Spell | None = None
    longest: Spell | None = None

    def with_one_more(self, spell: Spell) -> Spells:
        """These and another one, which came later."""
        longest = self.longest if self.longest and _length(self.longest) >= _length(spell) else spell
        return Spells(self.number + 1, self.seconds + spell.seconds, max(self.waiting, spell.waiting),
                      self.first or spell, spell, longest)

    def words(self) -> str:
        """`41 minutes in 3 spells between 11-20 14:02 and 16:40, while up to 212 requests waited`; "" if unknown."""
        if self.first is None or self.last is None or self.longest is None or not self.seconds:
            return ""
        begin, end = self.first.first.stamp[:-3], self.last.last.stamp[:-3]
        end = end[6:] if end[:5] == begin[:5] else end
        if self.number == 1:
            when = f"{_duration(self.seconds)} " + (f"at {begin}" if begin.endswith(end) else f"from {begin} to {end}")
        else:
            when = (f"{_duration(self.seconds)} in {self.number:,} spells between {begin} and {end}, "
                    f"the longest of {_duration(self.longest.seconds)}")
        return f"{when}, while up to {self.waiting:,} request{'' if self.waiting == 1 else 's'} waited"


class SpellKeeper:
    """Tells the spells of one kind from the statistics lines of one or more engines."""

    def __init__(self) -> None:
        self._over = Spells()
        self._now: Spell | None = None
        self._engines: dict[int, tuple[int, int]] = {}  # engine -> lines in this spell, lines without since

    @property
    def open(self) -> bool:
        """Whether any engine is in a spell, be it ever so short."""
        return bool(self._engines)

    def add(self, engine: int, holds: bool, at: Moment, waiting: int, *, idle: bool = False) -> None:
        """Note one line of an engine.

        A spell ends for an engine when it idles or prints LASTING lines without, and is over when it ended for all.
        """
        if holds and self._now and (self._now.last.seconds_until(at) or 0.0) > _GAP:
            self._end()
        lines, without = self._engines.get(engine, (0, 0))
        if holds:
            self._engines[engine] = (lines + 1, 0)
            now = self._now or Spell(at, at, 0, 0)
            self._now = now._replace(last=at, lines=max(now.lines, lines + 1), waiting=max(now.waiting, waiting))
        elif lines and without + 1 < LASTING and not idle:
            self._engines[engine] = (lines, without + 1)
        elif lines:
            del self._engines[engine]
            if not self._engines:
                self._end()

    def _end(self) -> None:
        self._over, self._now = self.spells, None
        self._engines.clear()

    @property
    def lasts(self) -> Spell | None:
        """The spell that goes on, once it is no short peak."""
        return self._now if self._now and self._now.lines >= LASTING else None

    @property
    def spells(self) -> Spells:
        """All spells so far, with the one that goes on."""
        now = self.lasts
        return self._over.with_one_more(now) if now else self._over


def _length(spell: Spell) -> tuple[float, int]:
    return spell.seconds, spell.lines


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
