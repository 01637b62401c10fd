"""Read and check rules that are YAML files: those of a user's folder, and single files."""

from __future__ import annotations

from pathlib import Path

from vllm_doctor.errors import RuleError
from vllm_doctor.rulebase.folders import rule_files
from vllm_doctor.rulebase.lint import check_usable
from vllm_doctor.rulebase.model import Rule, RuleBase, rule_of
from vllm_doctor.rulebase.yaml_files import check_text, read_text, read_yaml


def read_rule(path: Path) -> Rule:
    """Read a rule file. Raises RuleError with file:line:column."""
    text = read_text(path)
    check_text(text, str(path))
    return rule_of(read_yaml(path), str(path), own=True)


def with_user_rules(base: RuleBase, folder: Path) -> RuleBase:
    """Return the rule base with the rules of a user's folder. Raises RuleError with file:line:column."""
    own: dict[str, Rule] = {}
    for rule in map(read_rule, rule_files(folder)):
        if rule.id in own:
            raise RuleError(f"{rule.path}:1:1: the id `{rule.id}` is also in {own[rule.id].path}")
        own[rule.id] = rule
    joined = base.with_rules(own)
    for rule in own.values():
        for problem in check_usable(rule, joined):
            raise RuleError(str(problem))
    return joined
