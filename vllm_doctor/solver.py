"""The memory solver: which number for a flag would fit, from the numbers of a log.

Every function is a filter of the rules: the first parameter is the piped value, an optional fact that the log
does not show is None, and the answer None means "there is no such number". GiB are 2**30 bytes, lengths are
tokens, all is per GPU (per rank). vLLM prints GiB with two decimals, so a printed quantity is taken at the
worse end of its half unit (`rounding_gib`; 0 is vLLM's own arithmetic on exact numbers), and an unknown block
size counts as 256. Recipes are numbered as in the memory ledger's section 3.
"""
# ruff: noqa: PLR0917 - rules give a filter its facts in order

from __future__ import annotations

import math

__all__ = [
    "activation_peak_for",
    "available_with_graph_estimate",
    "available_with_tensor_parallel",
    "batched_tokens_for",
    "bytes_per_token",
    "bytes_per_token_from_cpu_blocks",
    "cpu_kv_space_for",
    "equivalent_utilization",
    "fp8_need",
    "human_bytes",
    "kv_cache_memory_bytes_for",
    "kv_gib",
    "kv_need_with_tensor_parallel",
    "length_that_fits",
    "offload_gb_for",
    "offload_gb_for_host_ram",
    "pipeline_stage_need",
    "sampler_gib",
    "sequences_for_mamba",
    "sequences_for_sampler",
    "suggested_utilization",
    "swap_space_for",
    "tensor_parallel_for",
    "tokens_in_blocks",
    "tokens_that_fit",
    "total_for_gpu",
    "total_from_graph_message",
    "total_from_two_runs",
    "utilization_below_free",
    "utilization_for_everybody",
    "utilization_for_length",
    "utilization_for_need",
    "utilization_for_parts",
    "utilization_for_sampler",
    "utilization_limit",
    "utilization_minus",
]

GIB = 2**30
MIB = 2**20
HALF_UNIT = 0.005  # GiB; the most that a number printed with two decimals is off
DEFAULT_BLOCK_SIZE = 16  # tokens; FlashAttention on CUDA, and V0
_ANY_BLOCK_SIZE = 256  # tokens; a multiple of 16, 32, 64 and 128: what is whole in it is whole in all of them
_HAIR = 1e-9  # float noise of a quotient; less than one byte on any GPU

# What cudaMemGetInfo reports as the total, GiB; all words must stand in the GPU's name, first match counts.
# Drivers and ECC move it by 0.1-0.3. Cards sold with two memory sizes under one name (H20) are left out.
_TOTALS: tuple[tuple[str, float], ...] = (
    ("a100 80gb", 79.25), ("a800 80gb", 79.25), ("a100 40gb", 39.49), ("h100 nvl", 93.1),
    ("h100 80gb", 79.19), ("h100 pcie", 79.19), ("h800", 79.19), ("h200", 139.8), ("h20 3e", 139.8),
    ("b200", 178.35), ("rtx pro 6000", 94.97), ("rtx 6000 ada", 47.5), ("rtx a6000", 47.53),
    ("rtx a5000", 23.68), ("l40s", 44.4), ("l40", 44.4), ("l20", 44.53), ("a10g", 22.05), ("a10", 21.99),
    ("l4", 22.05), ("t4", 14.58), ("v100 32gb", 31.74), ("v100 16gb", 15.77), ("rtx 5090", 31.36),
    ("rtx 5080", 15.48), ("rtx 4090", 23.52), ("rtx 3090", 23.69), ("gb10", 121.69), ("mi300x", 191.98),
)


def _up(share: float) -> float:
    """A share rounded up to 0.01."""
    return math.ceil(share * 100 - _HAIR) / 100


def _down(share: float) -> float:
    """A share rounded down to 0.01."""
    return math.floor(share * 100 + _HAIR) / 100


def _blocks(tokens: float, block_size: int) -> int:
    """Blocks that hold `tokens`."""
    return math.ceil(tokens / block_size - _HAIR)


def roundest(low: float, high: float) -> int | None:
    """The whole number in [low, high] with the largest power of two as a factor, if that is no coincidence.

    Bytes per token are layers * heads * head size * bytes, so a multiple of a large power of two. An interval
    a quarter as wide as that power, or less, rarely holds one by chance; else the middle is the answer.
    """
    step = 1 << max(0, int(high).bit_length())
    while step >= max(1.0, 4 * (high - low)):
        candidate = math.floor(high / step) * step
        if candidate >= low - _HAIR and candidate > 0:
            return candidate
        step //= 2
    return round((low + high) / 2) or None


# --- --gpu-memory-utilization -------------------------------------------------------------------------------


def utilization_limit(enforce_eager: bool | None = None, graphs_reserved: bool | None = None) -> float:
    """The largest utilization to offer: 0.95, or 0.97 without CUDA graphs on top of the budget (recipe 1).

    They come on top in V0 and in V1 up to 0.19; from 0.20 their estimate is taken out of the budget.
    """
    return 0.97 if enforce_eager or graphs_reserved else 0.95


def _offered(share: float, total: float, free: float | None, limit: float, rounding: float) -> float | None:
    """`share` rounded up, or None when it is above `limit` or asks for more than is free.

    vLLM does not start when free < ceil(total * utilization) (init_device 0.9.1, request_memory 0.14).
    """
    offer = _up(share)
    if not 0 < offer <= limit + _HAIR:
        return None
    if free is not None and offer * (total + rounding) > free - rounding:
        return None
    return offer


def utilization_for_need(
    kv_cache_needed_gib: float, kv_cache_available_gib: float, gpu_memory_utilization: float,
    gpu_total_gib: float, gpu_free_gib: float | None = None, limit: float = 0.95,
    rounding_gib: float = HALF_UNIT,
) -> float | None:
    """The utilization whose budget holds the KV cache needed: U + (N - A) / T, rounded up to 0.01 (recipe 1).

    None when it is above `limit` or what is free, or when nothing is missing. `gpu_free_gib` is what was free
    at start-up, not at a CUDA out of memory. Source: gpu_worker.determine_available_memory, 0.9.1-0.33.
    """
    missing = kv_cache_needed_gib - kv_cache_available_gib + 2 * rounding_gib
    if missing <= 0 or gpu_total_gib <= rounding_gib:
        return None
    share = gpu_memory_utilization + missing / (gpu_total_gib - rounding_gib)
    return _offered(share, gpu_total_gib, gpu_free_gib, limit, rounding_gib)


def utilization_for_length(
    max_model_len: int, kv_bytes_per_token: float, kv_cache_available_gib: float,
    gpu_memory_utilization: float, gpu_total_gib: float, gpu_free_gib: float | None = None,
    limit: float = 0.95, block_size: int | None = None, null_block: bool | None = None,
    rounding_gib: float = HALF_UNIT,
) -> float | None:
    """The utilization that lifts a KV cache below zero to one request of `max_model_len` tokens (recipe 3).

    `null_block`: one block is held back, as from 0.29; None, release unknown, counts as so.
    Source: get_kv_cache_configs, 0.29-0.33.
    """
    block = block_size or _ANY_BLOCK_SIZE
    blocks = _blocks(max_model_len, block) + (0 if null_block is False else 1)
    return utilization_for_need(blocks * block * kv_bytes_per_token / GIB, kv_cache_available_gib,
                                gpu_memory_utilization, gpu_total_gib, gpu_free_gib, limit, rounding_gib)


def utilization_for_parts(
    kv_cache_needed_gib: float, gpu_total_gib: float, model_weights_gib: float, peak_activation_gib: float,
    non_torch_gib: float | None = None, gpu_free_gib: float | None = None, limit: float = 0.95,
    rounding_gib: float = HALF_UNIT,
) -> float | None:
    """The utilization that covers weights, activations, non-torch memory and KV cache needed (recipe 3).

    Source: worker.determine_num_available_blocks, the "model weights take" line of V0 0.6.5-0.10.2.
    """
    if gpu_total_gib <= rounding_gib:
        return None
    parts = (kv_cache_needed_gib, model_weights_gib, peak_activation_gib, non_torch_gib or 0.0)
    share = (sum(parts) + len(parts) * rounding_gib) / (gpu_total_gib - rounding_gib)
    return _offered(share, gpu_total_gib, gpu_free_gib, limit, rounding_gib)


def utilization_for_everybody(
    own_gib: float, other_gib: float, gpu_total_gib: float, limit: float = 0.95,
    rounding_gib: float = HALF_UNIT,
) -> float | None:
    """The share that covers this instance and the others, where a release counts all processes (example 8).

    These are 0.2.5-0.3.1, V0 0.6.4 and V1 0.6.4-0.9.0. `own_gib` includes the KV cache wanted.
    """
    if gpu_total_gib <= rounding_gib:
        return None
    share = (own_gib + other_gib + 2 * rounding_gib) / (gpu_total_gib - rounding_gib)
    return _offered(share, gpu_total_gib, None, limit, rounding_gib)


def utilization_below_free(
    gpu_free_gib: float, gpu_total_gib: float, margin: float = 0.01, model_weights_gib: float | None = None,
    peak_activation_gib: float | None = None, limit: float = 0.95, rounding_gib: float = HALF_UNIT,
) -> float | None:
    """The largest utilization that asks for less than is free: free / T - `margin`, rounded down (recipe 4).

    None when weights, activations and 1 GiB of cache do not fit in it: then the GPU must be freed. On unified
    memory what is free moves with the page cache: a margin of 0.02. Source: request_memory, 0.14-0.33.
    """
    if gpu_total_gib <= 0:
        return None
    offer = min(limit, _down((gpu_free_gib - rounding_gib) / (gpu_total_gib + rounding_gib) - margin))
    if offer < 0.01:
        return None
    need = None if model_weights_gib is None else model_weights_gib + (peak_activation_gib or 0.0) + 1
    return None if need is not None and offer * gpu_total_gib < need else offer


def utilization_minus(
    gpu_memory_utilization: float, oom_tried_gib: float | None = None, gpu_total_gib: float | None = None,
    kv_cache_available_gib: float | None = None, kv_cache_needed_gib: float | None = None,
) -> float | None:
    """A lower utilization that leaves room for CUDA graph capture: U - max(0.03, 1.5 * (1 GiB + tried) / T).

    V0 and V1 up to 0.19 capture outside the budget (recipe 5). None when one request would no longer fit.
    """
    drop = 0.03 if not gpu_total_gib else max(0.03, 1.5 * (1 + (oom_tried_gib or 0.0)) / gpu_total_gib)
    offer = _down(gpu_memory_utilization - drop)
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
    """A lower utilization that leaves the sampler's warm-up what it lacked and 0.3 GiB more (recipe 6).

    Only once the KV cache was sized; `gpu_free_gib` is what the out-of-memory text calls free.
    Source: gpu_model_runner._dummy_sampler_run, 0.8.0-0.33.
    """
    if gpu_total_gib <= HALF_UNIT:
        return None
    lacking = max(0.0, oom_tried_gib - gpu_free_gib + 2 * HALF_UNIT) + 0.3
    offer = _down(gpu_memory_utilization - lacking / (gpu_total_gib - HALF_UNIT))
    return offer if offer >= 0.01 else None


def equivalent_utilization(
    gpu_memory_utilization: float, cuda_graph_estimate_gib: float, gpu_total_gib: float,
) -> float | None:
    """What a utilization amounts to without the CUDA graph estimate (recipe 12; gpu_worker, 0.20-0.33)."""
    if gpu_total_gib <= 0:
        return None
    return round(gpu_memory_utilization - cuda_graph_estimate_gib / gpu_total_gib, 4)


def suggested_utilization(
    gpu_memory_utilization: float, cuda_graph_estimate_gib: float, gpu_total_gib: float,
) -> float | None:
    """What vLLM suggests to keep the KV cache as large as without the estimate, at most 1.0 (recipe 12)."""
    if gpu_total_gib <= 0:
        return None
    return min(round(gpu_memory_utilization + cuda_graph_estimate_gib / gpu_total_gib, 4), 1.0)


# --- the GPU's total ----------------------------------------------------------------------------------------


def total_for_gpu(gpu_name: str) -> float | None:
    """The usual total of a GPU of that name, GiB, an estimate (recipe 1).

    None for an unknown name, for a MIG slice and for a laptop's GPU.
    """
    words = set(gpu_name.lower().replace("-", " ").replace("_", " ").split())
    if words & {"mig", "laptop"}:
        return None
    return next((total for name, total in _TOTALS if words.issuperset(name.split())), None)


def total_from_graph_message(
    cuda_graph_estimate_gib: float, suggested_gpu_memory_utilization: float | None = None,
    gpu_memory_utilization: float | None = None, equivalent_gpu_memory_utilization: float | None = None,
) -> float | None:
    """The GPU's total by the CUDA graph message: estimate / (suggestion - U) or / (U - equivalent).

    Recipe 12. A suggestion of 1.0 is cut off and says nothing. None when rounding leaves the total open by
    more than 2 %.
    """
    if gpu_memory_utilization is None or cuda_graph_estimate_gib <= 0:
        return None
    if equivalent_gpu_memory_utilization is not None:
        share = gpu_memory_utilization - equivalent_gpu_memory_utilization
    elif suggested_gpu_memory_utilization is not None and suggested_gpu_memory_utilization < 1:
        share = suggested_gpu_memory_utilization - gpu_memory_utilization
    else:
        return None
    if share <= 0 or HALF_UNIT / cuda_graph_estimate_gib + 0.00005 / share > 0.02:
        return None
    return round(cuda_graph_estimate_gib / share, 2)


def total_from_two_runs(
    kv_cache_available_gib: float, gpu_memory_utilization: float, other_available_gib: float,
    other_utilization: float,
) -> float | None:
    """The GPU's total from two starts that differ in utilization alone: (A2 - A1) / (U2 - U1) (recipe 1)."""
    share = other_utilization - gpu_memory_utilization
    total = (other_available_gib - kv_cache_available_gib) / share if share else 0.0
    return round(total, 2) if total > 0 else None


# --- tokens and bytes ---------------------------------------------------------------------------------------


def bytes_per_token(
    kv_cache_needed_gib: float, max_model_len: int, block_size: int | None = None,
    rounding_gib: float = HALF_UNIT,
) -> int | None:
    """Bytes of KV cache a token takes on one rank, from what one request needs (ledger, section 2).

    Only for models whose layers all attend to every token. Of the numbers that print as this need, the one
    with the largest power of two is taken. Source: check_enough_kv_cache_memory, V1 0.7-0.33.
    """
    block = block_size or DEFAULT_BLOCK_SIZE
    tokens = _blocks(max_model_len, block) * block
    low, high = (kv_cache_needed_gib - rounding_gib) * GIB, (kv_cache_needed_gib + rounding_gib) * GIB
    return roundest(low / tokens, high / tokens) if tokens > 0 and low > 0 else None


def bytes_per_token_from_cpu_blocks(
    kv_cache_cpu_blocks: int, swap_space_gb: float | None = None, block_size: int | None = None,
) -> int | None:
    """Bytes of KV cache a token takes on one rank, from V0's "# CPU blocks" = swap space // block bytes.

    The swap space is 4 GiB unless set. Source: worker.determine_num_available_blocks, 0.1.7-0.10.2.
    """
    if kv_cache_cpu_blocks <= 0:
        return None
    space = (4.0 if swap_space_gb is None else swap_space_gb) * GIB / (block_size or DEFAULT_BLOCK_SIZE)
    return roundest(space / (kv_cache_cpu_blocks + 1), space / kv_cache_cpu_blocks)


def kv_gib(tokens: float, kv_bytes_per_token: float, block_size: int | None = None) -> float:
    """GiB of KV cache that `tokens` take, in whole blocks when `block_size` is given (ledger, section 2)."""
    held = _blocks(tokens, block_size) * block_size if block_size else tokens
    return held * kv_bytes_per_token / GIB


def tokens_in_blocks(kv_cache_gpu_blocks: int, block_size: int | None = None) -> int:
    """Tokens that V0's "# GPU blocks" hold, its bound for max_model_len (recipe 2; 0.2.7-0.10.2)."""
    return kv_cache_gpu_blocks * (block_size or DEFAULT_BLOCK_SIZE)


def tokens_that_fit(
    kv_cache_available_gib: float, kv_bytes_per_token: float, block_size: int | None = None,
    null_block: bool | None = None, rounding_gib: float = HALF_UNIT,
) -> int | None:
    """Tokens that a KV cache of that size holds, in whole blocks (recipe 2; for full attention only).

    `null_block`: one block is held back, as from 0.29; None, release unknown, counts as so.
    """
    block = block_size or _ANY_BLOCK_SIZE
    if kv_bytes_per_token <= 0:
        return None
    block_bytes = kv_bytes_per_token * block
    blocks = math.floor((kv_cache_available_gib - rounding_gib) * GIB / block_bytes + _HAIR)
    blocks -= 0 if null_block is False else 1
    return blocks * block if blocks > 0 else None


def length_that_fits(
    max_model_len: int, kv_cache_available_gib: float, kv_cache_needed_gib: float,
    block_size: int | None = None, null_block: bool | None = None, rounding_gib: float = HALF_UNIT,
) -> int | None:
    """The longest request that fits, in whole blocks: L * A / N (recipe 2; for full attention only).

    Never above what vLLM computes; an estimate that it prints is exact and comes first. `null_block`: one
    block is held back, as from 0.29; None, release unknown, counts as so. Source: estimate_max_model_len.
    """
    block = block_size or _ANY_BLOCK_SIZE
    needed, available = kv_cache_needed_gib + rounding_gib, kv_cache_available_gib - rounding_gib
    if needed <= 0 or available <= 0:
        return None
    blocks = math.floor(available * _blocks(max_model_len, block) / needed + _HAIR)
    blocks -= 0 if null_block is False else 1
    return min(blocks * block, max_model_len) if blocks > 0 else None


def fp8_need(
    kv_cache_needed_gib: float, kv_cache_dtype: str | None = None,
    kv_cache_available_gib: float | None = None, rounding_gib: float = HALF_UNIT,
) -> float | None:
    """GiB that the KV cache needs in 8 bits: half (recipe 8).

    None when the cache is not a 16-bit one, or when the half does not fit in what is available.
    """
    if kv_cache_dtype not in {None, "auto", "bfloat16", "float16", "half"}:
        return None
    need = kv_cache_needed_gib / 2
    if kv_cache_available_gib is not None and need + 1.5 * rounding_gib > kv_cache_available_gib:
        return None
    return need


# --- what else lives in the budget --------------------------------------------------------------------------


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


# --- more GPUs, host memory ---------------------------------------------------------------------------------


def tensor_parallel_for(
    model_weights_gib: float, gpu_total_gib: float, tensor_parallel_size: int | None = None,
    num_gpus_visible: int | None = None, num_attention_heads: int | None = None, share: float = 0.85,
) -> int | None:
    """The smallest larger tensor-parallel size whose weights take at most `share` of a GPU (recipe 9).

    `model_weights_gib` is per GPU at the present size. Sizes divide the attention heads, or double the
    present one where those are unknown; at most the GPUs visible, else 8.
    """
    now = tensor_parallel_size or 1
    most = num_gpus_visible or max(8, now)
    if num_attention_heads:
        sizes = [size for size in range(now + 1, most + 1) if num_attention_heads % size == 0]
    else:
        sizes = [now << power for power in range(1, 10) if now << power <= most]
    weights = (model_weights_gib + HALF_UNIT) * now
    return next((size for size in sizes if weights / size <= share * gpu_total_gib), None)


def kv_need_with_tensor_parallel(
    kv_cache_needed_gib: float, new_tensor_parallel_size: int, num_kv_heads: int,
    tensor_parallel_size: int | None = None,
) -> float | None:
    """The KV cache a rank needs at another tensor-parallel size (recipe 9).

    KV heads per rank are max(1, heads // ranks): with more ranks than heads the need stops shrinking.
    """
    if new_tensor_parallel_size < 1 or num_kv_heads < 1:
        return None
    now = max(1, num_kv_heads // (tensor_parallel_size or 1))
    return kv_cache_needed_gib * max(1, num_kv_heads // new_tensor_parallel_size) / now


def available_with_tensor_parallel(
    kv_cache_available_gib: float, model_weights_gib: float, new_tensor_parallel_size: int,
    tensor_parallel_size: int | None = None, communication_gib: float = 1.0,
) -> float | None:
    """The KV cache at a larger tensor-parallel size, a cautious estimate (recipe 9).

    Weights shrink in proportion, NCCL and the custom all-reduce take `communication_gib`, and the activation
    peak, which shrinks too, is left as it is.
    """
    now = tensor_parallel_size or 1
    if new_tensor_parallel_size <= now:
        return None
    saved = model_weights_gib * (1 - now / new_tensor_parallel_size)
    return kv_cache_available_gib + saved - communication_gib


def pipeline_stage_need(
    kv_cache_needed_gib: float, pipeline_parallel_size: int | None = None, layers_of_stage: int | None = None,
    num_layers: int | None = None,
) -> float | None:
    """The KV cache one pipeline stage needs, of a need printed for all layers, as up to 0.16 (recipe 10).

    Exact with the layer counts, else the even share.
    """
    if layers_of_stage and num_layers:
        return kv_cache_needed_gib * layers_of_stage / num_layers
    return kv_cache_needed_gib / pipeline_parallel_size if pipeline_parallel_size else None


def offload_gb_for(
    deficit_gib: float, model_weights_gib: float | None = None, host_free_gib: float | None = None,
    tensor_parallel_size: int | None = None,
) -> int | None:
    """--cpu-offload-gb, per GPU, that frees `deficit_gib` (recipe 11).

    None when that is all of the weights or more, or when the host lacks the memory: pinned tensors take about
    1.8 times their size there.
    """
    if deficit_gib <= 0:
        return None
    offload = math.ceil(deficit_gib + HALF_UNIT)
    if model_weights_gib is not None and offload >= model_weights_gib:
        return None
    if host_free_gib is not None and 1.8 * offload * (tensor_parallel_size or 1) > host_free_gib:
        return None
    return offload


def offload_gb_for_host_ram(host_free_gib: float, tensor_parallel_size: int | None = None) -> int | None:
    """The largest --cpu-offload-gb, per GPU, for the host's memory: half of it over the ranks (recipe 11)."""
    offload = math.floor(0.5 * host_free_gib / (tensor_parallel_size or 1))
    return offload if offload > 0 else None


def swap_space_for(host_total_gib: float, tensor_parallel_size: int | None = None) -> int:
    """A --swap-space, per GPU, that draws no warning: 40 % of the host's memory (0.1.7-0.17.0)."""
    return max(0, math.floor(0.4 * (host_total_gib - HALF_UNIT) / (tensor_parallel_size or 1)))


def cpu_kv_space_for(kv_cache_needed_gib: float, cpu_node_available_gib: float | None = None) -> int | None:
    """VLLM_CPU_KVCACHE_SPACE, whole GiB, that holds the KV cache needed (platforms/cpu.py, 0.4.1-0.33).

    None when less than 2 GiB of host memory would be left.
    """
    space = math.ceil(kv_cache_needed_gib + HALF_UNIT)
    if space < 1 or (cpu_node_available_gib is not None and space > cpu_node_available_gib - 2):
        return None
    return space


def kv_cache_memory_bytes_for(
    kv_cache_needed_gib: float, max_model_len: int | None = None, block_size: int | None = None,
    gpu_free_gib: float | None = None, model_weights_gib: float | None = None,
    peak_activation_gib: float | None = None, cuda_graph_gib: float | None = None,
) -> int | None:
    """--kv-cache-memory-bytes: the need and 2 %, at least one block more, in whole MiB (recipe 13).

    None when it is more than free - weights - activations - graphs - 0.15 GiB; while activations or graphs
    are unknown, 1.5 GiB stand for what is beside the weights. `gpu_free_gib` is what was free at start-up.
    """
    if kv_cache_needed_gib <= 0:
        return None
    need = kv_cache_needed_gib + HALF_UNIT
    block = need / _blocks(max_model_len, block_size or _ANY_BLOCK_SIZE) if max_model_len else 0.0
    size = math.ceil(max(kv_cache_needed_gib * 1.02, need + block) * GIB / MIB) * MIB
    if gpu_free_gib is not None and model_weights_gib is not None:
        beside = (peak_activation_gib or 0.0) + (cuda_graph_gib or 0.0) + 0.15
        if peak_activation_gib is None or cuda_graph_gib is None:
            beside = max(1.5, beside)
        if size / GIB > gpu_free_gib - model_weights_gib - beside:
            return None
    return size


def human_bytes(size: int) -> str:
    """Bytes as --kv-cache-memory-bytes takes them: `4G`, `512M` (powers of two, whole), else the number.

    Source: human_readable_int in engine/arg_utils.py, 0.10.2-0.33.
    """
    if size > 0 and size % GIB == 0:
        return f"{size // GIB}G"
    if size > 0 and size % MIB == 0:
        return f"{size // MIB}M"
    return str(int(size))
