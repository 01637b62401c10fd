"""Rule files, expressions and numbers that would hang, fill the memory or end in a traceback: found by fuzzing."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from test_schema import GOOD

from vllm_doctor.authoring.rule_tests import run_tests
from vllm_doctor.cli.root import cli
from vllm_doctor.diagnosis.engine import diagnose
from vllm_doctor.rulebase.user_rules import read_rule
from vllm_doctor.templating.evaluator import UNKNOWN, ExpressionError, parse
from vllm_doctor.templating.renderer import render_line

PRIME = 999_999_999_999_999_989
FACTS = {"prime": PRIME, "word": "eager", "small": 7, "huge": 10**30}


@pytest.mark.parametrize("source", [
    "prime | largest_divisor(prime - 1)", "small | aligned_parallel(prime, 11)", "prime | tokens_in_blocks('x')",
    "small | tensor_parallel_for(0, 1, prime, prime)", "word * prime", "-word", "-[1]", "1 | since('x')", "1 | contains(2)",
    "word | reached('x')", "huge * 1",
])
def test_what_cannot_be_computed_in_bounds_is_unknown(source: str) -> None:
    assert parse(source).value(FACTS) is UNKNOWN


@pytest.mark.parametrize(("source", "problem"), [
    ("(" * 240 + "1" + ")" * 240, "nested too deeply"), ("-" * 400 + "1", "nested too deeply"),
    ("1" + " | gib" * 80, "nested too deeply"), ("1e400", "a number is larger than 1e+18"), ("9" * 19, "a number is larger than 1e+18"),
    ("7.0\u07c3", "a number cannot be read"),
])
def test_what_is_no_expression(source: str, problem: str) -> None:
    with pytest.raises(ExpressionError, match="^" + problem.replace("+", r"\+") + "$"):
        parse(source)


def test_digits_are_bounded() -> None:
    assert parse("5 | round_to(-1000000000)").value({}) == 5
    assert parse("1.25 | round_to(1000000000)").value({}) == 1.25


@pytest.mark.parametrize("source", ["{{ 'x' * 1000000000 }}", "{{ word * prime }}", "{{ " + "(" * 300 + "1" + ")" * 300 + " }}",
                                    "{{ " + "9" * 5000 + " }}", "{% if small %}" * 200 + "{% endif %}" * 200])
def test_words_that_would_be_endless_are_not_said(source: str) -> None:
    assert render_line(source, FACTS) is None


def test_a_log_whose_numbers_have_no_divisor() -> None:
    log = f"ValueError: Total number of attention heads ({PRIME}) must be divisible by tensor parallel size ({PRIME - 1}).\n"
    assert diagnose(log.encode()).primary == "tp-size-does-not-divide-heads"


def test_a_log_with_endless_values_to_choose_from() -> None:
    value, listed = "a" * 6000, ", ".join(["'" + "ab" * 20 + "'"] * 300)
    log = f"vllm serve: error: argument --dtype: invalid choice: '{value}' (choose from {listed})\n"
    assert diagnose(log.encode()).primary == "flag-value-invalid"


def test_a_rule_test_with_a_command_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "my-rule.yaml"
    path.write_text(GOOD.replace("fires: message", "fires: message, command: ls -l"), encoding="utf-8")
    assert [str(failure) for failure in run_tests(read_rule(path))] == ["my-rule: it: the command given is not one that starts vLLM"]


PLAIN = "title: Something is wrong"


@pytest.mark.parametrize(("old", "new", "problem"), [
    (PLAIN, "title: " + "[" * 5000, "1:1: nested too deeply"),
    (PLAIN, "title: 2001-01-01", "2:8: `title` must be a text, not a date (in quotes it is a text)"),
    ("id: my-rule", "id: 2001-01-01", "1:5: `id` must be a text, not a date (in quotes it is a text)"),
    (PLAIN, "title: !!binary aGk=", "2:8: `title` cannot be a tagged value"),
    (PLAIN, "title: !!python/object/apply:os.system ['touch planted']", "2:8: `title` cannot be a tagged value"),
    ("id: my-rule", 'id: "my\\nrule"', "1:5: `id` `my rule` does not have the form"),
    ("fixes:", "let: {a: !!int abc}\nfixes:", "1:1: not YAML: invalid literal for int() with base 10: 'abc'"),
    (PLAIN, f"{PLAIN}\ntitle: twice", "3:1: not YAML: `title` stands twice"),
    ("explain: It is.", "let: {a: x, b: y, a: z}\nexplain: It is.", "11:19: not YAML: `a` stands twice"),
    ("fixes:", "let: {1: x}\nfixes:", "12:7: a key of `let` must be a text, not a number"),
    ("fixes:", "let: {on: x}\nfixes:", "12:7: a key of `let` must be a text, not true or false"),
    ("fixes:", "<<: {id: x}\nfixes:", "12:1: a key of the rule must be a text, not a tagged value"),
    ("fixes:", "let: !!set {a}\nfixes:", "12:6: `let` cannot be a tagged value"),
    ("fixes:", "references: &a [x]\nlet: {b: *a}\nfixes:", "13:10: not YAML: aliases are not allowed"),
    ("pattern: something is wrong", "pattern: 'x{99999999999999}'",
     "9: `message`: pattern is not a valid regular expression: the repetition number is too large"),
    ("pattern: something is wrong", "pattern: '" + "(" * 500 + ")" * 500 + "'",
     "9: `message`: pattern is not a valid regular expression: maximum recursion depth exceeded"),
    ("action: upgrade-vllm", "action: upgrade-vllm, vllm: '>=0.Q'", "13: `upgrade`: `>=0.Q` is not a version specifier"),
    ("explain: It is.", "explain: '{{ 9 ** 9 ** 9 }}'", "11: not a template: pow is not part of the language"),
])
def test_a_rule_file_that_cannot_be_used_is_told_in_one_line(old: str, new: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "my-rule.yaml"
    path.write_text(GOOD.replace(old, new, 1), encoding="utf-8")
    log = tmp_path / "server.log"
    log.write_text("something is wrong\n", encoding="utf-8")
    result = CliRunner().invoke(cli, ["diagnose", str(log), "--rules", str(tmp_path)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"vllm-doctor: {path}:{problem}"), result.stderr
    assert result.stderr.count("\n") == 1
    assert not Path("planted").exists()

