"""The reports on every whole log and every test log of the rules, made once for all tests of their texts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache, partial
from pathlib import Path

from shared_work import shared, shared_parts

from vllm_doctor import diagnose
from vllm_doctor.authoring.rule_tests import Result, results
from vllm_doctor.reports.model import Fix, Report
from vllm_doctor.rulebase.loader import builtin
from vllm_doctor.rulebase.user_rules import read_rule

ROOT = Path(__file__).resolve().parent.parent


PARTS = 12


@lru_cache(maxsize=1)
def reports() -> dict[str, Report]:
    """Return name -> report; a rule's test logs are `RULE: NAME`."""
    rules = list(builtin().rules)
    all_results = shared_parts({_name(rule): partial(_results, rule) for rule in rules})
    return log_reports() | {f"{rule}: {result.test['name']}": result.report
                            for rule, of_rule in zip(rules, all_results, strict=True) for result in of_rule if result.test["fires"] is not None}


@lru_cache(maxsize=1)
def log_reports() -> dict[str, Report]:
    """Return the name of a log's file -> the report on it as a file."""
    logs = sorted((ROOT / "fixtures" / "logs").rglob("*.log"))
    parts = shared_parts({f"reports-{part}": partial(_reports, logs[part::PARTS]) for part in range(PARTS)})
    return {name: report for part in parts for name, report in part.items()}


def rule_results(rule: str) -> list[Result]:
    """Return the results of a rule's own tests."""
    return shared(_name(rule), partial(_results, rule))


def _name(rule: str) -> str:
    return f"tests-of-{rule}"


@cache
def _results(rule: str) -> list[Result]:
    return list(results(read_rule(Path(builtin().rules[rule].path))))


def _reports(paths: Sequence[Path]) -> dict[str, Report]:
    return {path.name: diagnose(path) for path in paths}


def fixes(report: Report) -> list[Fix]:
    """Return all fixes that a report offers."""
    found = [fix for finding in report.findings for fix in finding.fixes]
    return found + list(report.failure.fixes if report.failure else ())
