"""The change of settings that a refusal asks for or that satisfies it."""

from __future__ import annotations

import time

import pytest

from vllm_doctor.command.refusal_advice import advice

_RELEASE = "0.25.1"


@pytest.mark.parametrize(("sentence", "given", "change"), [
    ("Please set `--mamba-backend flashinfer`, or omit `--mamba-backend`.", "", ("--mamba-backend", "flashinfer")),
    ("Please use --no-async-scheduling or select a different all2all backend.", "async_scheduling",
     ("--no-async-scheduling", True)),
    ("x requires more KV heads. Increase `--tensor-parallel-size` or set `--decode-context-parallel-size 1`.",
     "tensor_parallel_size decode_context_parallel_size", ("--decode-context-parallel-size", "1")),
    ("Cannot use --renderer-num-workers > 1 with the cache. Please set --renderer-num-workers 1 (the default).",
     "renderer_num_workers", ("--renderer-num-workers", "1")),
    ("it requires statistics; remove --disable-log-stats to enable per-request metrics.", "disable_log_stats",
     ("--disable-log-stats", None)),
    ("Please do not specify `--enable-prompt-embeds`.", "enable_prompt_embeds", ("--enable-prompt-embeds", None)),
    ("VLLM_ALLOW_RUNTIME_LORA_UPDATING cannot be used with api_server_count > 1", "api_server_count enable_lora",
     ("--api-server-count", None)),
    ("data_parallel_size_local (4) must be <= data_parallel_size (2)", "data_parallel_size data_parallel_size_local",
     ("--data-parallel-size-local", "2")),
    ("data_parallel_size_local (4) must be <= data_parallel_size (2)", "data_parallel_size", ("--data-parallel-size", "4")),
    ("long_prefill_token_threshold (9) cannot be greater than the max_model_len (8).", "long_prefill_token_threshold",
     ("--long-prefill-token-threshold", "8")),
    ("max_num_partial_prefills (0) must be greater than or equal to 1.", "max_num_partial_prefills",
     ("--max-num-partial-prefills", "1")),
    ("tp_size=4 must be divisible by dcp_size=3.", "tensor_parallel_size decode_context_parallel_size",
     ("--tensor-parallel-size", "3")),
    ("max_num_seqs (0) must be positive.", "max_num_seqs", ("--max-num-seqs", "1")),
    ("data_parallel_size (4) must be less than 4", "data_parallel_size", ("--data-parallel-size", "3")),
    ("gpu_memory_utilization (1.2) must be at most 1.0", "gpu_memory_utilization", ("--gpu-memory-utilization", "1")),
    ("data_parallel_rank (4) must be in the range [0, 4)", "data_parallel_rank", ("--data-parallel-rank", "3")),
    ("enable_expert_parallel must be True to use EPLB.", "enable_eplb", ("--enable-expert-parallel", True)),
    ("numa_bind_nodes and numa_bind_cpus require numa_bind=True.", "numa_bind_nodes", ("--numa-bind", True)),
    ("data_parallel_external_lb can only be set when data_parallel_size > 1", "data_parallel_external_lb data_parallel_size",
     ("--data-parallel-external-lb", None)),
    ("api_server_count can't be set in headless mode", "api_server_count headless", ("--api-server-count", None)),
    ("Async scheduling is not supported with pipeline-parallel-size > 1.", "async_scheduling pipeline_parallel_size",
     ("--async-scheduling", None)),
    ("Please use VLLM_RAY_DP_PACK_STRATEGY=strict instead.", "", ("VLLM_RAY_DP_PACK_STRATEGY", "strict")),
    ("Make sure to set `VLLM_RAY_DP_PACK_STRATEGY` to `strict` or `fill`", "", ("VLLM_RAY_DP_PACK_STRATEGY", "strict")),
    ("Set --data-parallel-size-local to 2.", "", ("--data-parallel-size-local", "2")),
    ("torch_shm is known to fail without VLLM_WORKER_MULTIPROC_METHOD set to spawn", "mm_tensor_ipc",
     ("VLLM_WORKER_MULTIPROC_METHOD", "spawn")),
    ("decode_context_parallel_size=4 must be 1 or equal to tensor_parallel_size=2 when using NixlConnector.",
     "decode_context_parallel_size tensor_parallel_size", ("--decode-context-parallel-size", "1")),
    ("Unable to use nsight profiling unless workers run with Ray.", "ray_workers_use_nsight",
     ("--ray-workers-use-nsight", None)),
    ("Default modality-specific LoRA(s) were provided for a non multimodal model", "default_mm_loras",
     ("--default-mm-loras", None)),
    ("sampling is unavailable. Unset VLLM_USE_FLASHINFER_SAMPLER=1.", "", ("VLLM_USE_FLASHINFER_SAMPLER", None)),
])
def test_change(sentence: str, given: str, change: tuple[str, str | bool | None]) -> None:
    assert advice(sentence, tuple(given.split()), _RELEASE) == change


@pytest.mark.parametrize("sentence", [
    "The model is not multimodal.",
    "You can only use --foo bar.",
    "max_model_len must be a positive integer, got str: foo.",
    "x requires `--otlp-traces-endpoint` to be set.",
    "Please set --load-format nonsense",
    "Set VLLM_MAX_IMAGE_PIXELS to increase this limit.",
    "Set `--chat-template` to replace it.",
    "or explicitly set VLLM_USE_V1=0 or 1 and report this issue on Github.",
    "or set VLLM_KV_CACHE_LAYOUT to a dense layout.",
    "gpu_memory_utilization (1.2) must be less than 1.0.",  # no fraction is the next one
    "gpu_memory_utilization (-1) must be positive.",
])
def test_no_change(sentence: str) -> None:
    assert advice(sentence, ("max_model_len",), _RELEASE) is None


@pytest.mark.parametrize(("sentence", "change"), [
    ("disable_any_whitespace is only supported for xgrammar and guidance backends.",
     ("--profiler-config.disable_any_whitespace", None)),
    ("`use_inductor_graph_partition` cannot be used with it", ("--profiler-config.use_inductor_graph_partition", None)),
    ("chrome_trace output requires proton_data='trace'", ("--profiler-config.proton_data", "trace")),
    ("Cannot set both `pooling_type` and `seq_pooling_type`", ("--profiler-config.pooling_type", None)),
    ("use_inductor_graph_partition is only supported with torch>=2.9. Set use_inductor_graph_partition=False instead.",
     ("--profiler-config.use_inductor_graph_partition", "False")),
])
def test_key_of_json(sentence: str, change: tuple[str, str | bool | None]) -> None:
    assert advice(sentence, ("profiler_config",), _RELEASE, "--profiler-config") == change


@pytest.mark.parametrize("sentence", [
    "max_num_batched_tokens (99999999999971) must evenly divide max_num_seqs (99999999999999)",
    "tensor_parallel_size (99999999999959) must be divisible by decode_context_parallel_size (77777777777777)",
])
def test_no_divisor_is_searched_among_numbers_that_no_setting_has(sentence: str) -> None:
    begin = time.process_time()
    advice(sentence, ("max_num_batched_tokens", "decode_context_parallel_size"), _RELEASE)
    assert time.process_time() - begin < 1
