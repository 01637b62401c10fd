"""The content of `rules/` as immutable values: rules, patterns of facts, actions, phase markers and stalls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from vllm_doctor.facts.store import FactName
from vllm_doctor.logs.untrusted_text import UntrustedTable

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Literals(NamedTuple):
    """The literals that a match of an expression requires. Searching for them is cheaper than compiling it.

    The expression matches, capturing nothing, wherever one of the `sufficient` literals occurs. Any other match
    contains at least one literal of each group in `required`.
    """

    required: Sequence[Sequence[str]] = ()
    sufficient: Sequence[str] = ()

    def matches(self, text: str) -> bool | None:
        """Return whether the expression matches somewhere in the text; None if only a search can decide."""
        for literal in self.sufficient:
            if literal in text:
                return True
        for literals_of_group in self.required:
            for literal in literals_of_group:
                if literal in text:
                    break
            else:
                return False
        return None


_NO_LITERALS = Literals()
LONGEST_TEXT = 16_384
"""Characters in which a pattern is searched; a longer message is searched only around the anchor."""


class Pattern(NamedTuple):
    """One pattern. `regex` is searched in messages that contain `anchor`. `own`: it is from a user's folder."""

    id: str
    anchor: str
    regex: str
    vllm: str = ""
    frames: str = ""
    not_frames: str = ""
    level: Sequence[str] = ()
    phase: Sequence[str] = ()
    set: Mapping[str, Any] = _NOTHING
    own: bool = False
    groups: tuple[str, ...] = ()  # names shared with other patterns of the rule
    weak: bool = False  # a fact's pattern that only counts if no other pattern has set the fact before
    required_literals: Literals = _NO_LITERALS  # of `regex`
    frames_literals: Literals = _NO_LITERALS
    not_frames_literals: Literals = _NO_LITERALS


class FixRule(NamedTuple):
    """One fix of a rule, with its expressions not yet evaluated."""

    id: str
    title: str
    patterns: tuple[str, ...] = ()  # any if none is named
    when: tuple[str, ...] = ()
    vllm: str = ""
    set: Mapping[str, Any] = _NOTHING
    unset: tuple[str, ...] = ()
    env: Mapping[str, Any] = _NOTHING
    action: str = ""
    why: str = ""
    cost: str = ""
    safety: str = "review"
    verify: str = ""
    suffices: tuple[str, ...] = ()


class Case(NamedTuple):
    """Texts of a rule where one of some patterns matched (any if none is named) and all of `when` hold."""

    patterns: tuple[str, ...] = ()
    when: tuple[str, ...] = ()
    title: str = ""
    explain: str = ""


class Rule(NamedTuple):
    """One known failure."""

    id: str
    title: str
    severity: str
    phase: str
    role: str
    any: tuple[Pattern, ...]
    also: tuple[Pattern, ...] = ()
    absent: tuple[Pattern, ...] = ()
    when: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    refines: tuple[str, ...] = ()
    general: tuple[str, ...] = ()  # the patterns in which another rule may refine this one; empty for all
    let: Mapping[str, tuple[Any, ...]] = _NOTHING
    explain: str = ""
    cases: tuple[Case, ...] = ()  # the first that applies gives the title, and `case` in `explain`
    background: str = ""
    order: str = "written"
    fixes: tuple[FixRule, ...] = ()
    verify: str = ""
    references: tuple[str, ...] = ()
    status: str = "stable"
    fallback: tuple[str, ...] = ()  # the patterns that give the cause only where no other error does
    survives: bool = False
    of_request: tuple[str, ...] = ()  # the patterns of which only a request is at fault
    tests: tuple[Mapping[str, Any], ...] = ()
    path: str = ""

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Return the groups of patterns, each with the ids of its patterns."""
        return _groups((pattern.id, pattern.groups) for pattern in self.any)

    def groups_of(self, pattern_id: str) -> tuple[str, ...]:
        """Return the groups that a pattern belongs to."""
        return next((pattern.groups for pattern in self.any if pattern.id == pattern_id), ())

    @property
    def titles(self) -> tuple[str, ...]:
        """Return the templates of all titles, the default one last."""
        return (*(case.title for case in self.cases if case.title), self.title)

    @property
    def explanations(self) -> tuple[str, ...]:
        """Return the templates of the explanation and of all cases of it."""
        return (self.explain, *(case.explain for case in self.cases if case.explain))


class Action(NamedTuple):
    """A fix that is not a flag or variable: a title and the steps to take."""

    id: str
    title: str
    steps: tuple[str, ...] = ()


class Marker(NamedTuple):
    """A pattern of lines that show the phase a server has reached, or its new status."""

    pattern: Pattern
    phase: str = ""
    status: str = ""
    is_of_script: bool = False  # counts only on lines that name no process of vLLM
    is_of_failure: bool = False  # reports a failure in the phase, which is no progress


class Stall(NamedTuple):
    """A startup phase that can stall: seconds without output, the likely reason, and texts for the report."""

    phase: str
    after: float
    likely: str
    doing: str
    then: str
    percent: str = ""  # a regular expression whose group is the progress of the phase
    rule: str = ""
    when: str = ""


class Wording(NamedTuple):
    """A pattern of a rule, in its part `any`, `also` or `absent`."""

    rule: str
    part: str
    pattern: Pattern


class RuleBase:
    """Everything in `rules/`. Compared by identity, so that data derived from it can be cached.

    `anchors` are those of the markers, the facts and the rules' patterns, in this order. `healthy` is an expression for
    lines that only show that the server is serving; each of these lines contains one of the `healthy_anchors`.
    """

    def __init__(
        self, *, rules: Mapping[str, Rule], wordings: Sequence[Wording], facts: Sequence[Pattern],
        names: Mapping[str, FactName], actions: Mapping[str, Action], markers: Sequence[Marker],
        stalls: Mapping[str, Stall], healthy: str, healthy_anchors: Sequence[str], untrusted: UntrustedTable,
    ) -> None:
        self.rules = rules
        self.wordings = wordings
        self.facts = facts
        self.names = names
        self.actions = actions
        self.markers = markers
        self.stalls = stalls
        self.healthy = healthy
        self.healthy_anchors = healthy_anchors
        self.untrusted = untrusted  # where text of clients and of the model occurs
        self.anchors = anchors(markers, facts, wordings)

    def with_rules(self, own: Mapping[str, Rule]) -> RuleBase:
        """Return a rule base with these rules added; they override rules of the same id."""
        kept = [wording for wording in self.wordings if wording.rule not in own]
        added = [wording for rule in own.values() for wording in wordings(rule)]
        return RuleBase(rules={**self.rules, **own}, wordings=[*kept, *added], facts=self.facts, names=self.names,
                        actions=self.actions, markers=self.markers, stalls=self.stalls, healthy=self.healthy,
                        healthy_anchors=self.healthy_anchors, untrusted=self.untrusted)


def anchors(markers: Iterable[Marker], facts: Iterable[Pattern], wordings: Iterable[Wording]) -> list[str]:
    """Return the anchors of a rule base."""
    patterns = (*(marker.pattern for marker in markers), *facts, *(wording.pattern for wording in wordings))
    return [pattern.anchor for pattern in patterns]


def wordings(rule: Rule) -> list[Wording]:
    """Return all patterns of a rule."""
    parts = (("any", rule.any), ("also", rule.also), ("absent", rule.absent))
    return [Wording(rule.id, part, pattern) for part, patterns in parts for pattern in patterns]


def pattern_of(entry: Mapping[str, Any], *, own: bool = False, literals: Mapping[str, Literals] = _NOTHING) -> Pattern:
    """Return the pattern of a YAML entry, given the required literals of its expressions."""
    return Pattern(
        id=entry["id"],
        anchor=entry["anchor"],
        regex=entry["pattern"],
        vllm=str(entry.get("vllm", "")),
        frames=entry.get("frames", ""),
        not_frames=entry.get("not_frames", ""),
        level=tuple(entry.get("level", ())),
        phase=_phases(entry.get("phase")),
        set=entry.get("set", {}),
        own=own,
        groups=_texts(entry.get("groups")),
        weak=entry.get("weak", False),
        required_literals=literals.get(entry["pattern"], _NO_LITERALS),
        frames_literals=literals.get(entry.get("frames", ""), _NO_LITERALS),
        not_frames_literals=literals.get(entry.get("not_frames", ""), _NO_LITERALS),
    )


def _phases(value: Any) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, list) else ()


def _groups(patterns: Iterable[tuple[str, Iterable[str]]]) -> dict[str, tuple[str, ...]]:
    """Return the ids of the patterns in each group, given the groups of each pattern."""
    found: dict[str, tuple[str, ...]] = {}
    for pattern_id, groups in patterns:
        for group in groups:
            found[group] = (*found.get(group, ()), pattern_id)
    return found


def _ids_of(names: Iterable[str] | None, groups: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the ids of patterns, given names of patterns and of groups."""
    return tuple(pattern_id for name in _texts(names) for pattern_id in groups.get(name, (name,)))


def fix_of(entry: Mapping[str, Any], groups: Mapping[str, tuple[str, ...]] = _NOTHING) -> FixRule:
    """Return the fix of a YAML entry, given the groups of its rule's patterns."""
    return FixRule(
        id=entry["id"],
        title=entry["title"],
        patterns=_ids_of(entry.get("patterns"), groups),
        when=_texts(entry.get("when")),
        vllm=str(entry.get("vllm", "")),
        set=entry.get("set", {}),
        unset=_texts(entry.get("unset")),
        env=entry.get("env", {}),
        action=entry.get("action", ""),
        why=entry.get("why", ""),
        cost=entry.get("cost", ""),
        safety=entry.get("safety", "manual" if entry.get("action") else "review"),
        verify=entry.get("verify", ""),
        suffices=_texts(entry.get("suffices")),
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if value else ()


def _ids(value: bool | list[str], patterns: Iterable[Mapping[str, Any]],
         groups: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the ids of the patterns; `value` is true for all of them."""
    if isinstance(value, bool):
        return tuple(item["id"] for item in patterns) if value else ()
    return _ids_of(value, groups)


def _case_of(entry: Mapping[str, Any], groups: Mapping[str, tuple[str, ...]]) -> Case:
    return Case(_ids_of(entry.get("patterns"), groups), _texts(entry.get("when")),
                entry.get("title", ""), entry.get("explain", ""))


def rule_of(entry: Mapping[str, Any], path: str, *, own: bool = False,
            literals: Mapping[str, Literals] = _NOTHING) -> Rule:
    """Return the rule of a YAML file, given the required literals of its expressions."""
    match = entry["match"]
    groups = _groups((item["id"], item["groups"]) for item in match["any"] if "groups" in item)

    def patterns(part: str) -> tuple[Pattern, ...]:
        return tuple(pattern_of(item, own=own, literals=literals) for item in match.get(part, ()))

    return Rule(
        id=entry["id"],
        title=entry["title"],
        severity=entry["severity"],
        phase=entry["phase"],
        role=entry["role"],
        any=patterns("any"),
        also=patterns("also"),
        absent=patterns("absent"),
        when=_texts(match.get("when")),
        unless=_texts(match.get("unless")),
        refines=_texts(entry.get("refines")),
        general=_ids_of(entry.get("general"), groups),
        let={name: tuple(value) if isinstance(value, list) else (value,)
             for name, value in (entry.get("let") or {}).items()},
        explain=entry["explain"],
        cases=tuple(_case_of(item, groups) for item in entry.get("cases", ())),
        background=entry.get("background", ""),
        order=entry.get("order", "written"),
        fixes=tuple(fix_of(item, groups) for item in entry.get("fixes", ())),
        verify=entry.get("verify", ""),
        references=_texts(entry.get("references")),
        status=entry.get("status", "stable"),
        fallback=_ids(entry.get("fallback", False), match["any"], groups),
        survives=entry.get("survives", False),
        of_request=_ids(entry.get("of_request", False), match["any"], groups),
        tests=tuple(entry.get("tests", ())),
        path=path,
    )
