"""Record the current diagnosis of a log as its expectation, `NAME.yaml` next to `NAME.log`, for review."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from vllm_doctor.diagnosis.engine import diagnose
from vllm_doctor.errors import InputError
from vllm_doctor.reports.model import Fix, Report
from vllm_doctor.text_files import write_text

_NOTE = "Written by `rules bless`; review each line: it says what came out, not what is right."
_GENERAL_FACTS = ("vllm_version", "engine", "device", "model", "port")


def record_expectations(log: Path) -> Path:
    """Write the expectation of one log and return its path. Raises InputError if it exists, since it was reviewed."""
    target = log.with_suffix(".yaml")
    if target.exists():
        raise InputError(f"{target}: exists already; remove it first to record it again")
    text = _yaml({"id": log.stem, "source": "", "expect": expectation(diagnose(log)), "note": _NOTE})
    write_text(target, text)
    return target


def expectation(report: Report) -> dict[str, Any]:
    """Return the expected cause, its first fix, the general facts and those that the fixes were computed from."""
    cause = report.cause
    shown = set(_GENERAL_FACTS)
    if cause is not None:
        shown |= {name for fix in cause.fixes for name in fix.proof}
    expected: dict[str, Any] = {
        "primary": report.primary,
        "facts": {name: value for name, value in report.facts.items() if name in shown},
    }
    if cause is not None and cause.fixes:
        expected["fix_any_of"] = [_expected_fix(cause.fixes[0])]
    return expected


def _expected_fix(fix: Fix) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"flag": name, "value": value} for name, value in fix.flags.items()]
    parts += [{"flag": name, "remove": True} for name in fix.unset]
    parts += [{"env": name, "value": value} for name, value in fix.env.items()]
    if fix.action:
        parts.append({"action": fix.action})
    return parts[0] if len(parts) == 1 else {"all": parts}


def _yaml(value: dict[str, Any]) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120)
    return text
