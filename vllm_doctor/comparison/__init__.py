"""What changed between a start that worked and one that failed."""

from __future__ import annotations

from vllm_doctor.comparison.changes import changes

__all__ = ["changes"]
