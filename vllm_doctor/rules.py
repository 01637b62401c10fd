"""Rules, facts' wordings, actions and phases: what stands in `rules/`, loaded into small frozen values.

`rules/` ships inside the wheel as `vllm_doctor/_rules`; a checkout uses the folder beside `pyproject.toml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from vllm_doctor import rule_index
from vllm_doctor.errors import RuleError
from vllm_doctor.facts import FactName
from vllm_doctor.rule_files import check_text, read_text, read_yaml


@dataclass(frozen=True, slots=True)
class Pattern:
    """One wording. `regex` is searched in a message that holds `anchor`; that of a user's rule (`own`) with a limit."""

    id: str
    anchor: str
    regex: str
    vllm: str = ""
    frames: str = ""
    not_frames: str = ""
    level: tuple[str, ...] = ()
    phase: tuple[str, ...] = ()
    set: Mapping[str, Any] = field(default_factory=dict)
    own: bool = False
    weak: bool = False  # a fact's wording that counts only where nothing else told the fact before


@dataclass(frozen=True, slots=True)
class FixRule:
    """One way out, as the rule file says it: expressions still to be computed."""

    id: str
    title: str
    when: tuple[str, ...] = ()
    vllm: str = ""
    set: Mapping[str, Any] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    env: Mapping[str, Any] = field(default_factory=dict)
    action: str = ""
    why: str = ""
    cost: str = ""
    safety: str = "review"
    verify: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
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
    let: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    explain: str = ""
    fixes: tuple[FixRule, ...] = ()
    verify: str = ""
    references: tuple[str, ...] = ()
    status: str = "stable"
    fallback: bool = False
    survives: bool = False
    tests: tuple[Mapping[str, Any], ...] = ()
    path: str = ""


@dataclass(frozen=True, slots=True)
class Action:
    """What is no flag: a title and the steps to take."""

    id: str
    title: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Marker:
    """A line that tells how far the server has come, or that it ended."""

    pattern: Pattern
    phase: str = ""
    status: str = ""


@dataclass(frozen=True, slots=True)
class Stall:
    """A phase of a start: how long it may stay without a line (seconds), what most often holds it up, its words."""

    phase: str
    after: float
    likely: str
    doing: str
    then: str
    percent: str = ""  # an expression; its group says how far the phase is
    rule: str = ""
    when: str = ""


@dataclass(frozen=True, eq=False)
class RuleBase:
    """Everything that stands in `rules/`. Compared by identity, so that what is made from it can be kept."""

    rules: Mapping[str, Rule]
    facts: tuple[Pattern, ...]
    names: Mapping[str, FactName]
    actions: Mapping[str, Action]
    markers: tuple[Marker, ...]
    stalls: Mapping[str, Stall] = field(default_factory=dict)
    healthy: str = "(?!)"  # an expression for whole lines that say no more than that the server serves


def rules_folder() -> Path:
    """Where the built-in rules stand: inside the installed package, or in the checkout."""
    here = Path(__file__).resolve().parent
    for folder in (here / "_rules", here.parent / "rules"):
        if folder.is_dir():
            return folder
    raise RuleError("the built-in rules are missing from this installation")


@lru_cache(maxsize=1)
def builtin() -> RuleBase:
    """The rules that ship with vllm-doctor."""
    folder = rules_folder()
    index = rule_index.read(folder)
    rules: dict[str, Rule] = {}
    for entry in index["rules"]:
        path = str(folder / entry["path"])
        try:
            rule = _rule(entry, path)
        except (KeyError, TypeError, AttributeError) as error:
            check_text(read_text(Path(path)), path)
            raise RuleError(f"{path}:1:1: {error}") from error
        if rule.id in rules:
            raise RuleError(f"{path}:1:1: the id `{rule.id}` is also in {rules[rule.id].path}")
        rules[rule.id] = rule
    names = {
        name: FactName(name, entry["type"], entry["merge"], entry["about"], entry.get("args", ""),
                       entry.get("config", ""), entry.get("flag", ""),
                       tuple(str(value) for value in entry.get("ignore", ())), entry.get("args_unit", ""))
        for name, entry in index["names"].items()
    }
    actions = {
        name: Action(name, entry["title"], tuple(entry.get("steps", ()))) for name, entry in index["actions"].items()
    }
    markers = tuple(
        Marker(_pattern(entry), entry.get("phase", ""), entry.get("status", "")) for entry in index["markers"]
    )
    stalls = {phase: Stall(phase, **entry) for phase, entry in index["stalls"].items()}
    return RuleBase(rules, tuple(_pattern(entry) for entry in index["facts"]), names, actions, markers, stalls,
                    rf"(?:\(\w+ pid=\d+\) )?(?:{'|'.join(index['healthy'])})")


def read_rule(path: Path) -> Rule:
    """One rule file. Raises RuleError with file:line:column."""
    text = read_text(path)
    check_text(text, str(path))
    return _rule(read_yaml(path), str(path), own=True)


def _pattern(entry: Mapping[str, Any], *, own: bool = False) -> Pattern:
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


def _rule(entry: Mapping[str, Any], path: str, *, own: bool = False) -> Rule:
    match = entry["match"]
    return Rule(
        id=entry["id"],
        title=entry["title"],
        severity=entry["severity"],
        phase=entry["phase"],
        role=entry["role"],
        any=tuple(_pattern(item, own=own) for item in match["any"]),
        also=tuple(_pattern(item, own=own) for item in match.get("also", ())),
        absent=tuple(_pattern(item, own=own) for item in match.get("absent", ())),
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
