"""The `vllm-doctor rules …` commands for rule authors."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from vllm_doctor.authoring import writing_style
from vllm_doctor.authoring.record_expectations import record_expectations
from vllm_doctor.authoring.rule_scaffold import scaffold
from vllm_doctor.authoring.rule_tests import run_tests
from vllm_doctor.authoring.translations import lint_catalogues
from vllm_doctor.cli.exit_status import ExitStatus
from vllm_doctor.errors import InputError, RuleError, did_you_mean
from vllm_doctor.fleet.draft import draft_from_group
from vllm_doctor.messages import message
from vllm_doctor.phases import ORDER
from vllm_doctor.rulebase.folders import rule_files
from vllm_doctor.rulebase.lint import lint as check
from vllm_doctor.rulebase.loader import builtin, load
from vllm_doctor.rulebase.model import Rule
from vllm_doctor.rulebase.schema import RULE_SCHEMA
from vllm_doctor.rulebase.user_rules import read_rule

_FOLDERS = click.option("--rules", "folders", multiple=True, metavar="DIR",
                        help="Directory with your own rules; repeatable.")


@click.group("rules")
def command() -> None:
    """List, show, check, test and draft rules."""


@command.command("list")
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True,
              help="Format of the list.")
@_FOLDERS
def list_(format_: str, folders: tuple[str, ...]) -> None:
    """List all rules by phase."""
    rules = sorted(load(folders).rules.values(), key=lambda rule: (ORDER[rule.phase], rule.id))
    if format_ == "json":
        click.echo(json.dumps([{"id": rule.id, "title": rule.title, "severity": rule.severity, "phase": rule.phase,
                                "role": rule.role, "status": rule.status} for rule in rules], indent=2))
        return
    for rule in rules:
        click.echo(f"{rule.phase:17} {rule.severity:8} {rule.id}")


@command.command()
@click.argument("rule_id")
@_FOLDERS
def show(rule_id: str, folders: tuple[str, ...]) -> None:
    """Print a rule's file."""
    rules = load(folders).rules
    if rule_id not in rules:
        raise InputError(message("no rule has the id `{rule}`{meant}", rule=rule_id,
                                 meant=did_you_mean(rule_id, list(rules))))
    click.echo(Path(rules[rule_id].path).read_text(encoding="utf-8"), nl=False)


@command.command()
@click.argument("paths", nargs=-1, metavar="[FILE|DIR…]")
def lint(paths: tuple[str, ...]) -> None:
    """Check rule files (default: the built-in ones) and print each problem with file and line."""
    base = builtin()
    files = _files(paths) if paths else [Path(rule.path) for rule in base.rules.values()]
    read = [_read(path) for path in files]
    rules = [rule for rule in read if not isinstance(rule, RuleError)]
    base = base.with_rules({rule.id: rule for rule in rules}) if paths else base
    problems = [str(error) for error in read if isinstance(error, RuleError)]
    problems += [str(problem) for rule in rules for problem in (*check(rule, base), *writing_style.lint_rule(rule))]
    if not paths:
        problems += [str(problem) for problem in writing_style.lint_actions(base.actions.values())]
        problems += lint_catalogues()
    for problem in problems:
        click.echo(problem)
    click.echo(f"{len(files)} rules, {len(problems)} problems", err=True)
    sys.exit(ExitStatus.FOUND if problems else ExitStatus.OK)


@command.command()
@click.argument("paths", nargs=-1, metavar="[FILE|DIR…]")
def test(paths: tuple[str, ...]) -> None:
    """Run the tests in rule files (default: the built-in ones)."""
    built_in = {Path(rule.path).resolve(): Path(rule.path) for rule in builtin().rules.values()}
    rules: list[tuple[Rule, tuple[str, ...]]] = [
        (read_rule(path), () if path.resolve() in built_in else (str(path.parent),))  # built-in ones are loaded already
        for path in (_files(paths) if paths else built_in.values())
    ]
    failures = [str(failure) for rule, folders in rules for failure in run_tests(rule, folders)]
    for failure in failures:
        click.echo(failure)
    total = sum(len(rule.tests) for rule, _ in rules)
    click.echo(f"{total - len(failures)} passed, {len(failures)} failed", err=True)
    sys.exit(ExitStatus.FOUND if failures else ExitStatus.OK)


@command.command()
def schema() -> None:
    """Print the JSON Schema of a rule file, for editors."""
    click.echo(json.dumps(RULE_SCHEMA, indent=2))


@command.command()
@click.argument("logs", nargs=-1, required=True, metavar="LOG…")
def bless(logs: tuple[str, ...]) -> None:
    """Write the diagnosis of each log to NAME.yaml beside it, for review."""
    for log in logs:
        click.echo(f"{record_expectations(Path(log))}: review it")


@command.command()
@click.argument("rule_id")
@click.option("--from", "log", metavar="LOG", help="Log that shows the failure.")
@click.option("--line", type=click.IntRange(min=1), help="Number of the line that shows the failure.")
@click.option("--from-group", "group", metavar="GROUP", help="Signature of a group of failures without a rule.")
@click.option("--tables", type=click.Path(path_type=Path), default=".", metavar="DIR",
              help="Directory of `fleet --out` that has the group.")
@click.option("--phase", default="", help="Start-up phase of the failure (default: that of the line in the log).")
@click.option("--into", default=".", metavar="DIR", help="Directory to write the rule to.")
def new(*, rule_id: str, log: str | None, line: int | None, group: str | None, tables: Path, phase: str,
        into: str) -> None:
    """Draft a rule from a line of a log, or from failures of a fleet that no rule explains.

    The pattern and the tests are taken from the log; those of a group from several, with other failures as near misses.
    """
    path = Path(into) / f"{rule_id}.yaml"
    if path.exists():
        raise InputError(f"{path}: exists already")
    if group and log:
        raise InputError("--from and --from-group contradict each other")
    text = draft_from_group(rule_id, tables, group, phase) if group else scaffold(rule_id, log, line, phase)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    click.echo(f"{path}: edit it, then: vllm-doctor rules test {path}")


def _read(path: Path) -> Rule | RuleError:
    try:
        return read_rule(path)
    except RuleError as error:
        return error


def _files(paths: tuple[str, ...]) -> list[Path]:
    files: list[Path] = []
    for text in paths:
        path = Path(text)
        if path.is_dir():
            files += rule_files(path)
        elif os.path.lexists(path):
            files.append(path)
        else:
            raise InputError(f"{path}: no such file")
    return files
