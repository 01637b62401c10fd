"""What kind of failure it is: who has to change something."""

from __future__ import annotations

import re

from vllm_doctor.failures import error_lines
from vllm_doctor.failures.frames import LIBRARIES, PLUGINS, is_decoder, package_of
from vllm_doctor.failures.model import Candidate, Place
from vllm_doctor.failures.signature import without_given_names
from vllm_doctor.text.patterns import lazy_pattern

_RESOURCE = lazy_pattern(
    r"out of memory|signal 9 \(|No space left|Cannot allocate memory|Too many open files|\bOOM|oom-kill|Killed\b"
    r"|Disk quota"
    r"|KV cache (?:is|memory)|cache blocks|Free memory on device|larger than the (?:available|maximum number)"
    r"|CUBLAS_STATUS_ALLOC_FAILED|nrt_tensor_allocate\b.{0,40}Allocation Failure"
    r"|thread: Resource temporarily|can't start new thread|low on memory", re.IGNORECASE)
_REJECTS = lazy_pattern(
    r"(?:not (?:yet |currently )?|only )(?:supported|compatible)|does not (?:yet )?support|incompatible|\brequires\b"
    r"|must be\b")
_LACKS = lazy_pattern(
    r"out of memory|No space left|larger than the|Free memory|No available memory|Cannot allocate|cache blocks",
    re.IGNORECASE)
_ENVIRONMENT = lazy_pattern(
    r"undefined symbol|cannot open shared object|DLL load failed|No module named|cannot import name|GLIBC|nvcc"
    r"|CUDA_HOME"
    r"|not found in \$?PATH|command not found|Permission denied|driver(?!_worker)|no kernel image|libcuda"
    r"|CUDA (?:version|capability)"
    r"|Failed to infer devi|Device string must not be empty|unsatisfied condition|Address already in use|EADDRINUSE"
    r"|Connection refused|Read-only file system|Error building extension|ninja|exec format|not compiled with"
    r"|No supported CUDA architectures|executable file not found|only supports Linux"
    r"|failed to import (?:python )?'?vllm\b"
    r"|CMake Error|No matching distribution|No solution found when resolving|illegal instruction"
    r"|writ(?:e|ing) in your cache",
    re.IGNORECASE)
_ENVIRONMENT_CLASSES = frozenset({"ImportError", "ModuleNotFoundError", "PermissionError"})
_PATH_CLASSES = frozenset({"FileNotFoundError", "NotADirectoryError", "IsADirectoryError"})
_RESOURCE_CLASSES = frozenset({"OutOfMemoryError", "MemoryError", "OutOfResources"})
_SIGNATURES = lazy_pattern(
    r"(?<!\.forward\(\) )(?:got (?:an unexpected keyword argument|multiple values for)"
    r"|missing \d+ required (?:positional|keyword))"
    r"|Can't instantiate abstract class (?!\w*Worker\b)")
"""Python's messages about a call whose signature differs between releases."""
_BUGS = frozenset({
    "AttributeError", "TypeError", "KeyError", "IndexError", "AssertionError", "UnboundLocalError", "NameError",
    "ZeroDivisionError", "RecursionError", "StopIteration", "NotImplementedError", "InductorError",
    "BackendCompilerFailed", "InternalTorchDynamoError", "UnicodeDecodeError",
})  # fmt: skip
_REFUSALS = frozenset({"ValueError", "ValidationError", "NotImplementedError", "ArgumentError", "VLLMValidationError"})
_OF_PYTHON = lazy_pattern(
    r"(?:too many|not enough) values to unpack|^\s*substring not found|is not in (?:list|tuple)|x not in (?:list|tuple)"
    r"|invalid literal for int\(\)|could not convert string to float"
    r"|(?:max|min)\(\) (?:arg|iterable argument) is (?:an )?empty|math domain error|I/O operation on closed file"
    r"|shape mismatch: value tensor|could not be broadcast|cannot be broadcast")
"""What Python and its array libraries say with a ValueError: a fault of the code, and no rejection of a setting."""
_WEB_SERVERS = frozenset({"starlette", "fastapi", "uvicorn"})
"""Packages that pass requests to vLLM's API server and its answers to the clients."""
_FRAMEWORKS = ("ray/llm/", "ray/serve/")
"""Parts of libraries that are programs which use vLLM."""
_REQUEST = lazy_pattern(
    r"\b4\d\d\b.{0,60}(?:Bad Request|Not Found|Unauthorized|Unprocessable)"
    r"|(?:Error code:|API Error:|API request failed with status code) 4\d\d|^4\d\d\b"
    r"|\"type\": ?\"(?:BadRequest|NotFound|UnprocessableEntity)\w{0,20}Error\"|\blitellm\.BadRequestError: ",
    re.IGNORECASE)
_CLIENT_ERRORS = frozenset({"BadRequestError", "NotFoundError", "UnprocessableEntityError", "AuthenticationError"})
_ANY_STATUS = frozenset({None, "HTTPError", "HTTPStatusError", "APIStatusError", "ClientResponseError"})
"""Exceptions of clients for any status; the message has it."""
_OF_OTHER_SERVICE = lazy_pattern(
    r"for url: https?://(?:[\w-]{1,60}\.){0,4}"
    r"(?:modelscope\.(?:cn|ai|com)|huggingface\.co|hf\.co|github\.com|openai\.com)/")
"""How a client's exception names the address of a service that is no vLLM server."""
_READS_BODY = lazy_pattern(r"starlette/(?:requests|formparsers)\.py")
"""What decodes a request's body, as JSON or as a form."""
_CHECKS_SETTINGS = ("vllm/engine/arg_utils.py", "vllm/config/", "vllm/entrypoints/cli/",
                    "vllm/entrypoints/openai/cli_args.py")
"""What checks settings with assertions, whose messages are for the user."""
_OF_SETTINGS = lazy_pattern(r"\d{1,4} validation errors? for \w*(?:Config|EngineArgs)\b", cues=(" validation error",))
"""How pydantic begins the message about a class of vLLM's settings."""
_INSTALLERS = frozenset({"pip", "setuptools", "pyproject_hooks"})
"""Packages that build and install other packages."""
REQUEST_FILES = lazy_pattern(
    r"vllm/(?:entrypoints/(?:openai|pooling|anthropic|serve)/(?!api_server|cli_args|.*launcher)|renderers/|inputs/"
    r"|entrypoints/(?:chat_utils|llm|renderer)\.py|sampling_params|pooling_params|v1/engine/(?:input_)?processor"
    r"|v1/engine/async_llm|tokenizers/mistral|tool_parsers/)")
_PARSES_TRAFFIC = lazy_pattern(
    r"vllm/(?:entrypoints/(?!cli/|launchers/|utils)|renderers/|inputs/|tool_parsers/|reasoning/|parser/|v1/"
    r"|tokenizers/mistral)")
"""What parses requests and the model's answers; other parts of vLLM parse files and settings."""


def kind_of(candidate: Candidate, origin: Place | None, vllm_frame: Place | None, own: Place | None, *,
            in_service: bool) -> str:
    """Return refusal, bug, library, environment, resource, request, other-software or unknown."""
    name, message = candidate.exception or "", without_given_names(f"{candidate.introduction} {candidate.message}")
    if is_bad_request(candidate) or _is_malformed_body(candidate):
        return "request"
    if candidate.shape == "fatal" and candidate.introduction:  # the command line of another program
        return "other-software"
    is_rejected = (name in _REFUSALS | {"AssertionError", "Exception"} and _REJECTS.search(message)
                   and not _LACKS.search(message))
    if name in _RESOURCE_CLASSES or (_RESOURCE.search(message) and not is_rejected):
        return "resource"
    package = origin.package if origin else ""
    is_import = name in _ENVIRONMENT_CLASSES
    is_of_driver = name.startswith("NVMLError")
    is_installing = any(package_of(frame.path)[0] in _INSTALLERS for frame in candidate.frames)
    if is_import or is_of_driver or is_installing or (_ENVIRONMENT.search(message) and own is None):
        return "environment"
    if in_service and name in _REFUSALS and vllm_frame and REQUEST_FILES.match(vllm_frame.file):
        return "request"
    if origin is not None and origin.package is None:
        return "other-software"
    if name in _PATH_CLASSES or error_lines.REFUSED_CALL.match(candidate.message):
        return "environment"
    is_refusal = (bool(is_rejected) or _is_failed_check(candidate, origin) or _is_unparsed_file(origin, vllm_frame)
                  or (name in _REFUSALS and bool(candidate.message.strip())
                      and _OF_PYTHON.search(candidate.message) is None))
    if package == "vllm":
        return "refusal" if is_refusal else "bug"
    if package in _WEB_SERVERS and vllm_frame is None and in_service:
        return "unknown"  # over an answer of the server, whose calls are not below
    is_of_vllm = vllm_frame is not None or (package == "pydantic" and _OF_SETTINGS.match(candidate.message) is not None)
    if package in {"python", "pydantic", *_WEB_SERVERS} and is_of_vllm:
        return "refusal" if is_refusal else "bug"
    if package:
        is_library = vllm_frame is not None or (candidate.is_logged and package != "python") or package in PLUGINS or (
            package in LIBRARIES and not (origin is not None and origin.file.startswith(_FRAMEWORKS)))
        return "library" if is_library else "other-software"
    if _SIGNATURES.search(message):
        return "bug" if candidate.is_of_engine else "other-software"
    if is_refusal:
        return "refusal"
    if name in _BUGS | _REFUSALS:
        return "bug"
    return "unknown"


def _is_failed_check(candidate: Candidate, origin: Place | None) -> bool:
    """Return whether an assertion on settings failed, with a sentence for the user."""
    return (candidate.exception == "AssertionError" and error_lines.has_sentence_length(candidate.message)
            and origin is not None and origin.file.startswith(_CHECKS_SETTINGS))


def _is_unparsed_file(origin: Place | None, vllm_frame: Place | None) -> bool:
    """Return whether Python could not parse what vLLM reads from a file or a setting."""
    return (origin is not None and is_decoder(origin) and vllm_frame is not None
            and not _PARSES_TRAFFIC.match(vllm_frame.file))


def _is_malformed_body(candidate: Candidate) -> bool:
    """Return whether the API server cannot decode a request's body."""
    return candidate.exception in {"JSONDecodeError", "UnicodeDecodeError", "MultiPartException"} and any(
        _READS_BODY.search(frame.path) for frame in candidate.frames)


def is_bad_request(candidate: Candidate) -> bool:
    """Return whether it is a request rejected as invalid, as a server or a client reports it."""
    if candidate.shape == "http":
        return candidate.is_refused_request
    if candidate.exception in _CLIENT_ERRORS:
        return True
    return (candidate.exception in _ANY_STATUS and _REQUEST.search(candidate.message[:200]) is not None
            and _OF_OTHER_SERVICE.search(candidate.message[:1000]) is None)
