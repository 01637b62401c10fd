"""Every rule: its shape, what lint asks, and the tests inside it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jsonschema
import pytest
from report_texts import rule_results
from yaml_texts import load, load_file

from vllm_doctor.authoring.rule_tests import same_fact
from vllm_doctor.facts.store import FactStore
from vllm_doctor.matching.matcher import compiled
from vllm_doctor.rulebase.lint import _CHECKS, _linear, check_pattern, lint
from vllm_doctor.rulebase.loader import builtin
from vllm_doctor.rulebase.model import Rule
from vllm_doctor.rulebase.schema import RULE_SCHEMA, check
from vllm_doctor.rulebase.user_rules import read_rule

BASE = builtin()
RULES = sorted(BASE.rules)


SHAPE = jsonschema.Draft202012Validator(RULE_SCHEMA)


@cache
def _from_file(rule_id: str) -> Rule:
    """The rule with its tests, which the rule base leaves out."""
    rule = read_rule(Path(BASE.rules[rule_id].path))
    assert rule.tests
    return rule


@pytest.mark.parametrize("rule_id", RULES)
def test_shape(rule_id: str) -> None:
    text = Path(BASE.rules[rule_id].path).read_text(encoding="utf-8")
    check(text, rule_id)
    SHAPE.validate(load(text))


@pytest.mark.parametrize("rule_id", RULES)
def test_lint(rule_id: str) -> None:
    """All that `lint` checks but for the time that patterns take, which `rules lint` measures (CI, `.ci/run`, pre-commit)."""
    assert [problem for check in _CHECKS if check is not _linear for problem in check(_from_file(rule_id), BASE)] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("rule_id", RULES)
def test_lint_with_the_time_that_patterns_take(rule_id: str) -> None:
    assert [str(problem) for problem in lint(_from_file(rule_id), BASE)] == []


@pytest.mark.parametrize("rule_id", RULES)
def test_own_tests(rule_id: str) -> None:
    results = rule_results(rule_id)
    assert [result.test["name"] for result in results] == [test["name"] for test in _from_file(rule_id).tests]
    assert [(result.test["name"], problem) for result in results for problem in result.problems] == []


def _fact_patterns() -> list[tuple[str, dict]]:
    folder = Path(BASE.rules[RULES[0]].path).parent.parent / "facts"
    return [(f"{path.stem}:{entry['id']}", entry) for path in sorted(folder.glob("*.yaml"))
            if path.name != "names.yaml" for entry in load_file(path)]


@pytest.mark.parametrize(("name", "entry"), _fact_patterns(), ids=lambda value: value if isinstance(value, str) else "")
def test_wording_of_a_fact(name: str, entry: dict) -> None:
    pattern = next(item for item in BASE.facts if item.id == entry["id"])
    assert list(check_pattern(pattern, BASE)) == []
    assert entry["samples"], "a wording without a sample"
    for sample in entry["samples"]:
        assert entry["anchor"] in sample["log"]
        match = compiled(pattern.regex).search(sample["log"])
        assert match is not None, sample["log"]
        store = FactStore(BASE.names)
        for fact, raw in (*match.groupdict().items(), *pattern.set.items()):
            store.add(fact, raw, 1)
        for fact, wanted in sample["facts"].items():
            assert same_fact(fact, wanted, store.get(fact)), (fact, wanted, store.get(fact))


def test_fact_ids_are_unique() -> None:
    ids = [pattern.id for pattern in BASE.facts]
    assert sorted(ids) == sorted(set(ids))


def test_user_rules_override_and_are_checked(tmp_path: Path) -> None:
    source = Path(BASE.rules[RULES[0]].path).read_text(encoding="utf-8")
    path = tmp_path / f"{RULES[0]}.yaml"
    path.write_text(source.replace("severity: error", "severity: info", 1), encoding="utf-8")
    assert read_rule(path).id == RULES[0]
