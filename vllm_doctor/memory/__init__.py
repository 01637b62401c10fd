"""The memory of one GPU, by a log's facts: the ledger of its parts, and what follows from them."""

from __future__ import annotations

from vllm_doctor.memory.derived import derived
from vllm_doctor.memory.ledger import ledger
from vllm_doctor.memory.ledger_model import Memory, Part

__all__ = ["Memory", "Part", "derived", "ledger"]
