"""To which part of vLLM a failure belongs: by its message, its calls, and what the user set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from vllm_doctor.catalog.features import feature_of_function, feature_of_path, features
from vllm_doctor.catalog.raised_texts import raised_in
from vllm_doctor.failures import error_lines
from vllm_doctor.failures.frames import LIBRARIES, OFFLINE, PLUGINS, package_of, reads_value, without_dispatchers
from vllm_doctor.failures.model import Candidate, Frame
from vllm_doctor.failures.signature import without_given_names
from vllm_doctor.text.patterns import lazy_pattern

_OPTIONAL = frozenset({"lora", "multimodal", "speculative-decoding", "kv-transfer", "offload", "cuda-graphs",
                       "kv-cache", "moe", "sampling"})
"""Parts that a lack of memory may belong to: elsewhere it is the model's, or that of the whole."""
_IMPORTS = frozenset({"ImportError", "ModuleNotFoundError"})
_VLLM_MODULE = lazy_pattern(
    r"(?:No module named|\bmodule) '(?:vllm)[.']|"
    r"cannot import name '[^']+' from '?(?:partially initialized module )?'?vllm[.']")
_MISSING_MODULE = lazy_pattern(r"No module named|cannot import name|\bmodule '[\w.]{1,200}' has no attribute '")
_ENDED = lazy_pattern(r"(Killed|Segmentation fault|Aborted|Bus error)\b.*", re.DOTALL)
_OF_CALLERS = frozenset({"older", "newer", "range", "moved", "v0-engine", "plugin-older"})
_OF_INSTALLATION = frozenset({"incomplete", "shadowed", "not-installed", "dependency"})
_PASSES_ON = ("uvicorn/", "starlette/", "fastapi/", "anyio/", "vllm/entrypoints/", "vllm/engine/arg_utils",
               "vllm/config",
              "vllm/v1/engine/async_llm", "ray/", "argparse.py")
_CHECKS_VALUES = "pydantic/"
"""A library that checks the values of all parts: its calls decide where no other call does."""
_LAUNCHES = lazy_pattern(r"triton/(?:runtime/(?:jit|autotuner)\.py|backends/\w+/driver\.py)")
"""Files of Triton that start a compiled kernel: what then fails is the caller's."""
_LIKE_VLLM = lazy_pattern(rf"^(?:{'|'.join(sorted({*PLUGINS, 'vllm_omni'}))})/(?:core/|worker/|runner/)?")
"""Packages whose folders have the names of vLLM's."""
_MIRRORED = ("vllm/v1/", "vllm/", "vllm/model_executor/")
_CONTAINERS = frozenset({"config", "api-server", "model-class"})
"""Parts whose files raise the errors of other parts as well."""
_SHARED = frozenset({None, "model-class", "platform"})
"""Parts whose files have functions of other parts."""
_SHARED_FILES = lazy_pattern(
    r"(?:vllm/(?:v1/)?|vllm_\w+/|tpu_(?:inference|commons)/)(?:worker|runner|models|model_executor)/")
_OF_DRAFT_MODELS = frozenset({None, "model-class", "model-loading", "compilation"})
"""Parts that speculative decoding uses for its own model as well."""
_GENERAL = frozenset({"request", "environment", "platform", "config"})
_LAST_CALLS = 3  # calls whose names and source lines are read where nothing else decides
_SHARED_BY_FEATURES = frozenset({"api-server", "attention"})
"""Parts whose source lines name the feature that they serve."""
_ALL_NAMES = " Supported architectures: "  # names of all features stand behind it
_ADDRESS = lazy_pattern(r"https?://\S{1,400}")
_PARAMETERS = lazy_pattern(r"\b(?:Sampling|Pooling|BeamSearch)Params\(\w.*", re.DOTALL)
"""Parameters of a request with all their fields, whatever the message says of them."""
_FIRST_LINES = 1200  # characters of a message that are asked for words
_WRAPPING = frozenset({"vllm/tracing/otel.py", "flashinfer/api_logging.py"})
"""Files whose functions are put around calls of all parts, and are called like `sync_wrapper`."""


def feature_of(candidate: Candidate, *, kind: str, has_settings: bool, direction: str = "",
               chained: Sequence[Candidate] = ()) -> str | None:
    """Return the id of the feature; None if it cannot be determined.

    `chained` are the other exceptions of its traceback, whose calls decide where nothing else does.

    With `has_settings`, vLLM's own start is in the log, so that it is vLLM that lacks a missing module.
    `direction` is derived from the names in vLLM's releases (`catalog.names`).
    """
    message = _ADDRESS.sub("", _PARAMETERS.sub("", candidate.message[:_FIRST_LINES].partition(_ALL_NAMES)[0]))
    if candidate.shape == "fatal":
        message = _ENDED.sub(r"\1", message)  # behind it stands the command
    text = without_given_names(f"{candidate.introduction} {candidate.exception or ''}: {message}")
    by_calls = _by_calls(without_dispatchers(candidate.frames) if candidate.has_cut_calls else candidate.frames)
    if by_calls == "api-server" and any(package_of(frame.path)[1].startswith(OFFLINE) for frame in candidate.frames):
        by_calls = None
    if direction in _OF_CALLERS and not _is_of_library(candidate.frames):
        return "other-software"
    if direction in _OF_INSTALLATION:
        return "environment"
    if (error_lines.is_of_device_memory(text) or "OutOfMemoryError" in text) and "due to the node" not in text:
        return by_calls if by_calls in _OPTIONAL else None
    if "Free memory on device" in text:
        return None
    if candidate.exception in _IMPORTS or (_MISSING_MODULE.search(text) and not reads_value(candidate.frames)):
        return _of_import(candidate, text, has_settings=has_settings)
    strong = _by_words(text)
    if (kind == "other-software" and by_calls is None and strong not in {"environment", "platform"}
            and _is_of_application(candidate)):
        return "other-software"
    if strong is not None and not (strong == "environment" and by_calls in {"kv-transfer", "sampling"}):
        return strong
    if kind == "request":
        return "request"
    if kind == "other-software" and by_calls in {None, "api-server"}:
        return "other-software"
    if by_calls is not None:
        return (_by_code(candidate.frames[-1]) or by_calls) if by_calls in _SHARED_BY_FEATURES else by_calls
    if candidate.native:
        return _by_symbols(candidate.native)
    by_text = _by_raised_text(candidate)
    if by_text is not None and by_text not in _CONTAINERS:
        return by_text
    return (_by_module(candidate.module) or _by_hints(text) or by_text or _by_source(candidate.frames)
            or next((found for other in chained if (found := _by_calls(other.frames)) is not None), None))


def _is_of_application(candidate: Candidate) -> bool:
    """Return whether a program that uses vLLM raised it, without a call of vLLM."""
    packages = [package_of(frame.path)[0] for frame in candidate.frames]
    if not packages:
        return candidate.shape == "fatal" and bool(candidate.introduction)
    return "vllm" not in packages and packages[-1] is not None


def _is_of_library(frames: Sequence[Frame]) -> bool:
    """Return whether a library that vLLM uses raised it."""
    return bool(frames) and package_of(frames[-1].path)[0] in LIBRARIES


def _by_code(frame: Frame) -> str | None:
    """Return the feature that the source line of a call names."""
    found = _by_words(frame.code)
    return None if found in _GENERAL else found


def _by_symbols(symbols: str) -> str | None:
    """Return the feature of native calls, of which every library has some."""
    return next((one.id for one in features() if one.id not in _GENERAL
                 and any(word.search(symbols) for word in (*one.words, *one.hints))), None)


def _of_import(candidate: Candidate, text: str, *, has_settings: bool) -> str | None:
    """Return the feature of an import that fails."""
    if _VLLM_MODULE.search(text):
        importer = package_of(candidate.frames[-1].path)[0] if candidate.frames else None
        is_own = importer == "vllm" if candidate.frames else has_settings
        return "environment" if is_own else "other-software"
    strong = _by_words(text)
    if strong is not None:
        return strong
    if candidate.frames and package_of(candidate.frames[-1].path)[0] is None:
        return "other-software"
    return "environment"


def _by_words(text: str) -> str | None:
    return next((one.id for one in features() if any(word.search(text) for word in one.words)), None)


def _by_module(module: str) -> str | None:
    """Return the feature that the module of an exception's class belongs to."""
    return feature_of_path(module.replace(".", "/") + "/") if module else None


def _by_raised_text(candidate: Candidate) -> str | None:
    """Return the feature of the file of vLLM that raises the message, for a log without a call of vLLM."""
    if any(package_of(frame.path)[0] == "vllm" for frame in candidate.frames):
        return None
    path = raised_in(candidate.message)
    return None if path is None else feature_of_path(path)


def _by_hints(text: str) -> str | None:
    return next((one.id for one in features() if any(word.search(text) for word in one.hints)), None)


def _by_source(frames: Iterable[Frame]) -> str | None:
    """Return the feature that the deepest calls name: their functions and source lines."""
    for frame in reversed(tuple(frames)[-_LAST_CALLS:]):
        package, file = package_of(frame.path)
        if package in {"python", None} or file.startswith(_PASSES_ON):
            continue
        text = f"{frame.function}: {frame.code} {frame.function.replace('_', ' ')}"
        found = _by_words(text) or _by_hints(text)
        if found is not None:
            return found
    return None


def _of_file(file: str, function: str) -> str | None:
    """Return the feature of a call; a plug-in's file is looked up under the name that it has in vLLM."""
    found = feature_of_path(f"{file}:{function}")
    plugin = _LIKE_VLLM.match(file)
    if plugin is None:
        return found
    rest = f"{file[plugin.end():]}:{function}"
    of_vllm = next((one for one in (feature_of_path(root + rest) for root in _MIRRORED) if one is not None), None)
    return of_vllm or found or "platform"


def _of_call(file: str, function: str) -> str | None:
    """Return the feature of a call: of its file, or of its function in a file that several parts share."""
    found = _of_file(file, function)
    return found if found not in _SHARED or not _SHARED_FILES.match(file) else feature_of_function(function) or found


def _by_calls(frames: Sequence[Frame]) -> str | None:
    """Return the feature of the deepest call that has one, or of speculative decoding whose model it belongs to."""
    found = _by_deepest_call(frames)
    if found in _OF_DRAFT_MODELS and any(
            _of_file(package_of(frame.path)[1], frame.function) == "speculative-decoding" for frame in frames):
        return "speculative-decoding"
    return found


def _by_deepest_call(frames: Sequence[Frame]) -> str | None:
    """Return the feature of the deepest call that has one; functions that only forward calls have none."""
    fallback = None
    launched = None
    checked = None
    is_in_worker = False
    for frame in reversed(frames):
        package, file = package_of(frame.path)
        if file.startswith(_CHECKS_VALUES):
            checked = _of_file(file, frame.function)
            continue
        if file.startswith(_PASSES_ON):
            if not is_in_worker:  # a worker's fault is not that of the interface which it was called by
                fallback = fallback or _of_file(file, frame.function)
            continue
        is_in_worker = is_in_worker or _SHARED_FILES.match(file) is not None
        if package == "python" or (file in _WRAPPING and frame.function.endswith("_wrapper")):
            continue
        if _LAUNCHES.match(file):
            launched = "compilation"
            continue
        found = _of_call(file, frame.function)
        if (found == "model-class" and file.startswith("vllm/model_executor/layers/")
                and fallback in {None, "model-class"}):
            fallback = found
            continue
        if found is not None:
            return found if fallback is None or fallback == "model-class" else fallback
    return fallback or launched or checked
