"""The JSON report of the contract (schema_version 2.0; its schema is `schema/report.schema.json`)."""

from __future__ import annotations

import json
from typing import Any

from vllm_doctor.failures import Place
from vllm_doctor.memory import CacheNeed, LengthRow
from vllm_doctor.reports import texts
from vllm_doctor.reports.model import Failure, Finding, Fix, Report
from vllm_doctor.timeline import Timeline
from vllm_doctor.version import __version__

SCHEMA_VERSION = "2.0"


def document(report: Report) -> dict[str, Any]:
    """Return the report as plain values, with the keys in the order of the schema."""
    source = report.source
    memory = report.memory
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "vllm-doctor", "version": __version__},
        "source": {"path": source.path, "lines": source.lines, "bytes": source.bytes, "runs": source.runs,
                   "run": source.run},
        "status": report.status,
        "phase": report.phase,
        "facts": {name: _rounded(value) for name, value in report.facts.items()},
        "facts_at": {name: [{key: _rounded(value) for key, value in place.items()} for place in places]
                     for name, places in report.facts_at.items()},
        "derived": {name: _rounded(value) for name, value in report.derived.items()},
        "memory": None if memory is None else {
            "device_gib": _rounded(memory.device_gib),
            "budget_gib": _rounded(memory.budget_gib),
            "parts": [{"name": part.name, "gib": _rounded(part.gib), "from": part.origin} for part in memory.parts],
            "note": memory.note or None,
        },
        "context_lengths": [_length(row) for row in report.lengths],
        "primary": report.primary,
        "failure": None if report.failure is None else _failure(report.failure),
        "timeline": None if report.timeline is None else _timeline(report.timeline),
        "findings": [_finding(finding) for finding in report.findings],
        "notes": [*report.notes, *texts.release_notes(report)],
        **_together(report),
    }


def _together(report: Report) -> dict[str, Any]:
    """Return what other logs add: `changes` with `--against`, `incident` with `--together`."""
    result: dict[str, Any] = {}
    if report.changes is not None:
        result["changes"] = [change._asdict() for change in report.changes]
    if report.incident is not None:
        incident = report.incident
        result["incident"] = {
            "logs": list(incident.logs), "cause": incident.cause and incident.cause._asdict(),
            "consequences": [one._asdict() for one in incident.consequences],
            "silent_ranks": list(incident.silent_ranks), "notes": list(incident.notes)}
    return result


def render(report: Report) -> str:
    """Return the JSON document of one report as text."""
    return json.dumps(document(report), indent=2, ensure_ascii=False) + "\n"


def render_many(reports: list[Report]) -> str:
    """Return `{"reports": […]}` for several logs."""
    return json.dumps({"reports": [document(report) for report in reports]}, indent=2, ensure_ascii=False) + "\n"


def render_line(report: Report) -> str:
    """Return the document on one line (JSON Lines)."""
    return json.dumps(document(report), ensure_ascii=False, separators=(",", ":")) + "\n"


def _timeline(timeline: Timeline) -> dict[str, Any]:
    return {
        "total_seconds": timeline.total_seconds,
        "phases": [{"phase": one.phase, "seconds": one.seconds, "printed": _rounded(one.printed)}
                   for one in timeline.phases],
        "unexplained_seconds": timeline.unexplained_seconds,
        "dominant": timeline.dominant,
    }


def _length(row: LengthRow) -> dict[str, Any]:
    return {"tokens": row.tokens, "sixteen_bits": _cache_need(row.sixteen_bits),
            "fp8": None if row.fp8 is None else _cache_need(row.fp8)}


def _cache_need(need: CacheNeed) -> dict[str, Any]:
    return {"gib": need.gib, "requests": need.requests, "utilization": need.utilization, "suffices": need.suffices}


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "line": failure.line,
        "last_line": failure.last_line,
        "exception": failure.exception,
        "message": failure.message,
        "origin": _place(failure.origin),
        "vllm_frame": _place(failure.vllm_frame),
        "caller": failure.caller,
        "feature": failure.feature,
        "kind": failure.kind,
        "settings": [{"flag": one.flag, "value": one.value, "source": one.source} for one in failure.settings],
        "signature": failure.signature,
        "fixes": [_fix(fix) for fix in failure.fixes],
    }


def _place(place: Place | None) -> dict[str, Any] | None:
    return None if place is None else {
        "package": place.package, "file": place.file, "function": place.function or None, "line": place.line or None}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "title": finding.title,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "role": finding.role,
        "phase": finding.phase,
        "recovered": finding.recovered,
        "ranks": finding.ranks or None,
        "evidence": [{"line": item.line, "text": item.text} for item in finding.evidence],
        "explanation": finding.entire_explanation,
        "fixes": [_fix(fix) for fix in finding.fixes],
        "links": list(finding.links),
    }


def _fix(fix: Fix) -> dict[str, Any]:
    return {
        "id": fix.id,
        "title": fix.title,
        "flags": dict(fix.flags),
        "unset": list(fix.unset),
        "env": dict(fix.env),
        "action": fix.action,
        "steps": list(fix.steps),
        "command": fix.command,
        "patch": None if fix.patch is None else dict(fix.patch),
        "why": fix.why,
        "cost": fix.cost,
        "safety": fix.safety,
        "verify": fix.verify,
        "proof": {name: _rounded(value) for name, value in fix.proof.items()},
        "program": None if fix.program is None else {
            "name": fix.program.program, "settings": dict(fix.program.settings), "missing": list(fix.program.missing)},
    }


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value
