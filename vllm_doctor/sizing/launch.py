"""The vLLM flags that decide a launch's memory, and their defaults by release and GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vllm_doctor.catalog.release_numbers import ReleaseNumbers, release_numbers
from vllm_doctor.errors import InputError
from vllm_doctor.memory.release_accounting import GRAPHS_RESERVED_SINCE, default_utilization
from vllm_doctor.messages import message
from vllm_doctor.text.size_units import BINARY, FACTORS

_FLAGS = ("tensor_parallel_size", "pipeline_parallel_size", "max_model_len", "max_num_seqs", "max_num_batched_tokens",
          "gpu_memory_utilization", "kv_cache_dtype", "kv_cache_memory_bytes", "dtype", "quantization", "block_size",
          "cpu_offload_gb", "enforce_eager", "mamba_ssm_cache_dtype")
_HUMAN = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)([kmgtKMGT]?)")


@dataclass(frozen=True)
class Launch:
    """The flags by their vLLM names; None means vLLM's default. `max_model_len` 0 means auto: the longest that fits."""

    version: ReleaseNumbers
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
    def flags(self) -> dict[str, str]:
        """Return the flags that differ from vLLM's defaults, with their values as typed."""
        unset = Launch(self.version)
        values = {f"--{name.replace('_', '-')}": getattr(self, name) for name in _FLAGS
                  if getattr(self, name) != getattr(unset, name)}
        typed = {name: "" if value is True else f"{value:g}" if isinstance(value, float) else str(value)
                 for name, value in values.items()}
        if self.max_model_len == 0:
            typed["--max-model-len"] = "auto"
        return typed if self.prefix_caching else {**typed, "--no-enable-prefix-caching": ""}

    @property
    def utilization(self) -> float:
        """Return --gpu-memory-utilization: as given, else the release's default."""
        if self.gpu_memory_utilization is not None:
            return self.gpu_memory_utilization
        return default_utilization(self.version)

    @property
    def release(self) -> str:
        """Return the release as it is printed: `0.20.2`."""
        return ".".join(map(str, self.version))

    @property
    def reserves_graphs(self) -> bool:
        """Return whether the CUDA graph estimate is taken out of the budget (since 0.20)."""
        return self.version >= GRAPHS_RESERVED_SINCE and not self.enforce_eager and self.device != "cpu"

    def sequences(self, total_gib: float, gpu_name: str = "") -> int:
        """Return --max-num-seqs, given or default (EngineArgs.get_batch_defaults, 0.8-0.33; 256 in V0)."""
        if self.max_num_seqs is not None:
            return self.max_num_seqs
        if self.device == "cpu":
            return 128 * self.tensor_parallel_size * self.pipeline_parallel_size
        if (0, 8, 0) <= self.version <= (0, 8, 3):
            return 1024
        return 1024 if self._large(total_gib, gpu_name) else 256

    def batched_tokens(self, total_gib: float, length: int, gpu_name: str = "") -> int:
        """Return --max-num-batched-tokens, given or default (the same function).

        V0 without chunked prefill needs the entire length in one batch.
        """
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
        """Return whether the GPU gets the defaults for large GPUs: 70 GiB or more, since 0.9 not an A100."""
        excepted = "a100" in gpu_name.lower() and self.version >= (0, 9, 0)
        return total_gib >= 70 and self.version >= (0, 8, 0) and not excepted


def parse_release(text: str) -> ReleaseNumbers:
    """Return (0, 8, 5) for `0.8.5.post1`. Raises InputError if the text is not a version."""
    numbers = release_numbers(text)
    if numbers is None:
        raise InputError(message("--vllm-version {version}: not a version such as 0.8.5", version=text))
    return numbers


def human_int(text: str) -> int:
    """Parse a number as vLLM's flags accept it: 8192, 8k (8000), 8K (8192), 25.6k. Raises ValueError."""
    match = _HUMAN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a number such as 8192, 8k (8000) or 8K (8192)")
    unit = match.group(2)
    if unit in BINARY and "." in match.group(1):
        raise ValueError(f"{text!r}: no decimals with a binary unit")
    return int(float(match.group(1)) * FACTORS[unit])
