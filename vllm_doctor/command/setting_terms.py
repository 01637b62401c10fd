"""How vLLM's messages refer to a setting: the words of its name, or others."""

from __future__ import annotations

from collections.abc import Mapping

# How messages refer to a setting without its name; for other settings the words of the name are searched.
_TERMS: Mapping[str, tuple[str, ...]] = {
    "speculative_config": ("speculative", "spec decod"),
    "speculative_model": ("speculative", "spec decod"),
    "model_loader_extra_config": ("extra config", "tensorizer uri"),
    "quantization": ("quantiz",),
    "kv_transfer_config": ("kv connector", "kv transfer"),
    "enable_lora": ("lora",),
    "enable_expert_parallel": ("expert parallel",),
    "enable_eplb": ("eplb", "expert parallelism load balanc", "expert load balanc"),
    "enable_dbo": ("dbo", "dual batch overlap"),
    "kv_cache_dtype": ("kv cache dtype", "kv cache quant", "fp8", "v scale"),
    "decode_context_parallel_size": ("decode context parallel", "dcp"),
    "data_parallel_rank": ("data parallel rank", "data parallel external lb"),
    "distributed_executor_backend": ("executor backend", " ray"),
    "prefill_context_parallel_size": ("prefill context parallel", "pcp"),
    "kv_sharing_fast_prefill": ("kv sharing fast prefill", "fast prefill"),
    "use_replayssm": ("replayssm", "recoverssm"),
    "ray_workers_use_nsight": ("nsight",),
    "profiler_config": ("profiler",),
    "compilation_config": ("compilation config", "compile range", "maximum cudagraph size"),
    "default_mm_loras": ("default mm lora", "modality specific lora"),
    "ec_transfer_config": ("ec connector", "ec transfer", "ec producer"),
    "reasoning_config": ("reasoning config", "reasoningconfig"),
}
TOO_GENERAL = frozenset({
    "model", "model_tag", "tokenizer", "host", "port", "seed", "dtype", "revision", "load_format", "served_model_name",
    "trust_remote_code", "max_model_len", "gpu_memory_utilization", "config", "convert",
})  # fmt: skip
"""Settings that are essential to a command, or whose names occur in many messages."""

CLASSES_OF_SETTINGS = frozenset({
    "AttentionConfig", "CacheConfig", "CompilationConfig", "ECManagerConfig", "ECTransferConfig", "EPLBConfig",
    "KVEventsConfig", "KVTransferConfig", "KernelConfig", "LoRAConfig", "LoadConfig", "MambaConfig", "MultiModalConfig",
    "ObservabilityConfig", "OffloadConfig", "ParallelConfig", "PoolerConfig", "ProfilerConfig", "SchedulerConfig",
    "StructuredOutputsConfig", "WeightTransferConfig",
})  # fmt: skip
"""vLLM's classes that hold nothing but settings of the user; others also take values from config.json."""


def terms_of(keyword: str) -> tuple[str, ...]:
    """Return the words, in lower case and separated by blanks, by which messages refer to a setting."""
    core = keyword.removeprefix("enable_").removesuffix("_size").replace("_", " ")
    subject = core.removesuffix(" config")
    return _TERMS.get(keyword, (subject if " " in subject else core,))
