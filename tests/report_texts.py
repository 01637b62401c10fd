"""The reports on every whole log and every test log of the rules, made once for all tests of their texts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path

from shared_work import shared_parts

from vllm_doctor import diagnose
from vllm_doctor.options import Options
from vllm_doctor.reports.model import Fix, Report
from vllm_doctor.rulebase.loader import builtin
from vllm_doctor.rulebase.model import Rule
from vllm_doctor.rulebase.user_rules import read_rule

ROOT = Path(__file__).resolve().parent.parent


PARTS = 12


@lru_cache(maxsize=1)
def reports() -> dict[str, Report]:
    """Return name -> report; a rule's test logs are `RULE: NAME`."""
    rules = list(builtin().rules.values())
    parts = shared_parts({f"reports-rules-{part}": partial(_of_rules, rules[part::PARTS]) for part in range(PARTS)})
    return log_reports() | {name: report for part in parts for name, report in part.items()}


@lru_cache(maxsize=1)
def log_reports() -> dict[str, Report]:
    """Return the name of a log's file -> the report on it as a file."""
    logs = sorted((ROOT / "fixtures" / "logs").rglob("*.log"))
    parts = shared_parts({f"reports-logs-{part}": partial(_of_logs, logs[part::PARTS]) for part in range(PARTS)})
    return {name: report for part in parts for name, report in part.items()}


def _of_logs(paths: Sequence[Path]) -> dict[str, Report]:
    return {path.name: diagnose(path) for path in paths}


def _of_rules(rules: Sequence[Rule]) -> dict[str, Report]:
    made = {}
    for rule in rules:
        for test in read_rule(Path(rule.path)).tests:
            if test["fires"] is not None:
                options = Options(command=test.get("command", ""), vllm_version=str(test.get("vllm", "")))
                made[f"{rule.id}: {test['name']}"] = diagnose(str(test["log"]).encode(), options)
    return made


def fixes(report: Report) -> list[Fix]:
    """Return all fixes that a report offers."""
    found = [fix for finding in report.findings for fix in finding.fixes]
    return found + list(report.failure.fixes if report.failure else ())
