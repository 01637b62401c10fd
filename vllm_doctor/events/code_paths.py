"""The engine generation, device and release that file paths of vLLM's code reveal.

The paths are in the calls of a traceback and in front of a record's message. Some of vLLM's folders exist in one
generation of the engine only, a plugin's folders belong to one device, and a build that was installed as an egg has
its release and device in the name of its folder.
"""

from __future__ import annotations

from collections.abc import Iterator

from vllm_doctor.text.patterns import lazy_pattern

_V0 = lazy_pattern(r"vllm/(?:worker/|engine/llm_engine\.py|engine/multiprocessing/engine\.py|core/scheduler\.py"
           r"|engine/async_llm_engine\.py:"
           r"(?:_raise_exception_on_finish|_log_task_completion|run_engine_loop|engine_step|step_async)\b)",
           cues=("vllm/worker/", "llm_engine.py", "multiprocessing/engine.py", "vllm/core/scheduler.py"))  # fmt: skip
# Files that only vllm/v1 has, in the releases from 0.6.6 to 0.33.0.
_OF_V1 = lazy_pattern(
    r"[\[ ](?:async_llm|core|core_client|gpu_model_runner|gpu_worker|kv_cache_utils|loggers)\.py:\d+\] ",
              cues=(".py:",))  # fmt: skip
_EGG = lazy_pattern(r"\bvllm-(?P<release>\d[\w.]{0,40})"
            r"(?:\+[\w.]{0,40}?(?P<device>cpu|xpu|gaudi|rocm|cu)?\d{0,8})?-py3[^/\n]{0,60}\.egg/",
            cues=(".egg/",))  # fmt: skip
_KEPT = ("lmcache", "transformers_modules")
"""Names of folders that identify whose code it is, however deep the file is below them."""
LONGEST_FRAME = 240
"""Maximal characters of one call: a log may contain longer ones, which would slow down a search."""
_DEVICES = {"cpu": "cpu", "xpu": "xpu", "gaudi": "hpu", "rocm": "rocm", "cu": "cuda"}


def facts_in_code_paths(frames: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values of facts that calls reveal; `frames` has one `path:function` per line."""
    if "vllm/v1/" in frames:
        yield "engine", "V1"
    elif _V0.search(frames):
        yield "engine", "V0"
    if "vllm_ascend/" in frames:
        yield "device", "npu"
    egg = _EGG.search(frames)
    if egg:
        yield "vllm_version", egg["release"]
        if egg["device"]:
            yield "device", _DEVICES[egg["device"]]


def is_of_v1(record: str) -> bool:
    """Return whether a file that only V1 has printed a record: `INFO 04-01 14:56:17 [core.py:390] message`."""
    return _OF_V1.search(record) is not None


def frame(path: str, function: str) -> str:
    """Return a call as the patterns of rules see it, as `path:function` of at most LONGEST_FRAME characters."""
    half = LONGEST_FRAME // 2
    return f"{shorten_path(path)[-half:]}:{function[:half - 1]}"


def shorten_path(path: str) -> str:
    """Return a file's name with its last three folders, or from the folder of its egg; a path without more in full."""
    parts = path.split("/")
    begin = max(0, len(parts) - 4)
    if parts[:begin] == [""]:
        return path
    for folder in _KEPT:
        if f"/{folder}/" in path:
            begin = min(begin, len(parts) - 1 - parts[::-1].index(folder))
    if ".egg/" in path:
        begin = min(begin, next(place for place, part in enumerate(parts) if part.endswith(".egg")))
    return "/".join(parts[begin:])
