"""What shorter contexts need: KV cache, requests at once and utilization by length, with a 16-bit and an FP8 cache."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from vllm_doctor.errors import InputError
from vllm_doctor.memory.context_lengths import offered_lengths
from vllm_doctor.memory.solver.kv_cache import SIXTEEN_BIT_CACHES
from vllm_doctor.memory.solver.rounding import GIB
from vllm_doctor.sizing.plan import Plan, plan

_BLOCK_SIZE = 16  # tokens; the usual one
_HIGHEST_UTILIZATION = 0.99


class SizedLength(NamedTuple):
    """One context length: GiB of KV cache of a request, requests at once (expected), utilization for one request.

    `utilization` is None where none suffices, or where vLLM does not size the cache by it.
    """

    tokens: int
    gib: float
    requests: float
    utilization: float | None
    fp8_gib: float | None = None
    fp8_requests: float | None = None


def length_table(planned: Plan) -> tuple[SizedLength, ...]:
    """Return rows for the planned length, three quarters and half of it, and 8,192 tokens, the longest first."""
    fp8 = _with_fp8_cache(planned)
    return tuple(_row(planned, fp8, length) for length in offered_lengths(planned.length, _BLOCK_SIZE))


def _row(planned: Plan, fp8: Plan | None, tokens: int) -> SizedLength:
    gib = planned.layout.need(tokens) / GIB
    row = SizedLength(tokens, gib, planned.concurrency(tokens), _utilization(planned, gib))
    if fp8 is None:
        return row
    return row._replace(fp8_gib=fp8.layout.need(tokens) / GIB, fp8_requests=fp8.concurrency(tokens))


def _utilization(planned: Plan, gib: float) -> float | None:
    """Return the --gpu-memory-utilization at which one request is expected to fit, in hundredths rounded up."""
    if planned.launch.device == "cpu" or planned.launch.kv_cache_memory_bytes is not None:
        return None
    inside = sum(part.gib.expected for part in planned.parts if not part.outside)
    share = math.ceil((inside + gib) / planned.target.device_gib * 100) / 100
    return share if share <= _HIGHEST_UTILIZATION else None


def _with_fp8_cache(planned: Plan) -> Plan | None:
    """Return the same launch with an FP8 KV cache; None where it has one, or where vLLM or its device has none."""
    launch = planned.launch
    if launch.device == "cpu" or launch.kv_cache_dtype not in SIXTEEN_BIT_CACHES:
        return None
    try:
        return plan(planned.target, replace(launch, kv_cache_dtype="fp8", max_model_len=planned.length))
    except InputError:
        return None
