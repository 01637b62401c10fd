"""Compute further facts from a log's facts."""

from __future__ import annotations

from vllm_doctor.memory.quantities import Facts, Quantities, kv_bytes_per_token
from vllm_doctor.memory.release_accounting import NULL_BLOCK_SINCE
from vllm_doctor.memory.solver.kv_cache import kv_gib, tokens_in_blocks, tokens_that_fit


def derived(facts: Facts) -> dict[str, float | int]:
    """Return the facts that can be computed from the log's facts; the others are absent.

    kv_bytes_per_token, kv_cache_capacity_tokens, kv_gib_per_request (of max_model_len tokens),
    concurrency_at_max_model_len, kv_tokens_per_sequence (with max_num_seqs running), kv_cache_deficit_gib,
    device_gib (when the log does not print the total), budget_gib, outside_budget_gib.
    """
    quantities = Quantities(facts)
    derived_facts: dict[str, float | int] = {}
    if (per_token := kv_bytes_per_token(quantities)) is not None:
        derived_facts["kv_bytes_per_token"] = per_token
    length = quantities.number("max_model_len")
    capacity = _capacity_tokens(quantities, per_token)
    if capacity is not None:
        derived_facts["kv_cache_capacity_tokens"] = capacity
        if length:
            derived_facts["concurrency_at_max_model_len"] = round(capacity / length, 2)
        if (sequences := quantities.number("max_num_seqs")) and sequences >= 1:
            derived_facts["kv_tokens_per_sequence"] = int(capacity // sequences)
    needed, available = quantities.number("kv_cache_needed_gib"), quantities.number("kv_cache_available_gib")
    if needed is None and per_token and length:
        needed = kv_gib(length, per_token, quantities.block_size)
    if needed is not None:
        derived_facts["kv_gib_per_request"] = round(needed, 4)
        if available is not None and needed > available:
            derived_facts["kv_cache_deficit_gib"] = round(needed - available, 4)
    if quantities.total is not None and quantities.total_origin == "computed":
        derived_facts["device_gib"] = round(quantities.total, 2)
    if quantities.budget is not None and quantities.total_origin != "estimated":
        derived_facts["budget_gib"] = round(quantities.budget, 2)
        if quantities.total is not None:
            derived_facts["outside_budget_gib"] = round(quantities.total - quantities.budget, 2)
    return derived_facts


def _capacity_tokens(quantities: Quantities, per_token: int | None) -> int | None:
    """Return the number of tokens that the KV cache holds, or None."""
    number = quantities.number
    tokens, concurrency = number("kv_cache_tokens"), number("max_concurrency")
    length = number("max_model_len")
    if tokens is not None:
        hybrid = concurrency and length and concurrency * length > 1.02 * tokens + 0.005 * length
        # Before 0.24 the printed tokens of a hybrid model are too low, but the concurrency is right.
        return int(concurrency * length) if hybrid and concurrency and length else int(tokens)
    if (blocks := number("kv_cache_gpu_blocks")) is not None:
        return tokens_in_blocks(int(blocks), quantities.block_size)
    available, estimate = number("kv_cache_available_gib"), number("estimated_max_model_len")
    if per_token is None or available is None or available <= 0:
        return None
    if estimate is not None:
        return int(estimate)
    held_back = quantities.version is None or quantities.version >= NULL_BLOCK_SINCE
    block_size = quantities.block_size if number("block_size") else None
    return tokens_that_fit(available, per_token, block_size, held_back)
