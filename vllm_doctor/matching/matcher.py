"""Event -> Hit: which rules' wordings stand in the log, and which rules fire.

Only patterns whose anchor stands in the message are tried. A rule keeps its first and last few hits, so memory does
not grow with the log.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import regex

from vllm_doctor.events.reader import Event
from vllm_doctor.facts.last_items import add_last
from vllm_doctor.matching.anchors import Anchors
from vllm_doctor.rulebase.model import Literals, Marker, Pattern, Rule, RuleBase
from vllm_doctor.templating import evaluator

_WINDOW = 16_384  # of a very long message only the part around the anchor is searched
_KEEP = 6
_KEEP_LAST = 2
TIME_LIMIT = 0.05  # seconds that a user's pattern may take for one line


class Hit(NamedTuple):
    """One wording found: where, in which phase of the start, and the facts its groups captured."""

    pattern: str
    line: int
    text: str
    rank: int | None
    process: str
    phase: str
    values: Mapping[str, str]
    frames: str = ""


class Hits:
    """The hits of one rule in one run: the first and last few, and how many there were."""

    def __init__(self) -> None:
        self.first: list[Hit] = []
        self.last: list[Hit] = []
        self.count = 0
        self.ranks: set[int] = set()
        self.also: set[str] = set()
        self.absent = False

    def add(self, hit: Hit, times: int = 1) -> None:
        """Note one more hit, which stands for so many."""
        self.count += times
        if hit.rank is not None:
            self.ranks.add(hit.rank)
        if len(self.first) < _KEEP:
            self.first.append(hit)
        else:
            add_last(self.last, hit, _KEEP_LAST)

    @property
    def latest(self) -> Hit:
        """The last hit. Raises IndexError when there is none."""
        return (self.last or self.first)[-1]


class Waiting(NamedTuple):
    """A pattern that waits for its anchor, and who wants to know."""

    pattern: Pattern
    rule: str = ""  # its id; empty: a wording of a fact
    part: str = "any"
    marker: Marker | None = None
    at: int = 0  # its place among the anchors of the rule base


@lru_cache(maxsize=8192)
def compiled(regex: str) -> re.Pattern[str]:
    """The compiled expression; each is compiled once, when its anchor is first seen."""
    return re.compile(regex)


@lru_cache(maxsize=4)
def _anchors(base: RuleBase) -> Anchors:
    """The anchors of all patterns of a rule base, each with its place among them."""
    made = Anchors()
    for at, anchor in enumerate(base.anchors):
        made.add(anchor, at)
    return made


@lru_cache(maxsize=8192)
def waiting_at(base: RuleBase, at: int) -> Waiting:
    """The pattern whose anchor stands there among those of the rule base."""
    if at < len(base.markers):
        marker = base.markers[at]
        return Waiting(marker.pattern, "", "any", marker, at)
    place = at - len(base.markers)
    if place < len(base.facts):
        return Waiting(base.facts[place], "", "any", None, at)
    rule, part, pattern = base.wordings[place - len(base.facts)]
    return Waiting(pattern, rule, part, None, at)


class Matcher:
    """All patterns of a rule base behind one scanner of their anchors.

    `slow` names the patterns of a user's rules that took longer than TIME_LIMIT on a line; they are then left out.
    """

    def __init__(self, base: RuleBase) -> None:
        self.slow: dict[str, None] = {}
        self._base = base
        self._anchors = _anchors(base)

    def matches(self, event: Event, settled: Container[int] = ()) -> list[tuple[Waiting, dict[str, str]]]:
        """The patterns that match the event's message, each with what its groups captured.

        Where in the start the event stands is for the caller to weigh.

        `settled` are places of patterns whose next match would change nothing.
        """
        found = []
        text = event.text
        simple = not event.context and len(text) <= _WINDOW
        of_request = event.refusal or (bool(event.frames) and self._base.foreign.is_request(event.frames))
        for at in self._anchors.found_in(text):
            if at in settled:
                continue
            waiting = waiting_at(self._base, at)
            pattern = waiting.pattern
            if pattern.level and event.level not in pattern.level:
                continue
            if of_request and not self._is_of_requests(waiting):
                continue
            if pattern.frames and (not event.frames or pattern.frames_needles.tell(event.frames) is False):
                continue
            name = f"{waiting.rule}: {pattern.id}" if pattern.own else ""
            if name in self.slow:
                continue
            try:
                values = _captured(pattern, text) if simple else _search(pattern, event)
                if values is not None and _has_frames(pattern, event.frames):
                    found.append((waiting, values))
            except TimeoutError:
                self.slow[name] = None
        return found

    def _is_of_requests(self, waiting: Waiting) -> bool:
        """Whether a pattern is of a fault of single requests: what their exceptions say may be a client's words."""
        return bool(waiting.rule) and (
            waiting.rule in self._base.foreign.rules
            or (self._base.rules[waiting.rule].survives and self._base.rules[waiting.rule].phase == "api"))

    def possible(self, event: Event) -> list[Waiting]:
        """The patterns that may match a message which differs from the event's in numbers and long ids alone."""
        waiting = [waiting_at(self._base, at) for at in self._anchors.possible_in(event.text)]
        return [one for one in waiting if not (one.pattern.level and event.level not in one.pattern.level)
                and _has_frames(one.pattern, event.frames)]


def _search(pattern: Pattern, event: Event) -> dict[str, str] | None:
    """What the pattern captures in a message, of a very long one in a window around the anchor.

    In the message of an exception with several lines the match may begin in an earlier line: the anchor stands in the
    last line of what the pattern matches.
    """
    text = event.text
    if len(text) > _WINDOW:
        begin = max(0, text.find(pattern.anchor) - _WINDOW // 2)
        text = text[begin:begin + _WINDOW]
    values = _captured(pattern, text)
    if values is not None or not event.context:
        return values
    text = f"{event.context}\n{text}"
    match = _found(pattern.regex, text, own=pattern.own) if pattern.needles.tell(text) is not False else None
    return _groups(match) if match and match.end() > len(event.context) else None


def _captured(pattern: Pattern, text: str) -> dict[str, str] | None:
    """What the pattern captures in a text; None where it does not match."""
    told = pattern.needles.tell(text)
    if told is not None:
        return {} if told else None
    match = _found(pattern.regex, text, own=pattern.own)
    return _groups(match) if match else None


def _groups(match: re.Match[str]) -> dict[str, str]:
    if not match.lastindex:
        return {}
    return {name: raw for name, raw in match.groupdict().items() if raw is not None}


def _has_frames(pattern: Pattern, frames: str) -> bool:
    """Whether the traceback's calls are those the pattern asks for."""
    if pattern.frames and not _stands_in(pattern.frames, pattern.frames_needles, frames, own=pattern.own):
        return False
    refused = pattern.not_frames
    return not (refused and _stands_in(refused, pattern.not_frames_needles, frames, own=pattern.own))


def _stands_in(source: str, needles: Literals, frames: str, *, own: bool) -> bool:
    told = needles.tell(frames)
    return _found(source, frames, own=own) is not None if told is None else told


def _found(source: str, text: str, *, own: bool) -> re.Match[str] | None:
    """Our own patterns are linted and tested; a user's runs in an engine that can be stopped. Raises TimeoutError."""
    if not own:
        return compiled(source).search(text)

    found: Any = regex.compile(source).search(text, timeout=TIME_LIMIT)
    match: re.Match[str] | None = found
    return match


def fires(rule: Rule, hits: Hits, known: Mapping[str, Any]) -> bool:
    """Whether the rule's conditions hold, given what the run showed."""
    if not hits.first or hits.absent or len(hits.also) < len(rule.also):
        return False
    return not why_not(rule, known)


def why_not(rule: Rule, known: Mapping[str, Any]) -> str:
    """The first condition that keeps the rule from firing, in its own words; empty when none does."""
    for source in rule.when:
        expression = evaluator.parse(source)
        if not expression.holds(known):
            missing = sorted(name for name in expression.names if name not in known)
            return f"`{source}` does not hold" + (f" (unknown: {', '.join(missing)})" if missing else "")
    for source in rule.unless:
        if evaluator.parse(source).holds(known):
            return f"`{source}` holds"
    return ""
