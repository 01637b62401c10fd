"""Several logs of one failure: which of them has the cause."""

from __future__ import annotations

from vllm_doctor.incident.incident_report import report_on_incident

__all__ = ["report_on_incident"]
