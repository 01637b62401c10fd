"""What else lives in the budget beside the KV cache: CUDA graphs, activations, the sampler (recipes 5, 6 and 7)."""

from __future__ import annotations

import math

from vllm_doctor.memory.solver.rounding import GIB, HALF_UNIT


def available_with_graph_estimate(
    kv_cache_available_gib: float, cuda_graph_estimate_gib: float, new_estimate_gib: float = 0.0,
) -> float:
    """The KV cache with another CUDA graph estimate; 0 is --enforce-eager (recipe 5).

    Only from 0.20 on: before, the estimate is not taken from the cache, nor does --enforce-eager enlarge it.
    """
    return kv_cache_available_gib + cuda_graph_estimate_gib - new_estimate_gib


def sampler_gib(num_seqs: int, vocab_size: int, bytes_per_logit: int = 16) -> float:
    """GiB of the sampler: 4 bytes a logit, 12 for the sort's values and indices (recipe 6; V1 0.8-0.33).

    With the difference of two --max-num-seqs, what the KV cache gains if the sampler was the peak.
    """
    return num_seqs * vocab_size * bytes_per_logit / GIB


def sequences_for_sampler(
    sampler_dummy_requests: int, oom_tried_gib: float, gpu_free_gib: float,
) -> int | None:
    """How many sequences' sort fits in what was free, a multiple of 8, for --max-num-seqs (recipe 6).

    The allocation that failed is in proportion to the number of sequences. None when not even 8 fit.
    """
    room = gpu_free_gib - HALF_UNIT
    if oom_tried_gib <= 0 or room <= 0:
        return None
    share = min(1.0, room / (oom_tried_gib + HALF_UNIT))
    return math.floor(sampler_dummy_requests * share) // 8 * 8 or None


def sequences_for_mamba(mamba_cache_blocks: int) -> int | None:
    """--max-num-seqs for a hybrid model: the largest multiple of 8 not above its state blocks (recipe 6).

    Source: config/compilation.resolve_cudagraph_mode_and_sizes, 0.20-0.33.
    """
    return mamba_cache_blocks // 8 * 8 or mamba_cache_blocks if mamba_cache_blocks > 0 else None


def activation_peak_for(
    peak_activation_gib: float, max_num_batched_tokens: int, new_max_num_batched_tokens: int,
    fixed_share: float = 0.25,
) -> float | None:
    """The activation peak with another token budget, an estimate (recipe 7).

    Linear in the tokens above a fixed part (workspace, logits), taken as a quarter of the measured peak.
    """
    if max_num_batched_tokens <= 0:
        return None
    grown = new_max_num_batched_tokens / max_num_batched_tokens
    return peak_activation_gib * (fixed_share + (1 - fixed_share) * grown)


def batched_tokens_for(
    max_num_batched_tokens: int, peak_activation_gib: float, deficit_gib: float, minimum: int = 512,
    fixed_share: float = 0.25,
) -> int | None:
    """The token budget whose activation peak is lower by `deficit_gib`, in steps of 256; an estimate.

    Recipe 7. None when that is below `minimum`.
    """
    variable = peak_activation_gib * (1 - fixed_share)
    if variable <= 0 or deficit_gib <= 0:
        return None
    tokens = math.floor(max_num_batched_tokens * (1 - (deficit_gib + 2 * HALF_UNIT) / variable)) // 256 * 256
    return tokens if tokens >= minimum else None
