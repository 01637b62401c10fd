"""The built-in rules and those of a user's folders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from vllm_doctor.errors import RuleError
from vllm_doctor.rule_index import builtin
from vllm_doctor.rules import Rule, RuleBase, read_rule


def load(folders: Iterable[str | os.PathLike[str]] = ()) -> RuleBase:
    """The built-in rules and those of `folders`; the same id overrides. Raises RuleError with file:line:column."""
    base = builtin()
    for folder in folders:
        own = read_folder(folder)
        base = base.with_rules(own)
        _refuse_unusable(own, base)
    return base


def read_folder(folder: str | os.PathLike[str]) -> dict[str, Rule]:
    """The rules of a user's folder, checked. Raises RuleError."""
    from pathlib import Path  # noqa: PLC0415 - only for rules of one's own

    if not os.path.isdir(folder):
        raise RuleError(f"{os.fspath(folder)}: no such folder of rules")
    rules = {}
    for path in sorted(Path(folder).rglob("*.yaml")):
        rule = read_rule(path)
        rules[rule.id] = rule
    return rules


def _refuse_unusable(rules: Mapping[str, Rule], base: RuleBase) -> None:
    """Raise RuleError for an expression, pattern or name that could not be used when the rule fires."""
    from vllm_doctor.lint import unusable  # noqa: PLC0415 - only for rules of one's own

    for rule in rules.values():
        for problem in unusable(rule, base):
            raise RuleError(str(problem))
