"""Write a Report, with one module per format."""

from __future__ import annotations

from vllm_doctor.reports.model import Evidence, Failure, Finding, Fix, Report, Source

__all__ = ["Evidence", "Failure", "Finding", "Fix", "Report", "Source"]
