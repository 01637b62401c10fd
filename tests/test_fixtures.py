"""Whole logs: each `fixtures/logs/NAME.log` with what must come out in `NAME.yaml`; healthy ones stay silent."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from vllm_doctor import diagnose
from vllm_doctor.authoring.rule_tests import offers, same_fact
from vllm_doctor.reports.model import Report

FOLDER = Path(__file__).resolve().parent.parent / "fixtures" / "logs"
CASES = sorted(path for path in FOLDER.rglob("*.log") if path.with_suffix(".yaml").exists())
HEALTHY = sorted((FOLDER / "healthy").glob("*.log"))


def _expected(path: Path) -> dict:
    return yaml.safe_load(path.with_suffix(".yaml").read_text(encoding="utf-8"))["expect"]


def _satisfies(report: Report, wanted: dict) -> bool:
    cause = report.cause
    return cause is not None and any(_conjunct(fix, wanted) for fix in cause.fixes[:3])


def _conjunct(fix: object, wanted: dict) -> bool:
    if "all" in wanted:
        return all(_conjunct(fix, part) for part in wanted["all"])
    if "action" in wanted:
        return fix.action == wanted["action"]
    name = wanted.get("flag") or wanted.get("env")
    if wanted.get("remove") or wanted.get("unset"):
        return name in fix.unset
    value = (dict(fix.flags) | dict(fix.env)).get(name)
    if value is None:
        return False
    if "value" in wanted:
        return offers(fix, {name: wanted["value"]})
    if "contains" in wanted:
        return str(wanted["contains"]) in value
    if "min" in wanted or "max" in wanted:
        return wanted.get("min", float("-inf")) <= float(value) <= wanted.get("max", float("inf"))
    return True


def _only_removes(fix: object, forbidden: dict) -> bool:
    """Whether a fix takes a flag away that the label forbids to set."""
    name = forbidden.get("flag") or forbidden.get("env")
    return bool(name) and not forbidden.get("remove") and name in fix.unset


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_real_log(path: Path) -> None:
    expected = _expected(path)
    report = diagnose(path)
    if expected["primary"] is None:
        assert [f.id for f in report.findings if f.severity == "error"] == []
    else:
        assert report.primary in [expected["primary"], *(expected.get("also_ok") or [])]
    for name, wanted in (expected.get("facts") or {}).items():
        assert same_fact(name, wanted, report.facts.get(name)), (name, wanted, report.facts.get(name))
    assert report.primary not in (expected.get("not_primary") or [])
    for forbidden in expected.get("fix_none_of") or []:
        assert not [(finding.id, fix.id) for finding in report.findings for fix in finding.fixes
                    if _conjunct(fix, forbidden) and not _only_removes(fix, forbidden)]
    if expected.get("fix_any_of"):
        assert any(_satisfies(report, wanted) for wanted in expected["fix_any_of"])


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.stem)
def test_a_healthy_log_is_silent(path: Path) -> None:
    report = diagnose(path)
    assert [f.id for f in report.findings if f.severity in {"error", "warning"}] == []
    assert report.unexplained is None
    assert report.status in {"serving", "stopped"}
