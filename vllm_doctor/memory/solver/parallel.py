"""Solve for tensor-parallel and pipeline-parallel sizes."""
# ruff: noqa: PLR0917 - rules give a filter its facts in order

from __future__ import annotations

from vllm_doctor.memory.solver.rounding import HALF_UNIT

_MAX_SIZE = 1024  # GPUs


def tensor_parallel_for(
    model_weights_gib: float, gpu_total_gib: float, tensor_parallel_size: int | None = None,
    num_gpus_visible: int | None = None, num_attention_heads: int | None = None, share: float = 0.85,
) -> int | None:
    """Return the next larger tensor-parallel size whose weights take at most `share` of a GPU.

    `model_weights_gib` is per GPU at the current size. Candidate sizes divide the attention heads or, if those are
    unknown, double the current size; at most the number of visible GPUs, else 8.
    """
    now = tensor_parallel_size or 1
    most = min(num_gpus_visible or max(8, now), _MAX_SIZE)
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
    """Return the KV cache in GiB that a rank needs at another tensor-parallel size.

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
    """Estimate the KV cache in GiB at a larger tensor-parallel size, cautiously.

    Weights shrink proportionally, NCCL and the custom all-reduce take `communication_gib`; that the activation peak
    shrinks too is ignored.
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
    """Return the KV cache in GiB that one pipeline stage needs, from the need of all layers printed up to 0.16.

    Recipe 10. Exact if the layer counts are known, else an even share.
    """
    if layers_of_stage and num_layers:
        return kv_cache_needed_gib * layers_of_stage / num_layers
    return kv_cache_needed_gib / pipeline_parallel_size if pipeline_parallel_size else None
