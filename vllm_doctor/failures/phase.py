"""Which phase of a start the calls of a traceback belong to."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vllm_doctor.failures.frames import PLUGINS, package_of
from vllm_doctor.failures.model import Frame
from vllm_doctor.text.patterns import lazy_pattern

_SERVICE = lazy_pattern(
    r"run_busy_loop|_process_engine_step|run_engine_loop|engine_step|step_with_batch_queue|\b\w{0,60}_stream_generator"
    r"|create_(?:chat_completion|completion|embedding|transcription|score)|add_request")
"""What an engine or an API server calls for requests alone; all of it runs below, also what loads an adapter."""
_PHASES = (
    ("weights", lazy_pattern(r"load_model|_?get_model|load_weights|process_weights_after_loading")),
    # The memory profiling run measures CUDA graphs and runs the model as well.
    ("profiling", lazy_pattern(
        r"determine_num_available_blocks|determine_available_memory|profile_num_available_blocks|profile_run"
        r"|profile_cudagraph_memory")),
    ("graph-capture", lazy_pattern(r"compile_or_warm_up_model|warm_up_model|capture_model|kernel_warmup")),
    ("kv-cache", lazy_pattern(
        r"_?(?:initialize|allocate|init)_kv_cache\w{0,60}|initialize_from_config|initialize_cache|_init_cache_engine")),
    ("distributed-init", lazy_pattern(
        r"init_device|init_(?:worker_)?distributed_environment|ensure_model_parallel_initialized|_init_workers_ray")),
    ("config", lazy_pattern(r"create_(?:engine|model|speculative)_config")),
    ("runtime", lazy_pattern(r"execute_model|sample_tokens|execute_dummy_batch")),
)
"""Functions of engines and workers, the phase that decides first."""


def phase_of(frames: Sequence[Frame]) -> str:
    """Return the phase that vLLM's calls belong to; empty if none of them tells."""
    functions = [frame.function.rpartition(".")[2] for frame in frames if _is_of_vllm(frame.path)]
    if _has(functions, _SERVICE):
        return "runtime"
    return next((phase for phase, names in _PHASES if _has(functions, names)), "")


def _has(functions: Sequence[str], names: re.Pattern[str]) -> bool:
    return any(names.fullmatch(function) for function in functions)


def _is_of_vllm(path: str) -> bool:
    """Return whether a file is vLLM's or that of a plug-in."""
    package = package_of(path)[0]
    return package is not None and (package.startswith("vllm") or package in PLUGINS)
