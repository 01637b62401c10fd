"""GitLab's code quality report: the findings in a merge request's widget.

The format is a JSON array; each element needs a description, a check, a fingerprint of its own, a severity and a place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from vllm_doctor.messages import joined, message
from vllm_doctor.reports import texts
from vllm_doctor.reports.escape import inert_json, one_line, place_name
from vllm_doctor.reports.fingerprint import UNEXPLAINED, fingerprint, unexplained_fingerprint
from vllm_doctor.reports.model import Report

_SEVERITY = {"error": "critical", "warning": "minor", "info": "info"}


def render(report: Report) -> str:
    """Return the code quality report of one log."""
    return render_many([report])


def render_many(reports: list[Report]) -> str:
    """Return the code quality report of several logs."""
    found: dict[str, dict[str, Any]] = {}
    for report in reports:
        for issue in _issues(report):
            found.setdefault(issue["fingerprint"], issue)  # a start may fail as the one before it
    return inert_json(json.dumps(list(found.values()), indent=2, ensure_ascii=False)) + "\n"


def _issues(report: Report) -> Iterator[dict[str, Any]]:
    if report.lacks_cause:
        failure = report.unexplained
        yield _issue(report, UNEXPLAINED, texts.headline(report), mark=unexplained_fingerprint(report),
                     severity="error" if failure else "warning", line=failure.line if failure else 1)
    for finding in texts.reported(report):
        words = [message("{sentence}.", sentence=texts.title_with_ranks(finding, report.language)),
                 *(message("Fix: {title}.", title=fix.title) for fix in finding.fixes[:1])]
        text = joined(" ", words).translated(report.language.gettext)
        yield _issue(report, finding.id, text, mark=fingerprint(finding),
                     severity=finding.severity, line=finding.evidence[0].line if finding.evidence else 1)


def _issue(report: Report, rule_id: str, text: str, *, mark: str, severity: str, line: int) -> dict[str, Any]:
    path = place_name(report.source.path)
    return {
        "description": one_line(text),
        "check_name": rule_id,
        "fingerprint": hashlib.sha256(f"{mark}\n{path}".encode("utf-8", "replace")).hexdigest()[:32],
        "severity": _SEVERITY.get(severity, "info"),
        "location": {"path": path, "lines": {"begin": max(1, line)}},
    }
