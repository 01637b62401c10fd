"""Several logs of one failure: which of them has the cause."""

from __future__ import annotations

from vllm_doctor.incident.together import together

__all__ = ["together"]
