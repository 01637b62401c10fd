"""Solve for --gpu-memory-utilization."""
# ruff: noqa: PLR0917 - rules give a filter its facts in order

from __future__ import annotations

from vllm_doctor.memory.solver.rounding import (
    ANY_BLOCK_SIZE,
    EPSILON,
    GIB,
    HALF_UNIT,
    blocks_for,
    round_down,
    round_up,
)


def utilization_limit(enforce_eager: bool | None = None, graphs_reserved: bool | None = None) -> float:
    """Return the largest utilization to offer: 0.95, or 0.97 without CUDA graphs on top of the budget.

    In V0 and in V1 up to 0.19 they are outside the budget; since 0.20 their estimate is taken out of it.
    """
    return 0.97 if enforce_eager or graphs_reserved else 0.95


def _startable(share: float, total: float, free: float | None, limit: float, rounding: float) -> float | None:
    """Return `share` rounded up to 0.01, or None if it is above `limit` or requests more than is free.

    vLLM does not start when free < ceil(total * utilization) (init_device 0.9.1, request_memory 0.14).
    """
    offer = round_up(share)
    if not 0 < offer <= limit + EPSILON:
        return None
    if free is not None and offer * (total + rounding) > free - rounding:
        return None
    return offer


def utilization_for_need(
    kv_cache_needed_gib: float, kv_cache_available_gib: float, gpu_memory_utilization: float,
    gpu_total_gib: float, gpu_free_gib: float | None = None, limit: float = 0.95,
    rounding_gib: float = HALF_UNIT,
) -> float | None:
    """Return the utilization whose budget holds the needed KV cache: U + (N - A) / T, rounded up to 0.01.

    None if it is above `limit` or the free memory, or if nothing is missing. `gpu_free_gib` is the free memory at
    startup, not at a CUDA OOM. Source: gpu_worker.determine_available_memory, 0.9.1-0.33.
    """
    missing = kv_cache_needed_gib - kv_cache_available_gib + 2 * rounding_gib
    if missing <= 0 or gpu_total_gib <= rounding_gib:
        return None
    # At least above the current value.
    share = gpu_memory_utilization + max(missing / (gpu_total_gib - rounding_gib), 2 * EPSILON)
    return _startable(share, gpu_total_gib, gpu_free_gib, limit, rounding_gib)


def utilization_for_length(
    max_model_len: int, kv_bytes_per_token: float, kv_cache_available_gib: float,
    gpu_memory_utilization: float, gpu_total_gib: float, gpu_free_gib: float | None = None,
    limit: float = 0.95, block_size: int | None = None, null_block: bool | None = None,
    rounding_gib: float = HALF_UNIT,
) -> float | None:
    """Return the utilization that raises a negative KV cache to one request of `max_model_len` tokens.

    `null_block`: one block is reserved (since 0.29); None means that the release is unknown, and counts as true.
    Source: get_kv_cache_configs, 0.29-0.33.
    """
    block = block_size or ANY_BLOCK_SIZE
    blocks = blocks_for(max_model_len, block) + (0 if null_block is False else 1)
    return utilization_for_need(blocks * block * kv_bytes_per_token / GIB, kv_cache_available_gib,
                                gpu_memory_utilization, gpu_total_gib, gpu_free_gib, limit, rounding_gib)


def utilization_for_parts(
    kv_cache_needed_gib: float, gpu_total_gib: float, model_weights_gib: float, peak_activation_gib: float,
    non_torch_gib: float | None = None, gpu_free_gib: float | None = None, limit: float = 0.95,
    rounding_gib: float = HALF_UNIT,
) -> float | None:
    """Return the utilization that covers weights, activations, non-torch memory and the needed KV cache.

    Source: worker.determine_num_available_blocks, the "model weights take" line of V0 0.6.5-0.10.2.
    """
    if gpu_total_gib <= rounding_gib:
        return None
    parts = (kv_cache_needed_gib, model_weights_gib, peak_activation_gib, non_torch_gib or 0.0)
    share = (sum(parts) + len(parts) * rounding_gib) / (gpu_total_gib - rounding_gib)
    return _startable(share, gpu_total_gib, gpu_free_gib, limit, rounding_gib)


def utilization_for_everybody(
    own_gib: float, other_gib: float, gpu_total_gib: float, limit: float = 0.95,
    rounding_gib: float = HALF_UNIT,
) -> float | None:
    """Return the utilization that covers this server and other processes, for releases that count all.

    These are 0.2.5-0.3.1, V0 0.6.4 and V1 0.6.4-0.9.0. `own_gib` includes the wanted KV cache.
    """
    if gpu_total_gib <= rounding_gib:
        return None
    share = (own_gib + other_gib + 2 * rounding_gib) / (gpu_total_gib - rounding_gib)
    return _startable(share, gpu_total_gib, None, limit, rounding_gib)


def utilization_below_free(
    gpu_free_gib: float, gpu_total_gib: float, margin: float = 0.01, model_weights_gib: float | None = None,
    peak_activation_gib: float | None = None, limit: float = 0.95, rounding_gib: float = HALF_UNIT,
) -> float | None:
    """Return the largest utilization that requests less than is free: free / T - `margin`, rounded down.

    None if weights, activations and 1 GiB of cache do not fit in it: then memory must be freed first. On unified
    memory the free memory varies with the page cache: use a margin of 0.02. Source: request_memory, 0.14-0.33.
    """
    if gpu_total_gib <= 0:
        return None
    offer = min(limit, round_down((gpu_free_gib - rounding_gib) / (gpu_total_gib + rounding_gib) - margin))
    if offer < 0.01:
        return None
    need = None if model_weights_gib is None else model_weights_gib + (peak_activation_gib or 0.0) + 1
    return None if need is not None and offer * gpu_total_gib < need else offer


def utilization_minus(
    gpu_memory_utilization: float, oom_tried_gib: float | None = None, gpu_total_gib: float | None = None,
    kv_cache_available_gib: float | None = None, kv_cache_needed_gib: float | None = None,
) -> float | None:
    """Return a lower utilization that leaves room for CUDA graph capture: U - max(0.03, 1.5 * (1 GiB + tried) / T).

    V0 and V1 up to 0.19 capture outside the budget. None if one request would no longer fit.
    """
    drop = 0.03 if not gpu_total_gib else max(0.03, 1.5 * (1 + (oom_tried_gib or 0.0)) / gpu_total_gib)
    offer = round_down(gpu_memory_utilization - drop)
    if offer < 0.01:
        return None
    if gpu_total_gib and kv_cache_available_gib is not None and kv_cache_needed_gib is not None:
        left = kv_cache_available_gib - (gpu_memory_utilization - offer) * (gpu_total_gib + HALF_UNIT)
        if left < kv_cache_needed_gib + 2 * HALF_UNIT:
            return None
    return offer


def utilization_for_sampler(
    gpu_memory_utilization: float, oom_tried_gib: float, gpu_free_gib: float, gpu_total_gib: float,
) -> float | None:
    """Return a lower utilization that leaves the sampler's warm-up the missing memory plus 0.3 GiB.

    Applies only after the KV cache was sized; `gpu_free_gib` is the free memory in the OOM message.
    Source: gpu_model_runner._dummy_sampler_run, 0.8.0-0.33.
    """
    if gpu_total_gib <= HALF_UNIT:
        return None
    missing = max(0.0, oom_tried_gib - gpu_free_gib + 2 * HALF_UNIT) + 0.3
    offer = round_down(gpu_memory_utilization - missing / (gpu_total_gib - HALF_UNIT))
    return offer if offer >= 0.01 else None


def equivalent_utilization(
    gpu_memory_utilization: float, cuda_graph_estimate_gib: float, gpu_total_gib: float,
) -> float | None:
    """Return the equivalent utilization without the CUDA graph estimate (gpu_worker, 0.20-0.33)."""
    if gpu_total_gib <= 0:
        return None
    return round(gpu_memory_utilization - cuda_graph_estimate_gib / gpu_total_gib, 4)


def suggested_utilization(
    gpu_memory_utilization: float, cuda_graph_estimate_gib: float, gpu_total_gib: float,
) -> float | None:
    """Return the utilization that vLLM suggests to offset the CUDA graph estimate, at most 1.0."""
    if gpu_total_gib <= 0:
        return None
    return min(round(gpu_memory_utilization + cuda_graph_estimate_gib / gpu_total_gib, 4), 1.0)
