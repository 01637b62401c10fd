"""The last step of writing a report in any format: secrets are redacted once more."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_doctor.redact import Redactor
from vllm_doctor.redact.rendered import redact_rendered
from vllm_doctor.reports.escape import inert_json, inert_markup, inert_text
from vllm_doctor.reports.model import Report

_INERT = {"text": inert_text, "json": inert_json, "jsonl": inert_json, "agent": inert_json, "sarif": inert_json,
          "gitlab": inert_json,          "html": inert_markup, "junit": inert_markup}


def finish(text: str, format_: str, reports: Sequence[Report]) -> str:
    """Return the rendered reports as they are written: redacted once more."""
    redactors = [report.redactor for report in reports if report.redactor is not None]
    if not redactors:  # --show-secrets
        return text
    clean = redact_rendered(text, format_, redactors[0] if len(redactors) == 1 else Redactor(*redactors))
    return text if clean == text else _INERT.get(format_, str)(clean)
