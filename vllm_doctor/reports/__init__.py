"""One Report, a writer a format."""

from __future__ import annotations

from vllm_doctor.reports.model import Evidence, Finding, Fix, Report, Source, Unexplained

__all__ = ["Evidence", "Finding", "Fix", "Report", "Source", "Unexplained"]
