"""Diagnose a log: the engine, one server start, ranking, fixes, notes and stalls."""

from __future__ import annotations

from vllm_doctor.diagnosis.engine import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose"]
