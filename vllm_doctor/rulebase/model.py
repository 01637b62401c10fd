"""Rules, facts' wordings, actions and phases: what stands in `rules/`, as small frozen values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from vllm_doctor.facts.store import FactName
from vllm_doctor.logs.foreign_text import ForeignTable
from vllm_doctor.rulebase.yaml_files import check_text, read_text, read_yaml

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Literals(NamedTuple):
    """The words by which an expression matches: to look for them costs less than to compile it.

    It matches wherever one of the words `enough` stands, capturing nothing; any other match holds a word of each group.
    """

    groups: Sequence[Sequence[str]] = ()
    enough: Sequence[str] = ()

    def tell(self, text: str) -> bool | None:
        """Whether the expression matches somewhere in the text; None where it may."""
        for word in self.enough:
            if word in text:
                return True
        for words in self.groups:
            for word in words:
                if word in text:
                    break
            else:
                return False
        return None


_ANY = Literals()


class Pattern(NamedTuple):
    """One wording. `regex` is searched in a message that holds `anchor`; that of a user's rule (`own`) with a limit."""

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
    weak: bool = False  # a fact's wording that counts only where nothing else told the fact before
    needles: Literals = _ANY  # of `regex`
    frames_needles: Literals = _ANY
    not_frames_needles: Literals = _ANY


class FixRule(NamedTuple):
    """One way out, as the rule file says it: expressions still to be computed."""

    id: str
    title: str
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
    let: Mapping[str, tuple[Any, ...]] = _NOTHING
    explain: str = ""
    fixes: tuple[FixRule, ...] = ()
    verify: str = ""
    references: tuple[str, ...] = ()
    status: str = "stable"
    fallback: bool = False
    survives: bool = False
    tests: tuple[Mapping[str, Any], ...] = ()
    path: str = ""


class Action(NamedTuple):
    """What is no flag: a title and the steps to take."""

    id: str
    title: str
    steps: tuple[str, ...] = ()


class Marker(NamedTuple):
    """A line that tells how far the server has come, or that it ended."""

    pattern: Pattern
    phase: str = ""
    status: str = ""


class Stall(NamedTuple):
    """A phase of a start: how long it may stay without a line (seconds), what most often holds it up, its words."""

    phase: str
    after: float
    likely: str
    doing: str
    then: str
    percent: str = ""  # an expression; its group says how far the phase is
    rule: str = ""
    when: str = ""


class Wording(NamedTuple):
    """A pattern of a rule, in its part `any`, `also` or `absent`."""

    rule: str
    part: str
    pattern: Pattern


class RuleBase:
    """Everything in `rules/`. Compared by identity, so that what is derived from it can be kept.

    `anchors` are those of the patterns of the markers, the facts and the wordings, in this order. `healthy` is an
    expression for whole lines that only show that the server is serving; each of them holds a healthy anchor.
    """

    def __init__(
        self, *, rules: Mapping[str, Rule], wordings: Sequence[Wording], facts: Sequence[Pattern],
        names: Mapping[str, FactName], actions: Mapping[str, Action], markers: Sequence[Marker],
        stalls: Mapping[str, Stall], healthy: str, healthy_anchors: Sequence[str], foreign: ForeignTable,
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
        self.foreign = foreign  # where text of clients and of the model stands
        self.anchors = anchors(markers, facts, wordings)

    def with_rules(self, own: Mapping[str, Rule]) -> RuleBase:
        """Return a rule base with these rules too; the same id overrides."""
        kept = [wording for wording in self.wordings if wording.rule not in own]
        added = [wording for rule in own.values() for wording in wordings(rule)]
        return RuleBase(rules={**self.rules, **own}, wordings=[*kept, *added], facts=self.facts, names=self.names,
                        actions=self.actions, markers=self.markers, stalls=self.stalls, healthy=self.healthy,
                        healthy_anchors=self.healthy_anchors, foreign=self.foreign)


def anchors(markers: Iterable[Marker], facts: Iterable[Pattern], wordings: Iterable[Wording]) -> list[str]:
    """The anchors of a rule base."""
    patterns = (*(marker.pattern for marker in markers), *facts, *(wording.pattern for wording in wordings))
    return [pattern.anchor for pattern in patterns]


def wordings(rule: Rule) -> list[Wording]:
    """All patterns of a rule."""
    parts = (("any", rule.any), ("also", rule.also), ("absent", rule.absent))
    return [Wording(rule.id, part, pattern) for part, patterns in parts for pattern in patterns]


def read_rule(path: Path) -> Rule:
    """One rule file. Raises RuleError with file:line:column."""
    text = read_text(path)
    check_text(text, str(path))
    return rule_of(read_yaml(path), str(path), own=True)


def pattern_of(entry: Mapping[str, Any], *, own: bool = False, literals: Mapping[str, Literals] = _NOTHING) -> Pattern:
    """Return the pattern of an entry in YAML, given the literals that its expressions require."""
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
        weak=entry.get("weak", False),
        needles=literals.get(entry["pattern"], _ANY),
        frames_needles=literals.get(entry.get("frames", ""), _ANY),
        not_frames_needles=literals.get(entry.get("not_frames", ""), _ANY),
    )


def _phases(value: Any) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, list) else ()


def _fix(entry: Mapping[str, Any]) -> FixRule:
    return FixRule(
        id=entry["id"],
        title=entry["title"],
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
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if value else ()


def rule_of(entry: Mapping[str, Any], path: str, *, own: bool = False,
            literals: Mapping[str, Literals] = _NOTHING) -> Rule:
    """Return the rule of a YAML file, given the literals that its expressions require."""
    match = entry["match"]

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
        let={name: tuple(value) if isinstance(value, list) else (value,)
             for name, value in (entry.get("let") or {}).items()},
        explain=entry["explain"],
        fixes=tuple(_fix(item) for item in entry.get("fixes", ())),
        verify=entry.get("verify", ""),
        references=_texts(entry.get("references")),
        status=entry.get("status", "stable"),
        fallback=entry.get("fallback", False),
        survives=entry.get("survives", False),
        tests=tuple(entry.get("tests", ())),
        path=path,
    )
