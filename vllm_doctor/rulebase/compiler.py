"""Compile rules: YAML files -> one document of JSON values -> the rule base.

Parsing 300 YAML files takes a second, so the document is stored as JSON: in the wheel when it is built
(`hatch_build.py`), in the user's cache in a checkout (`cache`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vllm_doctor.errors import RuleError
from vllm_doctor.facts.store import FactName
from vllm_doctor.logs.foreign_text import ForeignTable
from vllm_doctor.rulebase.model import (
    Action,
    Literals,
    Marker,
    Rule,
    RuleBase,
    Stall,
    pattern_of,
    rule_of,
    wordings,
)
from vllm_doctor.rulebase.required_literals import required_literals
from vllm_doctor.rulebase.yaml_files import check_text, read_text, read_yaml, rule_files
from vllm_doctor.text.patterns import portable

Document = dict[str, Any]
"""Everything in a folder of rules as JSON values, except the rules' tests, which are read from their files."""

# Prefix of vLLM's logger: `INFO 10-08 20:33:48 llm_engine.py:72] `, later `INFO 11-20 11:38:49 [async_llm.py:261] `.
_RECORD = r"INFO (?:[0-9]{4}-)?+[0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9] [^ ]++ "


def compile_rules(folder: Path) -> Document:
    """Compile a folder of rules. Raises RuleError with file:line:column."""
    document: Document = {
        "rules": _rule_entries(folder),
        "actions": read_yaml(folder / "actions.yaml"),
        "stalls": read_yaml(folder / "stalls.yaml"),
        "healthy": [{key: entry[key] for key in ("pattern", "anchor", "record") if key in entry}
                    for entry in read_yaml(folder / "healthy.yaml")],
        "foreign": read_yaml(folder / "foreign_text.yaml"),
        "markers": read_yaml(folder / "phases.yaml"),
        "facts": [entry for path in sorted((folder / "facts").glob("*.yaml")) if path.name != "names.yaml"
                  for entry in read_yaml(path) or ()],
        "names": read_yaml(folder / "facts" / "names.yaml"),
    }
    document["literals"] = {regex: required_literals(regex) for regex in _expressions(document)}
    return document


def rule_base(document: Document, folder: str) -> RuleBase:
    """Return the rule base of a document that `compile_rules` compiled from the folder."""
    literals = {regex: Literals(*found) for regex, found in document["literals"].items()}
    rules = {entry["id"]: rule_of(entry, str(Path(folder, path)), literals=literals)
             for path, entry in document["rules"].items()}
    return RuleBase(
        rules=rules,
        wordings=[wording for rule in rules.values() for wording in wordings(rule)],
        facts=[pattern_of(entry, literals=literals) for entry in document["facts"]],
        markers=[Marker(pattern_of(entry, literals=literals), entry.get("phase", ""), entry.get("status", ""))
                 for entry in document["markers"]],
        names={name: _fact(name, entry) for name, entry in document["names"].items()},
        actions={name: Action(name, entry["title"], tuple(entry.get("steps", ())))
                 for name, entry in document["actions"].items()},
        stalls={phase: Stall(phase, **entry) for phase, entry in document["stalls"].items()},
        healthy=portable(_healthy_line(document["healthy"])),
        healthy_anchors=[entry["anchor"] for entry in document["healthy"]],
        foreign=ForeignTable(document["foreign"]),
    )


def read_user_rules(folder: Path) -> dict[str, Rule]:
    """Return the rules of a user's folder by id. Raises RuleError with file:line:column."""
    rules: dict[str, Rule] = {}
    for path in rule_files(folder):
        check_text(read_text(path), str(path))
        rule = rule_of(read_yaml(path), str(path), own=True)
        rules[rule.id] = rule
    return rules


def _rule_entries(folder: Path) -> dict[str, Any]:
    """Return the entries of the built-in rules by their path relative to the folder."""
    entries: dict[str, Any] = {}
    seen: dict[str, Path] = {}
    for path in rule_files(folder):
        if path.parent in {folder, folder / "facts"}:
            continue
        entry = read_yaml(path)
        try:
            rule_id = rule_of(entry, str(path)).id
        except (KeyError, TypeError, AttributeError) as error:
            check_text(read_text(path), str(path))
            raise RuleError(f"{path}:1:1: {error}") from error
        if rule_id in seen:
            raise RuleError(f"{path}:1:1: the id `{rule_id}` is also in {seen[rule_id]}")
        seen[rule_id] = path
        entries[path.relative_to(folder).as_posix()] = {key: value for key, value in entry.items() if key != "tests"}
    return entries


def _expressions(document: Document) -> set[str]:
    """Return every regular expression of the rules, the facts and the markers."""
    matches = [entry["match"] for entry in document["rules"].values()]
    entries: Iterable[Mapping[str, Any]] = [
        *document["facts"], *document["markers"],
        *(pattern for match in matches for part in ("any", "also", "absent") for pattern in match.get(part, ())),
    ]
    return {entry[key] for entry in entries for key in ("pattern", "frames", "not_frames") if key in entry}


def _healthy_line(entries: Iterable[Mapping[str, Any]]) -> str:
    """Return one expression for healthy lines, with the optional prefixes of a vLLM process and of its logger."""
    plain, logged = ("|".join(entry["pattern"] for entry in entries if bool(entry.get("record")) is record)
                     for record in (False, True))
    return rf"(?:\([^ ]++ pid=[^ ]++ )?+(?:{plain}|{_RECORD}(?:{logged}))"


def _fact(name: str, entry: Mapping[str, Any]) -> FactName:
    ignored = tuple(str(value) for value in entry.get("ignore", ()))
    return FactName(name, entry["type"], entry["merge"], entry["about"], entry.get("args", ""),
                    entry.get("config", ""), entry.get("flag", ""), ignored, entry.get("args_unit", ""))


