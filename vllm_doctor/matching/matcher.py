"""Event -> Hit: which patterns of the rules match the log, and which rules fire.

Only patterns whose anchor is in the message are tried. A rule keeps its first and last few hits, so memory does
not grow with the log.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from functools import lru_cache
from time import thread_time
from typing import Any, NamedTuple

import regex

from vllm_doctor.events.event import QUIET_LEVELS, Event
from vllm_doctor.facts.last_items import add_last
from vllm_doctor.matching.anchors import Anchors
from vllm_doctor.rulebase.model import LONGEST_TEXT, Literals, Marker, Pattern, Rule, RuleBase
from vllm_doctor.templating import evaluator

_KEEP = 6
_KEEP_LAST = 2
TIME_LIMIT = 0.05
"""Seconds of CPU time that a pattern may take for one message: the bundled ones take thousandths for the longest."""
_SLOW = 0.005  # seconds of CPU time; a search that takes less is not counted
_FILE_LIMIT = 2.0  # seconds of CPU time that the slow searches of one file may take, over all patterns


class Hit(NamedTuple):
    """A match of a rule's pattern: its line, the phase of the start, and the facts its groups captured."""

    pattern: str
    line: int
    text: str
    rank: int | None
    process: str
    phase: str
    values: Mapping[str, str]
    frames: str = ""


class Hits:
    """The hits of one rule in one run: the first and last few, and their count."""

    def __init__(self) -> None:
        self.first: list[Hit] = []
        self.last: list[Hit] = []
        self.count = 0
        self.ranks: set[int] = set()
        self.also: set[str] = set()
        self.absent: set[str] = set()

    def add(self, hit: Hit, times: int = 1) -> None:
        """Add a hit; `times` is the number of equal messages it represents."""
        self.count += times
        if hit.rank is not None:
            self.ranks.add(hit.rank)
        if len(self.first) < _KEEP:
            self.first.append(hit)
        else:
            add_last(self.last, hit, _KEEP_LAST)

    @property
    def kept(self) -> tuple[Hit, ...]:
        """Return the hits that were kept, in the order of the log."""
        return (*self.first, *self.last)

    @property
    def latest(self) -> Hit:
        """Return the last hit; raise IndexError without one."""
        return (self.last or self.first)[-1]


class PatternRef(NamedTuple):
    """A pattern of the rule base and the rule, part or marker it belongs to."""

    pattern: Pattern
    rule: str = ""  # the rule's id; empty for a fact's pattern
    part: str = "any"
    marker: Marker | None = None
    at: int = 0  # its index among the anchors of the rule base


@lru_cache(maxsize=8192)
def compiled(source: str) -> regex.Pattern[str]:
    """Compile an expression once, when its anchor is first found."""
    return regex.compile(source)


def search(source: str, text: str) -> re.Match[str] | None:
    """Return the first match of an expression in a text; raise TimeoutError after TIME_LIMIT.

    `timeout` counts the CPU time of the process. No other thread runs during the search (`concurrent=False`), so that
    the report does not depend on what they do.
    """
    pattern: Any = compiled(source)
    match: re.Match[str] | None = pattern.search(text, timeout=TIME_LIMIT, concurrent=False)
    return match


@lru_cache(maxsize=4)
def _anchors(base: RuleBase) -> Anchors:
    """Return the anchors of all patterns of a rule base, each with its index."""
    anchors = Anchors()
    for at, anchor in enumerate(base.anchors):
        anchors.add(anchor, at)
    return anchors


@lru_cache(maxsize=8192)
def pattern_ref(base: RuleBase, at: int) -> PatternRef:
    """Return the pattern whose anchor has this index in the rule base."""
    if at < len(base.markers):
        marker = base.markers[at]
        return PatternRef(marker.pattern, "", "any", marker, at)
    place = at - len(base.markers)
    if place < len(base.facts):
        return PatternRef(base.facts[place], "", "any", None, at)
    rule, part, pattern = base.wordings[place - len(base.facts)]
    return PatternRef(pattern, rule, part, None, at)


class Matcher:
    """All patterns of a rule base, looked up by their anchors.

    `slow` names the patterns that are skipped for the rest of the file: those that exceeded TIME_LIMIT for one message,
    and those that were slow once all slow searches together had taken _FILE_LIMIT.
    """

    def __init__(self, base: RuleBase) -> None:
        self.slow: dict[str, None] = {}
        self._left_out: set[int] = set()
        self._slow_seconds = 0.0
        self._base = base
        self._anchors = _anchors(base)

    def matches(
        self, event: Event, settled: Container[int] = (), *, serves: bool = False,
    ) -> list[tuple[PatternRef, dict[str, str]]]:
        """Return the patterns that match the event's message, each with the values of its groups.

        The caller checks the phase of the start. `settled` holds the indexes of patterns whose next match would change
        nothing. While the server `serves`, faults of the server are not read from what may be a client's words.
        """
        results = []
        text = event.text
        simple = not event.context and len(text) <= LONGEST_TEXT
        of_request = event.refusal or (bool(event.frames) and self._base.untrusted.is_request(event.frames))
        for at in self._anchors.found_in(text):
            if at in settled or at in self._left_out:
                continue
            ref = pattern_ref(self._base, at)
            pattern = ref.pattern
            if pattern.level and event.level not in pattern.level:
                continue
            if of_request and not self._reads_request(ref, event):
                continue
            if serves and self._is_no_evidence(ref, event):
                continue
            if pattern.frames and (not event.frames or pattern.frames_literals.matches(event.frames) is False):
                continue
            started = thread_time()
            try:
                values = _capture(pattern, text) if simple else _search(pattern, event)
                if values is not None and _has_frames(pattern, event.frames):
                    results.append((ref, values | _frame_values(pattern, event.frames)))
            except TimeoutError:
                self._leave_out(ref)
                continue
            taken = thread_time() - started
            if taken > _SLOW:
                self._slow_seconds += taken
                if self._slow_seconds > _FILE_LIMIT:
                    self._leave_out(ref)
        return results

    def _leave_out(self, ref: PatternRef) -> None:
        self._left_out.add(ref.at)
        pattern = ref.pattern
        self.slow[f"{ref.rule}: {pattern.id}" if ref.rule else pattern.id] = None

    def _is_no_evidence(self, ref: PatternRef, event: Event) -> bool:
        """Return whether a serving server does not report this fault with such a line.

        It reports its faults with a level or a traceback; other lines and information may quote a client.
        """
        untrusted = self._base.untrusted
        if (event.frames and event.level not in QUIET_LEVELS) or ref.part != "any" or not self._is_of_fault(ref):
            return False
        if event.level in QUIET_LEVELS:
            return not untrusted.is_information(ref.rule, ref.pattern.id)
        return self.may_quote_client(event, serves=True)

    def may_quote_client(self, event: Event, *, serves: bool) -> bool:
        """Return whether a line may be a client's words, not the server's report of a fault."""
        if event.refusal or (event.frames and event.level not in QUIET_LEVELS) or not serves:
            return event.refusal
        if event.level:
            return event.level in QUIET_LEVELS
        return not event.names_process and not self._base.untrusted.is_of_system(event.text)

    def _is_of_fault(self, ref: PatternRef) -> bool:
        """Return whether a pattern reads a message that only a fault of the server prints."""
        if ref.marker is not None:
            return ref.marker.status in {"failed", "engine-ended"}
        if not ref.rule:
            return ref.pattern.id in self._base.untrusted.fault_facts
        return self._base.rules[ref.rule].severity == "error" and not self._is_for_requests(ref)

    def _reads_request(self, ref: PatternRef, event: Event) -> bool:
        """Return whether a pattern reads a request's failure; what goes on below its exception may be a client's."""
        return self._is_for_requests(ref) and not (event.context and ref.rule and self._base.rules[ref.rule].fallback)

    def _is_for_requests(self, ref: PatternRef) -> bool:
        """Return whether a pattern is for failures of single requests, whose messages may quote a client."""
        return bool(ref.rule) and (
            ref.rule in self._base.untrusted.rules
            or (self._base.rules[ref.rule].survives and self._base.rules[ref.rule].phase == "api"))

    def possible_patterns(self, event: Event) -> list[PatternRef]:
        """Return the patterns that may match a message that differs from the event's only in numbers and long ids.

        Raise TimeoutError if a search for the calls of a traceback takes too long.
        """
        refs = [pattern_ref(self._base, at) for at in self._anchors.possible_in(event.text)]
        return [ref for ref in refs if not (ref.pattern.level and event.level not in ref.pattern.level)
                and _has_frames(ref.pattern, event.frames)]


def _search(pattern: Pattern, event: Event) -> dict[str, str] | None:
    """Return the values a pattern captures in a message; a very long one is searched around the anchor.

    In an exception's message of several lines the match may begin in an earlier line: the anchor is in the last line of
    the match.
    """
    text = event.text
    if len(text) > LONGEST_TEXT:
        begin = max(0, text.find(pattern.anchor) - LONGEST_TEXT // 2)
        text = text[begin:begin + LONGEST_TEXT]
    values = _capture(pattern, text)
    if values is not None or not event.context:
        return values
    text = f"{event.context}\n{text}"
    match = search(pattern.regex, text) if pattern.required_literals.matches(text) is not False else None
    return _groups(match) if match and match.end() > len(event.context) else None


def _capture(pattern: Pattern, text: str) -> dict[str, str] | None:
    """Return the values a pattern captures in a text; None if it does not match."""
    is_match = pattern.required_literals.matches(text)
    if is_match is not None:
        return {} if is_match else None
    match = search(pattern.regex, text)
    return _groups(match) if match else None


def _groups(match: re.Match[str]) -> dict[str, str]:
    if not match.lastindex:
        return {}
    return {name: raw for name, raw in match.groupdict().items() if raw is not None}


def _frame_values(pattern: Pattern, frames: str) -> dict[str, str]:
    """Return the values that a pattern captures in the calls of the traceback."""
    match = search(pattern.frames, frames) if "(?P<" in pattern.frames else None
    return _groups(match) if match else {}


def _has_frames(pattern: Pattern, frames: str) -> bool:
    """Return whether the calls of the traceback are those the pattern requires."""
    if pattern.frames and not _contains(pattern.frames, pattern.frames_literals, frames):
        return False
    refused = pattern.not_frames
    return not (refused and _contains(refused, pattern.not_frames_literals, frames))


def _contains(source: str, required: Literals, frames: str) -> bool:
    is_match = required.matches(frames)
    return search(source, frames) is not None if is_match is None else is_match


def fires(rule: Rule, hits: Hits, known: Mapping[str, Any]) -> bool:
    """Return whether the rule's conditions hold for the facts of the run."""
    if not hits.first or is_barred(rule, hits, known) or len(hits.also) < len(rule.also):
        return False
    return not why_not(rule, known)


def is_barred(rule: Rule, hits: Hits, known: Mapping[str, Any]) -> bool:
    """Return whether a pattern that must be absent matched a line of a release to which it applies."""
    return any(pattern.id in hits.absent and known["releases"].admits(pattern.vllm) is not False
               for pattern in rule.absent)


def why_not(rule: Rule, known: Mapping[str, Any]) -> str:
    """Return the first condition that keeps the rule from firing, as text; empty if none does."""
    for source in rule.when:
        expression = evaluator.parse(source)
        if not expression.holds(known):
            missing = sorted(name for name in expression.names if name not in known)
            return f"`{source}` does not hold" + (f" (unknown: {', '.join(missing)})" if missing else "")
    for source in rule.unless:
        if evaluator.parse(source).holds(known):
            return f"`{source}` holds"
    return ""
