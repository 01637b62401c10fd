"""Writes down what comes out of a whole log today, for a person to review: the `NAME.yaml` beside `NAME.log`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from vllm_doctor.diagnosis.engine import diagnose
from vllm_doctor.errors import InputError
from vllm_doctor.outputs import write_text
from vllm_doctor.reports.model import Fix, Report

_NOTE = "Written by `rules bless`; review each line: it says what came out, not what is right."
_TELLING = ("vllm_version", "engine", "device", "model", "port")


def bless(log: Path) -> Path:
    """Write the expectation of one log. Raises InputError; an expectation that exists is a person's and stays."""
    target = log.with_suffix(".yaml")
    if target.exists():
        raise InputError(f"{target}: exists already; remove it to have it written anew")
    text = _yaml({"id": log.stem, "source": "", "expect": expectation(diagnose(log)), "note": _NOTE})
    write_text(target, text)
    return target


def expectation(report: Report) -> dict[str, Any]:
    """The cause, the facts that the cause's fixes were computed from and the telling ones, the first fix."""
    cause = report.cause
    shown = set(_TELLING)
    if cause is not None:
        shown |= {name for fix in cause.fixes for name in fix.proof}
    wanted: dict[str, Any] = {
        "primary": report.primary,
        "facts": {name: value for name, value in report.facts.items() if name in shown},
    }
    if cause is not None and cause.fixes:
        wanted["fix_any_of"] = [_offer(cause.fixes[0])]
    return wanted


def _offer(fix: Fix) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"flag": name, "value": value} for name, value in fix.flags.items()]
    parts += [{"flag": name, "remove": True} for name in fix.unset]
    parts += [{"env": name, "value": value} for name, value in fix.env.items()]
    if fix.action:
        parts.append({"action": fix.action})
    return parts[0] if len(parts) == 1 else {"all": parts}


def _yaml(value: dict[str, Any]) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120)
    return text
