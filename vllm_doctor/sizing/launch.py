"""A launch to plan: vLLM's flags that decide its memory, and what they are when not given, by release and GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vllm_doctor.errors import InputError
from vllm_doctor.memory.era import default_utilization
from vllm_doctor.size_units import BINARY, FACTORS

Version = tuple[int, int, int]

_HUMAN = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)([kmgtKMGT]?)")


@dataclass(frozen=True)
class Launch:
    """The flags, by vLLM's names; None is vLLM's own default. `max_model_len` 0 is auto: the longest that fits."""

    version: Version
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_dtype: str = "auto"
    kv_cache_memory_bytes: int | None = None
    dtype: str = "auto"
    quantization: str | None = None
    block_size: int | None = None
    cpu_offload_gb: float = 0.0
    enforce_eager: bool = False
    prefix_caching: bool = True
    device: str = "cuda"
    mamba_ssm_cache_dtype: str = "auto"

    @property
    def utilization(self) -> float:
        """The share of the GPU that is asked for: 0.9, from 0.20 on 0.92."""
        if self.gpu_memory_utilization is not None:
            return self.gpu_memory_utilization
        return default_utilization(self.version)

    @property
    def reserves_graphs(self) -> bool:
        """Whether the CUDA graphs' estimate is taken out of the budget (from 0.20)."""
        return self.version >= (0, 20, 0) and not self.enforce_eager and self.device != "cpu"

    def sequences(self, total_gib: float, gpu_name: str = "") -> int:
        """--max-num-seqs of the server (EngineArgs.get_batch_defaults, 0.8-0.33; 256 in V0)."""
        if self.max_num_seqs is not None:
            return self.max_num_seqs
        if self.device == "cpu":
            return 128 * self.tensor_parallel_size * self.pipeline_parallel_size
        if (0, 8, 0) <= self.version <= (0, 8, 3):
            return 1024
        return 1024 if self._large(total_gib, gpu_name) else 256

    def batched_tokens(self, total_gib: float, length: int, gpu_name: str = "") -> int:
        """--max-num-batched-tokens of the server (the same function; V0 without chunks: the whole length)."""
        if self.max_num_batched_tokens is not None:
            return self.max_num_batched_tokens
        if self.version < (0, 8, 0):
            return max(length, 2048)
        tokens = 2048
        if self.device == "cpu":
            tokens = 2048 * self.tensor_parallel_size * self.pipeline_parallel_size
        elif self._large(total_gib, gpu_name):
            tokens = 16384 if total_gib >= 160 and self.version >= (0, 28, 0) else 8192
        return min(tokens, self.sequences(total_gib, gpu_name) * max(1, length))

    def _large(self, total_gib: float, gpu_name: str) -> bool:
        """Whether the GPU gets the defaults of large ones: 70 GiB; an A100 does not, from 0.9 on."""
        excepted = "a100" in gpu_name.lower() and self.version >= (0, 9, 0)
        return total_gib >= 70 and self.version >= (0, 8, 0) and not excepted


def version_of(text: str) -> Version:
    """(0, 8, 5) of 0.8.5.post1. Raises InputError for what is no version."""
    numbers = re.match(r"[vV]?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?", text)
    if numbers is None:
        raise InputError(f"--vllm-version {text}: not a version such as 0.8.5")
    return int(numbers.group(1)), int(numbers.group(2)), int(numbers.group(3) or 0)


def human_int(text: str) -> int:
    """A number as vLLM's flags take it: 8192, 8k (8000), 8K (8192), 25.6k. Raises ValueError."""
    found = _HUMAN.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a number such as 8192, 8k (8000) or 8K (8192)")
    unit = found.group(2)
    if unit in BINARY and "." in found.group(1):
        raise ValueError(f"{text!r}: no decimals with a binary unit")
    return int(float(found.group(1)) * FACTORS[unit])
