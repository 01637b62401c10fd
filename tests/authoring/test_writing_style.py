"""The language of everything a reader sees: rules, actions, reports of real logs, documents and help texts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from report_texts import reports

from vllm_doctor.authoring import writing_style
from vllm_doctor.cli.root import cli
from vllm_doctor.reports.model import Finding, Fix, Report
from vllm_doctor.rulebase.loader import builtin

ROOT = Path(__file__).resolve().parents[2]
QUOTES_VLLM = {"unknown-or-removed-flag": "one note for each flag", "spec-decode-config-invalid": "vLLM's own message of up to three sentences",
               "parser-name-unknown": "the release's list of parsers", "json-argument-malformed": "the value as it was given"}


@pytest.mark.parametrize(("text", "problem"), [
    ("The server fails or limps.", '"limps"'),
    ("The cause stands elsewhere in the log.", '"stands elsewhere"'),
    ("The whole batch is computed anew.", '"whole"'),
    ("It doesn't start.", '"doesn\'t"'),
    ("vLLM has not got the flag.", '"has not got"'),
    ("The 32 heads cannot be shared evenly.", '"shared evenly"'),
    ("2.14 GiB are lacking.", '"are lacking"'),
    ("Let Ray not end workers.", '"Let Ray not"'),
    ("vLLM asks for more.", '"asks for"'),
    ("Install releases that belong together.", '"belong together"'),
    ("To test: a newer release", '"To test: "'),
    ("The usual reason is a full disk.", '"usual reason"'),
    ("The plug-in is older.", '"plug-in"'),
    ("Raise the limit (needs vLLM >=0.10.2)", '"needs vLLM >"'),
    ("The CPU lacks AVX.", '"lacks"'),
    ("pkill -f VLLM::", '"pkill"'),
    ("pip install transformers>=4.57", "quotes around a requirement"),
    ("KV cache of {{ n }} tokens", "an unresolved template"),
    ("A {% if x %}b{% endif %}", "an unresolved template"),
    ("word " * 41 + "end.", "a sentence has 42 words"),
])
def test_a_planted_phrase_is_found(text: str, problem: str) -> None:
    assert any(problem in found for found in writing_style.check_text(text)), list(writing_style.check_text(text))


def test_quoted_words_are_not_ours() -> None:
    assert list(writing_style.check_text('The message is "the whole batch stands in line" and `it\'s`.')) == []
    assert list(writing_style.check_text("pip install 'transformers>=4.57' and pip install <package>==<version>")) == []
    assert list(writing_style.check_text("docker inspect --format '{{.Config.Cmd}}' and ${{ inputs.log }}")) == []


def test_titles_and_explanations_have_a_length() -> None:
    assert list(writing_style.check_title("one two three four five six seven eight nine ten eleven twelve")) == []
    assert any("full stop" in problem for problem in writing_style.check_title("A title."))
    assert [text.partition(":")[0] for text in writing_style.check_title("a " * 13)] == ["the title has 13 words, more than 12"]
    assert list(writing_style.check_explanation("One. Two. Three (e.g. this). Four.")) == []
    assert len(list(writing_style.check_explanation("One. Two. Three. Four. Five."))) == 1
    assert len(list(writing_style.check_explanation(""))) == 1


def test_the_rules_and_actions() -> None:
    base = builtin()
    problems = [problem for rule in base.rules.values() for problem in writing_style.lint_rule(rule)]
    problems += writing_style.lint_actions(base.actions.values())
    assert [str(problem) for problem in problems] == []


def test_a_fix_names_what_it_sets() -> None:
    rule = next(rule for rule in builtin().rules.values() if any("--max-model-len" in fix.set for fix in rule.fixes))
    fixes = tuple(fix._replace(title="Use a shorter context") if "--max-model-len" in fix.set else fix for fix in rule.fixes)
    assert any("names none of --max-model-len" in problem.text for problem in writing_style.lint_rule(rule._replace(fixes=fixes)))


def _problems(report: Report) -> Iterator[str]:
    for finding in report.findings:
        yield from _of_a_finding(finding)
    for fix in report.failure.fixes if report.failure else ():
        yield from _of_a_fix(fix)
    for note in report.capacity:
        yield from writing_style.check_text(note)


def _of_a_finding(finding: Finding) -> Iterator[str]:
    if finding.id not in QUOTES_VLLM:
        yield from writing_style.check_title(finding.title)
        yield from writing_style.check_explanation(finding.explanation)
    for fix in finding.fixes:
        yield from _of_a_fix(fix)


def _of_a_fix(fix: Fix) -> Iterator[str]:
    for text in (fix.title, fix.why, fix.cost, fix.verify):
        yield from writing_style.check_text(text)


def test_the_reports() -> None:
    """Every test log of every rule, and every whole log."""
    problems = [f"{name}: {problem}" for name, report in reports().items() for problem in _problems(report)]
    assert problems == []


@pytest.mark.parametrize("path", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "rules/README.md",
                                  *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))
                                    if path.name != "proof.md")])  # rows that say what was done to a machine
def test_the_documents(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert [f"line {number}: {problem}" for number, line in enumerate(text.splitlines(), 1) for problem in writing_style.banned(line)] == []


def test_the_help_texts() -> None:
    def texts(command: click.Command) -> Iterator[str]:
        yield command.help or ""
        for parameter in command.params:
            yield getattr(parameter, "help", None) or ""
        for child in getattr(command, "commands", {}).values():
            yield from texts(child)

    names = [cli.get_command(None, name) for name in cli.list_commands(None)]
    assert [problem for command in [cli, *names] for text in texts(command) for problem in writing_style.banned(text)] == []
