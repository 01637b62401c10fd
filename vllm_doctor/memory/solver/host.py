"""Solve for host memory: offloaded weights, swap space, the CPU backend's KV cache."""

from __future__ import annotations

import math

from vllm_doctor.memory.solver.rounding import HALF_UNIT


def offload_gb_for(
    deficit_gib: float, model_weights_gib: float | None = None, host_free_gib: float | None = None,
    tensor_parallel_size: int | None = None,
) -> int | None:
    """Return the --cpu-offload-gb, per GPU, that frees `deficit_gib`.

    None if that is all of the weights or more, or if the host has too little memory: pinned tensors take about
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
    """Return the largest --cpu-offload-gb, per GPU: half of host memory over the ranks."""
    offload = math.floor(0.5 * host_free_gib / (tensor_parallel_size or 1))
    return offload if offload > 0 else None


def swap_space_for(host_total_gib: float, tensor_parallel_size: int | None = None) -> int:
    """Return the largest --swap-space per GPU without a warning: 40 % of host memory over the ranks (0.1.7-0.17.0)."""
    return max(0, math.floor(0.4 * (host_total_gib - HALF_UNIT) / (tensor_parallel_size or 1)))


def cpu_kv_space_for(kv_cache_needed_gib: float, cpu_node_available_gib: float | None = None) -> int | None:
    """Return the VLLM_CPU_KVCACHE_SPACE, in whole GiB, that holds the needed KV cache (platforms/cpu.py, 0.4.1-0.33).

    None if less than 2 GiB of host memory would be left.
    """
    space = math.ceil(kv_cache_needed_gib + HALF_UNIT)
    if space < 1 or (cpu_node_available_gib is not None and space > cpu_node_available_gib - 2):
        return None
    return space
