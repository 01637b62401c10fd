"""Solve for the other parts of the budget: CUDA graphs, activations, the sampler."""

from __future__ import annotations

import math

from vllm_doctor.memory.solver.rounding import GIB, HALF_UNIT


def available_with_graph_estimate(
    kv_cache_available_gib: float, cuda_graph_estimate_gib: float, new_estimate_gib: float = 0.0,
) -> float:
    """Return the KV cache in GiB with another CUDA graph estimate; 0 is --enforce-eager.

    Since 0.20 only: before, the estimate was not taken from the cache, nor did --enforce-eager enlarge it.
    """
    return kv_cache_available_gib + cuda_graph_estimate_gib - new_estimate_gib


def sampler_gib(num_seqs: int, vocab_size: int, bytes_per_logit: int = 16) -> float:
    """Return the GiB of the sampler: 4 bytes per logit, 12 for sorted values and indices (V1 0.8-0.33).

    For the difference of two --max-num-seqs, this is what the KV cache gains if the sampler was the peak.
    """
    return num_seqs * vocab_size * bytes_per_logit / GIB


def sequences_for_sampler(
    sampler_dummy_requests: int, oom_tried_gib: float, gpu_free_gib: float,
) -> int | None:
    """Return the --max-num-seqs whose sort fits in the free memory, a multiple of 8.

    The failed allocation is proportional to the number of sequences. None if not even 8 fit.
    """
    room = gpu_free_gib - HALF_UNIT
    if oom_tried_gib <= 0 or room <= 0:
        return None
    share = min(1.0, room / (oom_tried_gib + HALF_UNIT))
    return math.floor(sampler_dummy_requests * share) // 8 * 8 or None


def sequences_for_mamba(mamba_cache_blocks: int) -> int | None:
    """Return --max-num-seqs for a hybrid model: the largest multiple of 8 up to its Mamba blocks.

    Source: config/compilation.resolve_cudagraph_mode_and_sizes, 0.20-0.33.
    """
    return mamba_cache_blocks // 8 * 8 or mamba_cache_blocks if mamba_cache_blocks > 0 else None


def activation_peak_for(
    peak_activation_gib: float, max_num_batched_tokens: int, new_max_num_batched_tokens: int,
    fixed_share: float = 0.25,
) -> float | None:
    """Estimate the activation peak in GiB with another --max-num-batched-tokens.

    Linear in the tokens above a fixed part (workspace, logits), assumed to be a quarter of the measured peak.
    """
    if max_num_batched_tokens <= 0:
        return None
    grown = new_max_num_batched_tokens / max_num_batched_tokens
    return peak_activation_gib * (fixed_share + (1 - fixed_share) * grown)


def batched_tokens_for(
    max_num_batched_tokens: int, peak_activation_gib: float, deficit_gib: float, minimum: int = 512,
    fixed_share: float = 0.25,
) -> int | None:
    """Estimate the --max-num-batched-tokens that lowers the activation peak by `deficit_gib`, in steps of 256.

    Recipe 7. None if that is below `minimum`.
    """
    variable = peak_activation_gib * (1 - fixed_share)
    if variable <= 0 or deficit_gib <= 0:
        return None
    tokens = math.floor(max_num_batched_tokens * (1 - (deficit_gib + 2 * HALF_UNIT) / variable)) // 256 * 256
    return tokens if tokens >= minimum else None
