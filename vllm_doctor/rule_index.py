"""The built-in rules, from one file for a quick start: reading 200 YAML files takes a quarter of a second.

The first line of the index, JSON, holds what every log needs: the wordings to look for. Each further line is a rule,
read when the rule is asked for, with the trees of its expressions and words (`language`). `rule_compiler` makes it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import lru_cache

from vllm_doctor import expressions
from vllm_doctor.errors import RuleError
from vllm_doctor.facts import FactName
from vllm_doctor.rules import Action, Marker, Pattern, Rule, RuleBase, Stall, Wording, rule_of

NAME = "index.jsonl"


class _Rules(Mapping[str, Rule]):
    """The built-in rules by id, each read when it is asked for. `spans` are of the bytes behind the first line."""

    def __init__(self, folder: str, lines: bytes, spans: Mapping[str, tuple[int, int]]) -> None:
        self._folder = folder
        self._lines = lines
        self._spans = spans
        self._read: dict[str, Rule] = {}

    def __getitem__(self, rule_id: str) -> Rule:
        if rule_id not in self._read:
            start, end = self._spans[rule_id]
            record = json.loads(self._lines[start:end])
            expressions.known_trees.update(record["trees"])
            entry = record["rule"]
            self._read[rule_id] = rule_of(entry, os.path.join(self._folder, entry["path"]))
        return self._read[rule_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)


@lru_cache(maxsize=1)
def builtin() -> RuleBase:
    """The rules that ship with vllm-doctor. Raises RuleError."""
    folder = rules_folder()
    try:
        with open(os.path.join(folder, NAME), "rb") as file:
            index = file.read()
    except FileNotFoundError:  # a checkout
        from pathlib import Path  # noqa: PLC0415

        from vllm_doctor.rule_compiler import cached  # noqa: PLC0415

        index = cached(Path(folder))
    head, _, lines = index.partition(b"\n")
    known = json.loads(head)
    expressions.known_trees.update(known["trees"])
    return RuleBase(
        rules=_Rules(folder, lines, known["rules"]),
        wordings=[Wording(rule, part, Pattern(*entry)) for rule, part, entry in known["wordings"]],
        facts=[Pattern(*entry) for entry in known["facts"]],
        names={entry[0]: FactName(*entry) for entry in known["names"]},
        actions={entry[0]: Action(*entry) for entry in known["actions"]},
        markers=[Marker(Pattern(*entry), phase, status) for entry, phase, status in known["markers"]],
        stalls={entry[0]: Stall(*entry) for entry in known["stalls"]},
        healthy=known["healthy"],
    )


def rules_folder() -> str:
    """Where the built-in rules stand: inside the installed package (`_rules`), or in the checkout."""
    here = os.path.dirname(os.path.realpath(__file__))
    for folder in (os.path.join(here, "_rules"), os.path.join(os.path.dirname(here), "rules")):
        if os.path.isdir(folder):
            return folder
    raise RuleError("the built-in rules are missing from this installation")
