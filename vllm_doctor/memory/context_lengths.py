"""What shorter contexts need: the KV cache of a request, the requests that fit, and the utilization, by length."""

from __future__ import annotations

from typing import NamedTuple

from vllm_doctor.memory.quantities import Facts, Quantities, kv_bytes_per_token
from vllm_doctor.memory.release_accounting import GRAPHS_RESERVED_SINCE
from vllm_doctor.memory.solver.kv_cache import SIXTEEN_BIT_CACHES, kv_gib
from vllm_doctor.memory.solver.rounding import ANY_BLOCK_SIZE, HALF_UNIT, blocks_for
from vllm_doctor.memory.solver.utilization import utilization_for_need, utilization_limit

_SHORT = 8192
_LINEAR = 0.02  # the difference between vLLM's own estimate and one in proportion to the length, of a linear model


class CacheNeed(NamedTuple):
    """One request's KV cache in GiB, how many of them fit, and the utilization at which one does.

    `requests` is None where the available memory is unknown; `utilization` where the total is unknown, where no
    more is needed than now, or where none suffices (`suffices` is false then).
    """

    gib: float
    requests: float | None
    utilization: float | None
    suffices: bool


class LengthRow(NamedTuple):
    """A context length and what it needs with a 16-bit and with an FP8 KV cache, per GPU."""

    tokens: int
    sixteen_bits: CacheNeed
    fp8: CacheNeed | None


def context_lengths(facts: Facts) -> tuple[LengthRow, ...]:
    """Return rows for the full length, three quarters, half and 8,192 tokens; none if the log shows too little.

    Only for models whose KV cache grows in proportion to the length.
    """
    known = Quantities(facts)
    length, need = known.number("max_model_len"), _need(known)
    available = _available(known)
    if not length or length < 1 or need is None or not _is_linear(known, length, need, available):
        return ()
    dtype = str(facts.get("kv_cache_dtype") or "")
    is_eight_bits = dtype.startswith("fp8")
    if not (is_eight_bits or dtype in {"", *SIXTEEN_BIT_CACHES}):
        return ()
    per_token = need / length
    offers_fp8 = facts.get("device") not in {"cpu", "tpu"}
    rows = []
    for tokens in offered_lengths(int(length), ANY_BLOCK_SIZE):
        held = blocks_for(tokens, ANY_BLOCK_SIZE) * ANY_BLOCK_SIZE * per_token if tokens < length else need
        wide = held * 2 if is_eight_bits else held
        rows.append(LengthRow(tokens, _cache_need(wide, available, known),
                              _cache_need(wide / 2, available, known) if offers_fp8 else None))
    return tuple(rows)


def offered_lengths(full: int, block_size: int) -> list[int]:
    """Return the full length, three quarters and half of it and 8,192 tokens, in whole blocks, the longest first."""
    parts = (full, full * 3 // 4, full // 2, _SHORT)
    whole = [part // block_size * block_size if part != full else full for part in parts]
    return sorted({part for part in whole if 0 < part <= full}, reverse=True)


def _need(known: Quantities) -> float | None:
    """Return the GiB that one request of the full length needs on one GPU."""
    needed = known.number("kv_cache_needed_gib")
    if needed:
        return needed
    length, per_token = known.number("max_model_len"), kv_bytes_per_token(known)
    return kv_gib(length, per_token, known.block_size) if length and per_token else None


def _available(known: Quantities) -> float | None:
    available = known.number("kv_cache_available_gib")
    if available is not None:
        return max(available, 0.0)
    tokens, per_token = known.number("kv_cache_tokens"), kv_bytes_per_token(known)
    return kv_gib(tokens, per_token) if tokens and per_token else None


def _is_linear(known: Quantities, length: float, need: float, available: float | None) -> bool:
    """Return whether what is printed agrees with a need in proportion to the length."""
    estimate, tokens = known.number("estimated_max_model_len"), known.number("kv_cache_tokens")
    concurrency = known.number("max_concurrency")
    if estimate and available:
        return abs(estimate - length * available / need) <= _LINEAR * length
    if tokens and concurrency:
        return abs(concurrency * length - tokens) <= _LINEAR * tokens + 0.005 * length
    return kv_bytes_per_token(known) is not None


def _cache_need(gib: float, available: float | None, known: Quantities) -> CacheNeed:
    if available is None:
        return CacheNeed(round(gib, 2), None, None, suffices=True)
    requests = round(available / gib, 2)
    if gib + 2 * HALF_UNIT <= available or requests >= 1:
        return CacheNeed(round(gib, 2), requests, None, suffices=True)
    total, share = known.total, known.utilization
    if not total or not share or known.total_origin == "estimated":
        return CacheNeed(round(gib, 2), requests, None, suffices=True)
    graphs_reserved = known.version is not None and known.version >= GRAPHS_RESERVED_SINCE
    limit = utilization_limit(known.facts.get("enforce_eager") is True, graphs_reserved)
    offer = utilization_for_need(gib, available, share, total, known.free_at_start(), limit)
    return CacheNeed(round(gib, 2), requests, offer, suffices=offer is not None)
