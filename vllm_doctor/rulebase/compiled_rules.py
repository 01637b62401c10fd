"""The document of JSON values that `compiler` makes of the rules, and the rule base that it holds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from vllm_doctor.facts.store import FactName
from vllm_doctor.logs.untrusted_text import UntrustedTable
from vllm_doctor.rulebase.model import Action, Literals, Marker, RuleBase, Stall, pattern_of, rule_of, wordings
from vllm_doctor.text.patterns import portable

Document = dict[str, Any]
"""Everything in a folder of rules as JSON values, except the rules' tests, which are read from their files."""

# Prefix of vLLM's logger: `INFO 10-08 20:33:48 llm_engine.py:72] `, later `INFO 11-20 11:38:49 [async_llm.py:261] `.
_RECORD = r"INFO (?:[0-9]{4}-)?+[0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9] [^ ]++ "


def rule_base(document: Document, folder: str) -> RuleBase:
    """Return the rule base of a document that `compile_rules` compiled from the folder."""
    literals = {regex: Literals(*found) for regex, found in document["literals"].items()}
    rules = {entry["id"]: rule_of(entry, os.path.join(folder, path), literals=literals)
             for path, entry in document["rules"].items()}
    return RuleBase(
        rules=rules,
        wordings=[wording for rule in rules.values() for wording in wordings(rule)],
        facts=[pattern_of(entry, literals=literals) for entry in document["facts"]],
        markers=[Marker(pattern_of(entry, literals=literals), entry.get("phase", ""), entry.get("status", ""),
                        entry.get("of_script", False), entry.get("of_failure", False))
                 for entry in document["markers"]],
        names={name: _fact(name, entry) for name, entry in document["names"].items()},
        actions={name: Action(name, entry["title"], tuple(entry.get("steps", ())))
                 for name, entry in document["actions"].items()},
        stalls={phase: Stall(phase, **entry) for phase, entry in document["stalls"].items()},
        healthy=portable(_healthy_line(document["healthy"])),
        healthy_anchors=[entry["anchor"] for entry in document["healthy"]],
        untrusted=UntrustedTable(document["untrusted"]),
    )


def _healthy_line(entries: Iterable[Mapping[str, Any]]) -> str:
    """Return one expression for healthy lines, with the optional prefixes of a vLLM process and of its logger."""
    plain, logged = ("|".join(entry["pattern"] for entry in entries if bool(entry.get("record")) is record)
                     for record in (False, True))
    return rf"(?:\([^ ]++ pid=[^ ]++ )?+(?:{plain}|{_RECORD}(?:{logged}))"


def _fact(name: str, entry: Mapping[str, Any]) -> FactName:
    ignored = tuple(str(value) for value in entry.get("ignore", ()))
    return FactName(name, entry["type"], entry["merge"], entry["about"], entry.get("args", ""),
                    entry.get("config", ""), entry.get("flag", ""), ignored, entry.get("args_unit", ""))
