"""Solve for the total memory of the device if the log does not print it."""

from __future__ import annotations

from vllm_doctor.memory.solver.rounding import HALF_UNIT


def total_from_graph_message(
    cuda_graph_estimate_gib: float, suggested_gpu_memory_utilization: float | None = None,
    gpu_memory_utilization: float | None = None, equivalent_gpu_memory_utilization: float | None = None,
) -> float | None:
    """Return the GPU's total from the CUDA graph message: estimate / (suggestion - U) or / (U - equivalent).

    Recipe 12. A suggestion of 1.0 is capped and gives no total. None if the rounding error of the total exceeds 2 %.
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
    """Return the GPU's total from two starts that differ in utilization alone: (A2 - A1) / (U2 - U1)."""
    share = other_utilization - gpu_memory_utilization
    total = (other_available_gib - kv_cache_available_gib) / share if share else 0.0
    return round(total, 2) if total > 0 else None
