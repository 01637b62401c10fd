"""Planted errors: each kind is found, with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_doctor.errors import RuleError
from vllm_doctor.rulebase.schema import RULE_SCHEMA, check

GOOD = (Path(__file__).resolve().parents[1] / "my-rule.yaml").read_text(encoding="utf-8")


def test_a_good_rule() -> None:
    check(GOOD, "my-rule.yaml")


@pytest.mark.parametrize(("old", "new", "problem"), [
    ("severity: error", "severity: eror", "3:11: `severity` cannot be `eror`; did you mean `error`?"),
    ("severity: error\n", "", "1:1: the rule lacks `severity`"),
    ("role: cause", "rule: cause", "5:1: the rule has no key `rule`; did you mean `role`?"),
    ("phase: config", "phase: [config]", "4:8: `phase` cannot be a list"),
    ("id: my-rule", "id: My Rule", "1:5: `id` `My Rule` does not have the form"),
    ("anchor: something is wrong", "anchor: abc", "9:15: `anchor` `abc` is shorter than 4 characters"),
    ("pattern: something is wrong", "pattern: something is wrong\n      vllm: newer", "11:13: `vllm` `newer` does not have the form"),
    ("explain: It is.", "explain: [", "not YAML"),
    (GOOD, "", "1:1: the file is empty"),
    (GOOD, "just words", "1:1: the rule must be a mapping, not a text"),
    ("  any:\n", "  all:\n", "7:3: `match` has no key `all`"),
])
def test_a_planted_error_is_found_with_its_place(old: str, new: str, problem: str) -> None:
    with pytest.raises(RuleError) as error:
        check(GOOD.replace(old, new, 1), "my-rule.yaml")
    assert problem in str(error.value)
    assert str(error.value).startswith("my-rule.yaml:")


def test_the_schema_in_the_repository_is_current(root) -> None:
    import json

    assert json.loads((root / "schema" / "rule.schema.json").read_text()) == RULE_SCHEMA
