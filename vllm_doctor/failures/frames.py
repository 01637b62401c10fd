"""Calls of tracebacks: Python's, pytest's; whose code each is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from vllm_doctor.failures.model import Frame, Place
from vllm_doctor.text.patterns import lazy_pattern

_CALL = lazy_pattern(
    r'(?:^|[\s|│])File "(?P<path>[^"]{1,400})"(?:, line (?:(?P<line>\d{1,9})|\.{3}))?'
    r'(?:, in (?P<function>[\w<>.]{1,200})>?)?')
_CUT = lazy_pattern(
    r'^(?P<path>[~/.\w][^\s":]{0,300}\.py)", line (?P<line>\d{1,9}), in (?P<function>[\w<>.]{1,200})')
"""Where a paste begins within a path."""
_PYTEST = lazy_pattern(
    r"^(?P<path>[\w./-]{1,300}\.py):(?P<line>\d{1,9}): (?:in (?P<function>[\w<>]+)|(?P<error>[A-Z]\w+))\s*$")
_SITE = lazy_pattern(r"(?:site|dist)-packages/(?P<rest>(?P<package>[A-Za-z_][\w.-]*).*)")
_EGG = lazy_pattern(r"\.egg/(?P<rest>(?P<package>[A-Za-z_]\w*).*)")
_STDLIB = lazy_pattern(
    r"(?:lib(?:64)?/python3(?:\.\d+)?"
    r"|(?:[Pp]ython3?\d*|(?:mini|ana)conda3?|miniforge3?)(?:/envs/[^/]{1,80})?/Lib)/(?P<rest>.*)")
_REMOTE_CODE = lazy_pattern(r"(?P<rest>transformers_modules/.*)")
PLUGINS = frozenset({
    "vllm_ascend", "vllm_gaudi", "vllm_spyre", "vllm_metal", "vllm_metax", "vllm_kunlun", "vllm_fl", "vllm_musa",
    "vllm_mlu", "vllm_rbln", "vllm_neuron", "vllm_tpu", "tpu_inference", "tpu_commons",
})
"""Packages for other hardware, which replace parts of vLLM."""
# Packages that people run from a checkout or install with `pip install --target`, by the folder of their modules.
_CHECKOUTS = (
    *sorted(PLUGINS), "vllm_omni", "vllm_gguf_plugin", "vllm", "lmcache_vllm", "lmcache", "fastchat", "flashinfer",
    "transformers",
    "torch_npu", "torch", "triton", "ray", "verl", "openrlhf", "trl", "swift", "lighteval", "lm_eval", "sglang",
    "xinference", "mineru", "llamafactory", "unsloth", "nemo_rl", "dynamo", "nixl", "mooncake", "deepspeed",
    "accelerate", "outlines", "xgrammar", "compressed_tensors", "bitsandbytes", "autoawq", "gptqmodel", "aiter",
    "huggingfaceserver", "huggingface_hub", "mistral_common", "prometheus_client", "safetensors",
    "deep_ep", "deep_gemm", "tritonserver",
)  # fmt: skip
_CYTHON = lazy_pattern(r"^(?:python/)?(?P<rest>(?P<package>[a-z_]\w*)/.*\.(?:pyx|pxi))$")
_LONGEST = 1_000  # characters of a path; its end is kept
_CUT_INSTALLED = lazy_pattern(
    r"(?P<rest>(?P<package>accelerate|aiohttp|anyio|compressed_tensors|fastapi|flash_attn|flashinfer|httpx|huggingface_hub"
    r"|kernels(?=/(?:cli|deps|layer|layers|locking|metadata|status|utils|variants|versions|_\w{1,20})(?:/|\.py))|mistral_common|numba|numpy"
    r"|openai|openai_harmony|peft|PIL|pydantic|pydantic_core|pydantic_settings|requests|safetensors|scipy|sentence_transformers"
    r"|starlette|timm|tokenizers|torchao|torchaudio|torchvision|urllib3|uvicorn|uvloop|xformers|zmq)/.{1,300}\.pyi?)$")
"""How a path begins of which a paste cut off what is before the package."""
_CHECKOUT = lazy_pattern(rf"(?:^|/)(?P<rest>(?P<package>{'|'.join(_CHECKOUTS)})/.*\.py)$")
_SCRIPT_OF_CHECKOUT = lazy_pattern(
    r"(?:^|/)vllm(?:-workspace)?/(?:examples|tests)/(?!.{0,300}/vllm/)[\w./-]{1,300}\.py$")
"""A script beside vLLM's package, which a user runs or copies."""
_ENGINE_CLASSES = {  # by the file of vLLM that a script calls
    "LLM": lazy_pattern(r"vllm/entrypoints/(?:\w+/){0,2}(?:llm|offline\w*)\.py"),
    "AsyncEngineArgs": lazy_pattern(r"vllm/(?:v1/)?engine/async_llm(?:_engine)?\.py"),
}
_LEAVES_OUT = 4  # folders of a path of the user's own that are shown
LIBRARIES = frozenset({
    "transformers", "torch", "triton", "flashinfer", "tokenizers", "huggingface_hub", "safetensors", "xgrammar",
    "outlines", "outlines_core", "compressed_tensors", "bitsandbytes", "ray", "numpy", "mistral_common", "flash_attn",
    "deep_gemm", "deep_ep", "torchvision", "torchaudio", "xformers", "aiter", "torch_npu", "cupy", "openai_harmony",
    "numba", "llguidance", "sentencepiece", "tiktoken", "PIL", "librosa", "cv2", "zmq",
    "prometheus_client", "kernels", "intel_extension_for_pytorch", "torch_xla", "habana_frameworks", "tvm_ffi",
})  # fmt: skip
"""Packages that vLLM itself uses."""
PLUMBING = frozenset({"python", "starlette", "fastapi", "uvicorn", "anyio", "uvloop", "asyncio", "click"})
"""Packages that only pass calls on: an exception is seldom theirs to answer for."""
_DECODERS = ("<frozen codecs>", "codecs.py", "encodings/", "json/", "ast.py", "base64.py", "configparser.py",
             "tomllib/", "csv.py", "urllib/parse.py")
"""Modules of Python that raise an error about the text they read."""


RAISES_TYPE_ERROR = "raise TypeError("
"""How the source line begins of a call that refuses the type of a value itself."""
OFFLINE = ("vllm/entrypoints/llm.py", "vllm/entrypoints/offline", "vllm/entrypoints/common/offline.py")
"""What scripts call, which start no API server."""
_DISPATCHERS = frozenset({"vllm/entrypoints/cli/main.py", "vllm/entrypoints/cli/serve.py"})
"""What selects the command of `vllm` and calls it."""
_READERS = frozenset({"__getattr__", "__getattribute__"})


def call(text: str) -> Frame | None:
    """Return the call that a line of a traceback shows."""
    if ".py" not in text and 'File "' not in text:
        return None
    match = _CALL.search(text) or _CUT.match(text) or _PYTEST.match(text)
    if match is None:
        return None
    known = match.groupdict()
    return Frame(known["path"], int(known.get("line") or 0), known.get("function") or "")


@lru_cache(maxsize=4096)
def package_of(path: str) -> tuple[str | None, str]:
    """Return the package a file belongs to and its path from there; None and the path's end for the user's own."""
    path = path[-_LONGEST:].replace("\\", "/")
    found = list(_EGG.finditer(path)) or list(_SITE.finditer(path))
    if found:
        rest = found[-1]["rest"]
        return rest.partition("/")[0].removesuffix(".py"), rest
    for pattern in (_REMOTE_CODE, _STDLIB):
        match = pattern.search(path)
        if match:
            return ("python" if pattern is _STDLIB else "transformers_modules"), match["rest"]
    match = None if _SCRIPT_OF_CHECKOUT.search(path) else _CHECKOUT.search(path)
    while match:  # /home/me/vllm/vllm/config.py: the innermost folder of a package
        inner = _CHECKOUT.search(match["rest"].partition("/")[2])
        if inner is None or inner["package"] != match["package"]:
            return match["package"], match["rest"]
        match = inner
    match = _CUT_INSTALLED.match(path) or _CYTHON.match(path)
    if match:
        return match["package"], match["rest"]
    if path.startswith(("<frozen ", "<string>")):
        return "python", path
    leaves = path.split("/")
    return None, path if leaves[:-_LEAVES_OUT] == [""] else "/".join(leaves[-_LEAVES_OUT:])


def origin(frame: Frame) -> Place:
    """Return the location of a call."""
    package, file = package_of(frame.path)
    return Place(package, file, frame.function, frame.line)


def without_lookup(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Return the calls up to the code that reads an attribute which a PyTorch module does not have.

    Also where a function of the user's own reads an attribute of a configuration of transformers, or calls Python's
    standard library.
    """
    if len(frames) > 1 and frames[-1].function == "__getattr__" and package_of(frames[-1].path)[0] == "torch":
        return frames[:-1]
    end = len(frames)
    while end > 1 and _serves_caller(frames[end - 1]):
        end -= 1
    package, file = package_of(frames[end - 1].path) if frames else (None, "")
    is_own = package is None and frames and frames[end - 1].function != "<module>" and not _is_launcher(file)
    return frames[:end] if end < len(frames) and is_own else frames


def without_contextlib(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Return the calls without those of contextlib at the end: the arguments that they pass on do not fit."""
    end = len(frames)
    while end > 1 and package_of(frames[end - 1].path)[1] == "contextlib.py":
        end -= 1
    return frames[:end]


def without_dispatchers(frames: Sequence[Frame]) -> list[Frame]:
    """Return the calls without those that only select what a command of vLLM does."""
    return [frame for frame in frames if package_of(frame.path)[1] not in _DISPATCHERS]


def _serves_caller(frame: Frame) -> bool:
    """Return whether a call only looks something up for its caller."""
    package = package_of(frame.path)[0]
    return package == "python" or (package == "transformers" and frame.function in _READERS)


def deepest(frames: Sequence[Frame], package: str) -> Place | None:
    """Return the deepest call in a package's code."""
    return next((origin(frame) for frame in reversed(frames) if package_of(frame.path)[0] == package), None)


def reads_value(calls: Sequence[Frame]) -> bool:
    """Return whether the last call of a library reads an attribute of torch whose name is a value, such as a dtype."""
    return any("getattr(torch," in call.code for call in calls[-2:])  # torch's __getattr__ may be below


def caller_of(frames: Sequence[Frame]) -> str | None:
    """Return the file that called vLLM, where that is neither vLLM nor what runs programs; None where none did."""
    caller = _caller(frames)
    return None if caller is None else caller[1]


def is_called_by_own_code(frames: Sequence[Frame]) -> bool:
    """Return whether code that belongs to no package called vLLM."""
    caller = _caller(frames)
    return caller is not None and caller[0] is None


def _caller(frames: Sequence[Frame]) -> tuple[str | None, str] | None:
    packages = [package_of(frame.path) for frame in frames]
    first = next((at for at, (package, _) in enumerate(packages) if package == "vllm"), len(packages))
    for package, file in reversed(packages[:first]):
        if package not in PLUMBING and package != "ray" and not file.endswith(("bin/vllm", "runpy.py")):
            return package, file
    return None


def passes_errors_on(origin: Place) -> bool:
    """Return whether the code that raised usually only passes on the error of another process or call."""
    return origin.package in PLUMBING and not is_decoder(origin)


def is_decoder(origin: Place) -> bool:
    """Return whether a module of Python raised an error about the text that it reads."""
    return origin.package == "python" and origin.file.startswith(_DECODERS)


def engine_class(frames: Sequence[Frame]) -> str | None:
    """Return the class that the user's own code starts vLLM with: LLM or AsyncEngineArgs; None where it starts none."""
    if not is_called_by_own_code(frames):
        return None
    entry = next((origin(frame).file for frame in frames if package_of(frame.path)[0] == "vllm"), "")
    return next((name for name, files in _ENGINE_CLASSES.items() if files.fullmatch(entry)), None)


def own_frame(frames: Sequence[Frame]) -> Place | None:
    """Return the deepest call in code of the user's own or of a plug-in, that is neither vLLM's nor its libraries'."""
    for frame in reversed(frames):
        package, file = package_of(frame.path)
        if package == "transformers_modules" or (package is None and not _is_launcher(file)):
            return origin(frame)
    return None


def _is_launcher(file: str) -> bool:
    """Return whether a file is a console script or Python's own input."""
    return "/bin/" in f"/{file}" or file.startswith("<") or not file.endswith(".py")
