"""Lint finds a planted error of each of its kinds."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_schema import GOOD

from vllm_doctor.rulebase.lint import lint
from vllm_doctor.rulebase.loader import builtin
from vllm_doctor.rulebase.user_rules import read_rule


def problems(tmp_path: Path, text: str, name: str = "my-rule.yaml", folder: str = "config") -> list[str]:
    path = tmp_path / "rules" / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    rule = read_rule(path)
    base = builtin()
    wide = base.with_rules({rule.id: rule})
    return [str(problem).removeprefix(f"{path}:") for problem in lint(rule, wide)]


def test_a_good_rule(tmp_path: Path) -> None:
    assert problems(tmp_path, GOOD) == []


@pytest.mark.parametrize(("old", "new", "problem"), [
    ("pattern: something is wrong", "pattern: (something is wrong", "is not a valid regular expression"),
    ("pattern: something is wrong", r"pattern: (?P<kv_token>\d) something is wrong", "the group `kv_token` is not a fact"),
    ("pattern: something is wrong", r"pattern: (?P<model>.+) something is wrong", "begins with an unbounded group"),
    ("anchor: something is wrong", "anchor: wrong", "the anchor is shorter than 6 characters"),
    ("anchor: something is wrong", "anchor: ' 200 OK'", "occurs in too many healthy lines"),
    ("pattern: something is wrong", "pattern: something is wrong\n      vllm: '>=99.0'", "no release matches >=99.0"),
    ("pattern: something is wrong", "pattern: something is wrong\n      frames: '(?s)(?=.*a)(?=.*b)'", "begin with `^`"),
    ("action: upgrade-vllm", "action: upgrad-vllm", "unknown action `upgrad-vllm`; did you mean `upgrade-vllm`?"),
    ("action: upgrade-vllm", "set: {--max-seq-number: 1}", "no release of vLLM has the flag --max-seq-number"),
    ("action: upgrade-vllm", "set: {--max-model-len: max_model_length}", "unknown name `max_model_length`"),
    ("action: upgrade-vllm", "set: {--max-model-len: 9 ** 9}", "is not part of the language"),
    ("action: upgrade-vllm", "set: {--max-model-len: max_model_len | floor_too(16)}", "unknown filter `floor_too`"),
    ("action: upgrade-vllm", "env: {VLLM_NO_SUCH_THING: 1}", "vLLM reads no variable VLLM_NO_SUCH_THING"),
    ("action: upgrade-vllm", "safety: safe", "the fix `upgrade` changes nothing"),
    ("fixes:\n  - {id: upgrade, title: Upgrade, action: upgrade-vllm}\n", "", "a cause needs at least one fix"),
    ("explain: It is.", "explain: It is {{ nothing_such }}.", "the text uses the unknown name `nothing_such`"),
    ("explain: It is.", "explain: It is {{ oops.", "not a template"),
    ("explain: It is.", "explain: It is{% if pattern == 'mesage' %} so{% endif %}.", "no pattern of the rule is named `mesage`; did you mean"),
    ("action: upgrade-vllm", "action: upgrade-vllm, when: [pattern == 'gone']", "no pattern of the rule is named `gone`"),
    ("fires: null", "fires: message", "no near miss"),
    ("fires: message", "fires: other", "no test fires `message`"),
    ("fires: message", "fires: other", "a test expects the pattern `other`"),
    ("explain: It is.", "of_request: [mesage]\nexplain: It is.", "`of_request` names an unknown pattern: `mesage`; did you mean"),
    ("explain: It is.", "fallback: [mesage]\nexplain: It is.", "`fallback` names an unknown pattern: `mesage`; did you mean"),
    ("explain: It is.", "explain: It {{ case }}.\ncases: [{patterns: [mesage], explain: is}]", "no pattern of the rule is named `mesage`; did you mean"),
    ("action: upgrade-vllm", "action: upgrade-vllm, patterns: [gone]", "no pattern of the rule is named `gone`"),
    ("action: upgrade-vllm", "action: upgrade-vllm, when: [pattern == 'message']", "write `patterns: [NAME, …]` instead of `pattern == 'message'`"),
    ("pattern: something is wrong", "pattern: something is wrong\n      groups: [alone]", "only one pattern is in the group `alone`"),
    ("pattern: something is wrong", "pattern: something is wrong\n      groups: [message]", "a pattern and a group are both named `message`"),
    ("explain: It is.", "explain: It is{% if 'gruop' in groups %} so{% endif %}.", "no group of the rule is named `gruop`"),
    ("action: upgrade-vllm", "action: upgrade-vllm, when: [\"'pair' in groups\"]", "write `patterns: [NAME, …]` instead of `'pair' in groups`"),
    ("explain: It is.", "explain: It is.\ncases: [{patterns: [message], explain: is}]", "is shown where `explain` has {{ case }}"),
    ("explain: It is.", "explain: It {{ case }}.\ncases: [{patterns: [message], title: is}]", "is shown where `explain` has {{ case }}"),
    ("explain: It is.", "explain: It is.\ncases: [{title: A}, {patterns: [message], title: B}]", "the title of a case is never shown"),
    ("explain: It is.", "explain: It is.\ncases: [{patterns: [message]}]", "a case has neither a title nor an explanation"),
    ("explain: It is.", "explain: It is.\ncases: [{when: [nothing_such], title: A}]", "unknown name `nothing_such`"),
    ("explain: It is.", "refines: [no-such-rule]\nexplain: It is.", "`refines` names an unknown rule: `no-such-rule`"),
    ("- {id: upgrade, ", "- {id: upgrade, title: A, action: upgrade-vllm}\n  - {id: upgrade, ", "two fixes are named `upgrade`"),
])
def test_a_planted_error_is_found(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert any(problem in found for found in problems(tmp_path, GOOD.replace(old, new, 1)))


def test_the_place_is_reported(tmp_path: Path) -> None:
    found = problems(tmp_path, GOOD.replace("action: upgrade-vllm", "action: upgrad-vllm"))
    assert found[0].startswith("13: ")


GROUPED = GOOD.replace("pattern: something is wrong", """pattern: something is wrong
      groups: [pair]
    - id: in-short
      anchor: something wrong
      pattern: something wrong
      groups: [pair]""").replace("  - {name: not it", "  - {name: short, log: something wrong, fires: in-short}\n  - {name: not it")


def test_a_group_stands_for_its_patterns(tmp_path: Path) -> None:
    text = GROUPED.replace("explain: It is.", "explain: It is{% if 'pair' in groups %} so{% endif %}.")
    text = text.replace("action: upgrade-vllm", "action: upgrade-vllm, patterns: [pair]")
    assert problems(tmp_path, text) == []
    rule = read_rule(tmp_path / "rules" / "config" / "my-rule.yaml")
    assert rule.fixes[0].patterns == ("message", "in-short")
    assert (rule.groups, rule.groups_of("in-short")) == ({"pair": ("message", "in-short")}, ("pair",))


def test_name_and_folder(tmp_path: Path) -> None:
    assert "1: the file must be named my-rule.yaml" in problems(tmp_path, GOOD, name="other.yaml")
    assert "4: the file belongs in the folder config/" in problems(tmp_path, GOOD, folder="api")
