"""The memory solver: compute flag values that would fit, from the numbers of a log.

Every function is a filter for rules: the first parameter is the piped value, an optional fact that the log does not
show is None, and the result None means "there is no such number". GiB are 2**30 bytes, lengths are tokens, everything
is per GPU (per rank). vLLM prints GiB with two decimals, so a printed quantity is taken at the worse end of its
rounding interval (`rounding_gib`; 0 for vLLM's own arithmetic on exact numbers), and an unknown block size counts as
256.
"""

from __future__ import annotations

from vllm_doctor.catalog.gpus import total_for_gpu
from vllm_doctor.memory.solver.batch_limits import (
    activation_peak_for,
    available_with_graph_estimate,
    batched_tokens_for,
    sampler_gib,
    sequences_for_mamba,
    sequences_for_sampler,
)
from vllm_doctor.memory.solver.device_total import total_from_graph_message, total_from_two_runs
from vllm_doctor.memory.solver.host import (
    cpu_kv_space_for,
    offload_gb_for,
    offload_gb_for_host_ram,
    swap_space_for,
)
from vllm_doctor.memory.solver.kv_cache import (
    bytes_per_token,
    bytes_per_token_from_cpu_blocks,
    fp8_need,
    human_bytes,
    kv_cache_memory_bytes_for,
    kv_gib,
    length_that_fits,
    tokens_in_blocks,
    tokens_that_fit,
)
from vllm_doctor.memory.solver.parallel import (
    available_with_tensor_parallel,
    kv_need_with_tensor_parallel,
    pipeline_stage_need,
    tensor_parallel_for,
)
from vllm_doctor.memory.solver.utilization import (
    equivalent_utilization,
    suggested_utilization,
    utilization_below_free,
    utilization_for_everybody,
    utilization_for_length,
    utilization_for_need,
    utilization_for_parts,
    utilization_for_sampler,
    utilization_limit,
    utilization_minus,
)

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
