"""Makes the index of the rules (`rule_index`) from their YAML files.

The wheel carries the index (`hatch_build.py`); a checkout has it in the user's cache (`rule_cache`), as has everyone
that of rules of their own.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from itertools import accumulate
from pathlib import Path

from vllm_doctor import expressions, words
from vllm_doctor.errors import RuleError
from vllm_doctor.facts import FactName
from vllm_doctor.needles import needles
from vllm_doctor.rule_files import check_text, read_text, read_yaml
from vllm_doctor.rules import (
    Action,
    Marker,
    Pattern,
    Rule,
    RuleBase,
    Stall,
    Wording,
    anchors,
    pattern_of,
    rule_of,
    wordings,
)
from vllm_doctor.typed import Any


def make(folder: Path) -> bytes:
    """The index, from the YAML files themselves. Raises RuleError."""
    entries: dict[str, dict[str, Any]] = {}
    rules: dict[str, Rule] = {}
    for path in _files(folder):
        if path.parent.name in {"facts", folder.name}:
            continue
        entry = {**read_yaml(path), "path": str(path.relative_to(folder))}
        try:
            rule = rule_of(entry, str(path))
        except (KeyError, TypeError, AttributeError) as error:
            check_text(read_text(path), str(path))
            raise RuleError(f"{path}:1:1: {error}") from error
        if rule.id in rules:
            raise RuleError(f"{path}:1:1: the id `{rule.id}` is also in {rules[rule.id].path}")
        rules[rule.id], entries[rule.id] = rule, entry
    actions = [Action(name, entry["title"], tuple(entry.get("steps", ())))
               for name, entry in read_yaml(folder / "actions.yaml").items()]
    stalls = [Stall(phase, **entry) for phase, entry in read_yaml(folder / "stalls.yaml").items()]
    healthy = read_yaml(folder / "healthy.yaml")
    markers = [Marker(pattern_of(entry), entry.get("phase", ""), entry.get("status", ""))
               for entry in read_yaml(folder / "phases.yaml")]
    facts = [pattern_of(entry) for path in sorted((folder / "facts").glob("*.yaml"))
             if path.name != "names.yaml" for entry in read_yaml(path) or ()]
    worded = [wording for rule in rules.values() for wording in wordings(rule)]
    patterns = [_line((_told(pattern), phase, status)) for pattern, phase, status in markers]
    patterns += [_line(_told(pattern)) for pattern in facts]
    patterns += _worded(worded)
    return _index(patterns, rules, entries, {
        "patterns": (len(markers), len(facts), sum(map(len, patterns))),
        "anchors": anchors(markers, facts, worded),
        "names": [_fact(name, entry) for name, entry in read_yaml(folder / "facts" / "names.yaml").items()],
        "actions": actions,
        "stalls": stalls,
        "trees": _trees((stall.when for stall in stalls), (step for action in actions for step in action.steps)),
        "healthy": _whole(healthy),
        "healthy_anchors": [entry["anchor"] for entry in healthy],
        "foreign": read_yaml(folder / "foreign_text.yaml"),
    })


def make_own(folder: Path, base: RuleBase) -> bytes:
    """The index of a user's rules, all of which could be used. Raises RuleError with file:line:column."""
    from vllm_doctor.lint import unusable  # noqa: PLC0415 - the wheel is built without what it needs

    entries: dict[str, dict[str, Any]] = {}
    rules: dict[str, Rule] = {}
    for path in _files(folder):
        check_text(read_text(path), str(path))
        entry = {**read_yaml(path), "path": str(path.relative_to(folder))}
        rule = rule_of(entry, str(path), own=True)
        rules[rule.id], entries[rule.id] = rule, entry
    whole = base.with_rules(rules)
    for rule in rules.values():
        for problem in unusable(rule, whole):
            raise RuleError(str(problem))
    patterns = _worded(wording for rule in rules.values() for wording in wordings(rule))
    return _index(patterns, rules, entries, {"patterns": (0, 0, sum(map(len, patterns)))})


def _index(patterns: Iterable[bytes], rules: Mapping[str, Rule], entries: Mapping[str, Any],
           head: Mapping[str, Any]) -> bytes:
    lines = [_line({"rule": entries[name], "trees": _trees_of(rule)}) for name, rule in rules.items()]
    ends = list(accumulate(map(len, lines)))
    spans = {name: (end - len(line), len(line)) for name, line, end in zip(rules, lines, ends, strict=True)}
    return b"".join([_line({"rules": spans, **head}), *patterns, *lines])


# Prefix of vLLM's logger: `INFO 10-08 20:33:48 llm_engine.py:72] `, later `INFO 11-20 11:38:49 [async_llm.py:261] `.
_RECORD = r"INFO (?:[0-9]{4}-)?+[0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9] [^ ]++ "


def _line(value: Any) -> bytes:
    return json.dumps(value, default=_plain).encode() + b"\n"


def _whole(entries: Iterable[Mapping[str, Any]]) -> str:
    """One expression for whole lines, behind the prefixes of a vLLM process and of its logger."""
    plain, logged = ("|".join(entry["pattern"] for entry in entries if bool(entry.get("record")) is record)
                     for record in (False, True))
    return rf"(?:\([^ ]++ pid=[^ ]++ )?+(?:{plain}|{_RECORD}(?:{logged}))"


def _worded(worded: Iterable[Wording]) -> list[bytes]:
    return [_line((rule_id, part, _told(pattern))) for rule_id, part, pattern in worded]


def _told(pattern: Pattern) -> tuple[Any, ...]:
    """A pattern's first fields, up to the last one that is not as it always is, and the needles of its expressions.

    A shorter index is read sooner.
    """
    given = [field for field, value in zip(Pattern._fields, pattern, strict=True)
             if value != Pattern._field_defaults.get(field, ...)]
    told = pattern[:Pattern._fields.index(given[-1]) + 1]
    return told, *(_needles(regex) for regex in (pattern.regex, pattern.frames, pattern.not_frames))


def _needles(regex: str) -> tuple[Any, ...]:
    found = needles(regex)
    return found if found.enough else (found.groups,) if found.groups else ()


def _fact(name: str, entry: Mapping[str, Any]) -> FactName:
    ignored = tuple(str(value) for value in entry.get("ignore", ()))
    return FactName(name, entry["type"], entry["merge"], entry["about"], entry.get("args", ""),
                    entry.get("config", ""), entry.get("flag", ""), ignored, entry.get("args_unit", ""))


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


def _trees_of(rule: Rule) -> dict[str, expressions.Tree]:
    sources: list[Any] = [*rule.when, *rule.unless]
    sources += [source for alternatives in rule.let.values() for source in alternatives]
    said = [rule.title, rule.verify, *words.split(rule.explain)]
    for fix in rule.fixes:
        sources += [*fix.when, *fix.set.values(), *fix.env.values()]
        said += [fix.title, fix.why, fix.cost, fix.verify]
    return _trees((source for source in sources if isinstance(source, str)), said)


def _trees(sources: Iterable[str], said: Iterable[str]) -> dict[str, expressions.Tree]:
    """The trees of expressions and of words. What is neither is told by the lint, and where it is used."""
    made: dict[str, expressions.Tree] = {}
    with contextlib.suppress(expressions.ExpressionError):
        made.update({source: expressions.parse(source).tree for source in sources if source})
        made.update({text: words.parse(text) for text in said if "{" in text})
    return made


def _files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.yaml"))
