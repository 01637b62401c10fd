"""Solve for tokens, bytes and blocks of the KV cache."""
# ruff: noqa: PLR0917 - rules give a filter its facts in order

from __future__ import annotations

import math

from vllm_doctor.memory.solver.rounding import (
    ANY_BLOCK_SIZE,
    DEFAULT_BLOCK_SIZE,
    EPSILON,
    GIB,
    HALF_UNIT,
    MIB,
    blocks_for,
    most_even_integer,
)

SIXTEEN_BIT_CACHES = frozenset({"auto", "bfloat16", "float16", "half"})
"""Values of --kv-cache-dtype with two bytes per value, where the model has 16 bits."""


def bytes_per_token(
    kv_cache_needed_gib: float, max_model_len: int, block_size: int | None = None,
    rounding_gib: float = HALF_UNIT,
) -> int | None:
    """Return the bytes of KV cache per token on one rank, from the need of one request.

    Only for models with full attention in every layer. Of the integers that round to the printed need, the one
    divisible by the largest power of two is taken. Source: check_enough_kv_cache_memory, V1 0.7-0.33.
    """
    block = block_size or DEFAULT_BLOCK_SIZE
    tokens = blocks_for(max_model_len, block) * block
    low, high = (kv_cache_needed_gib - rounding_gib) * GIB, (kv_cache_needed_gib + rounding_gib) * GIB
    return most_even_integer(low / tokens, high / tokens) if tokens > 0 and low > 0 else None


def bytes_per_token_from_cpu_blocks(
    kv_cache_cpu_blocks: int, swap_space_gb: float | None = None, block_size: int | None = None,
) -> int | None:
    """Return the bytes of KV cache per token on one rank, from V0's "# CPU blocks" = swap space // block bytes.

    The swap space is 4 GiB unless set. Source: worker.determine_num_available_blocks, 0.1.7-0.10.2.
    """
    if kv_cache_cpu_blocks <= 0:
        return None
    space = (4.0 if swap_space_gb is None else swap_space_gb) * GIB / (block_size or DEFAULT_BLOCK_SIZE)
    return most_even_integer(space / (kv_cache_cpu_blocks + 1), space / kv_cache_cpu_blocks)


def kv_gib(tokens: float, kv_bytes_per_token: float, block_size: int | None = None) -> float:
    """Return the GiB of KV cache for `tokens`, in whole blocks if `block_size` is given."""
    held = blocks_for(tokens, block_size) * block_size if block_size else tokens
    return held * kv_bytes_per_token / GIB


def tokens_in_blocks(kv_cache_gpu_blocks: int, block_size: int | None = None) -> int:
    """Return the tokens that V0's "# GPU blocks" hold, its bound for max_model_len (0.2.7-0.10.2)."""
    return kv_cache_gpu_blocks * (block_size or DEFAULT_BLOCK_SIZE)


def tokens_that_fit(
    kv_cache_available_gib: float, kv_bytes_per_token: float, block_size: int | None = None,
    null_block: bool | None = None, rounding_gib: float = HALF_UNIT,
) -> int | None:
    """Return the tokens that a KV cache holds, in whole blocks (for full attention only).

    `null_block`: one block is reserved (since 0.29); None means that the release is unknown, and counts as true.
    """
    block = block_size or ANY_BLOCK_SIZE
    if kv_bytes_per_token <= 0:
        return None
    block_bytes = kv_bytes_per_token * block
    blocks = math.floor((kv_cache_available_gib - rounding_gib) * GIB / block_bytes + EPSILON)
    blocks -= 0 if null_block is False else 1
    return blocks * block if blocks > 0 else None


def length_that_fits(
    max_model_len: int, kv_cache_available_gib: float, kv_cache_needed_gib: float,
    block_size: int | None = None, null_block: bool | None = None, rounding_gib: float = HALF_UNIT,
) -> int | None:
    """Return the longest request that fits, in whole blocks: L * A / N (for full attention only).

    Never above vLLM's own result; prefer the estimate that vLLM prints, which is exact. `null_block`: one block is
    reserved (since 0.29); None means that the release is unknown, and counts as true. Source: estimate_max_model_len.
    """
    block = block_size or ANY_BLOCK_SIZE
    needed, available = kv_cache_needed_gib + rounding_gib, kv_cache_available_gib - rounding_gib
    if needed <= 0 or available <= 0:
        return None
    blocks = math.floor(available * blocks_for(max_model_len, block) / needed + EPSILON)
    blocks -= 0 if null_block is False else 1
    return min(blocks * block, max_model_len) if blocks > 0 else None


def fp8_need(
    kv_cache_needed_gib: float, kv_cache_dtype: str | None = None,
    kv_cache_available_gib: float | None = None, rounding_gib: float = HALF_UNIT,
) -> float | None:
    """Return the GiB that an FP8 KV cache needs: half.

    None if the cache is not a 16-bit one, or if half of it does not fit in what is available.
    """
    if kv_cache_dtype is not None and kv_cache_dtype not in SIXTEEN_BIT_CACHES:
        return None
    need = kv_cache_needed_gib / 2
    if kv_cache_available_gib is not None and need + 1.5 * rounding_gib > kv_cache_available_gib:
        return None
    return need


def kv_cache_memory_bytes_for(
    kv_cache_needed_gib: float, max_model_len: int | None = None, block_size: int | None = None,
    gpu_free_gib: float | None = None, model_weights_gib: float | None = None,
    peak_activation_gib: float | None = None, cuda_graph_gib: float | None = None,
) -> int | None:
    """Return --kv-cache-memory-bytes: the need plus 2 %, at least one more block, in whole MiB.

    None if it exceeds free - weights - activations - graphs - 0.15 GiB; if activations or graphs are unknown, at least
    1.5 GiB are assumed besides the weights. `gpu_free_gib` is the free memory at startup.
    """
    if kv_cache_needed_gib <= 0:
        return None
    need = kv_cache_needed_gib + HALF_UNIT
    block = need / blocks_for(max_model_len, block_size or ANY_BLOCK_SIZE) if max_model_len else 0.0
    size = math.ceil(max(kv_cache_needed_gib * 1.02, need + block) * GIB / MIB) * MIB
    if gpu_free_gib is not None and model_weights_gib is not None:
        other_parts = (peak_activation_gib or 0.0) + (cuda_graph_gib or 0.0) + 0.15
        if peak_activation_gib is None or cuda_graph_gib is None:
            other_parts = max(1.5, other_parts)
        if size / GIB > gpu_free_gib - model_weights_gib - other_parts:
            return None
    return size


def human_bytes(size: int) -> str:
    """Format bytes for --kv-cache-memory-bytes: `4G`, `512M` (powers of two, integers), else the number.

    Source: human_readable_int in engine/arg_utils.py, 0.10.2-0.33.
    """
    if size > 0 and size % GIB == 0:
        return f"{size // GIB}G"
    if size > 0 and size % MIB == 0:
        return f"{size // MIB}M"
    return str(int(size))
