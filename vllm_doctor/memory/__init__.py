"""The memory ledger of one GPU, built from a log's facts, and the facts derived from it."""

from __future__ import annotations

from vllm_doctor.memory.context_lengths import CacheNeed, LengthRow, context_lengths
from vllm_doctor.memory.derived import derived
from vllm_doctor.memory.ledger import ledger
from vllm_doctor.memory.ledger_model import Memory, Part
from vllm_doctor.memory.model_kv_bytes import model_kv_bytes

__all__ = ["CacheNeed", "LengthRow", "Memory", "Part", "context_lengths", "derived", "ledger", "model_kv_bytes"]
