"""What the conditions and texts of next_steps.yaml name: the failure's own fields, and what follows from them."""

from __future__ import annotations

import builtins
import math
import sys
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from vllm_doctor.catalog import flags
from vllm_doctor.catalog.requirements import distribution_of, is_required
from vllm_doctor.command.refusal_advice import Advice, advice
from vllm_doctor.command.setting_terms import classes_of_settings
from vllm_doctor.failures import error_lines
from vllm_doctor.failures.frames import OFFLINE, PLUGINS, RAISES_TYPE_ERROR, is_decoder, passes_errors_on
from vllm_doctor.failures.model import Failure, Place
from vllm_doctor.failures.settings import names_a_setting
from vllm_doctor.messages import joined, message
from vllm_doctor.templating.number_filters import power_of_two
from vllm_doctor.text.patterns import lazy_pattern

_MODULE = lazy_pattern(r"No module named '(?P<module>[\w.]+)'")
_IMPORTED = lazy_pattern(r"cannot import name '[^']{1,120}' from '(?P<package>[A-Za-z_]\w{0,60})")
_CHECKED = lazy_pattern(r"validation errors? for (?P<settings>\w{1,60}(?:Config|Args))\b")
_PLAIN = lazy_pattern(r"[\w./-]{1,120}")
_OF_SETTINGS = ("vllm/engine/", "vllm/entrypoints/cli/", "vllm/envs.py", "vllm/ir/", "vllm/benchmarks/")
"""What reads nothing but settings."""
_OF_CALLS = ("vllm/sampling_params.py", "vllm/pooling_params.py", *OFFLINE,
             "vllm/entrypoints/generate/", "vllm/entrypoints/pooling/")
"""What a script calls, and what checks its arguments."""
_BEHIND_CALLS = ("vllm/inputs/", "vllm/v1/engine/processor.py", "vllm/v1/engine/input_processor.py")
"""What checks them later, and has assertions of vLLM's own."""
_REJECTIONS = frozenset({"ValueError", "TypeError", "NotImplementedError", "VLLMValidationError"})


def names_of(failure: Failure, given: Mapping[str, Any] | None, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values by name; `given` are the settings by keyword, None if the log does not show them.

    `calling_code` is the package that called vLLM or raised, `own_file` the user's; `asked_setting` is the change
    that the message asks for, as typed. `twice_the_devices` and `less_utilization` are for a device without memory.
    """
    origin, own = failure.origin, failure.own_frame
    exception = failure.exception or ""
    calling_package = _calling_package(failure)
    refused = error_lines.REFUSED_CALL.match(failure.message)
    is_own = given is not None and own is not None and own == origin
    stem = PurePosixPath(own.file).stem if own is not None else ""
    return {
        "kind": failure.kind, "direction": failure.direction, "feature": failure.feature or "",
        "exception": exception, "package": (origin.package if origin else None) or "",
        "is_consequence": failure.is_consequence, "is_alone": failure.is_alone, "is_of_worker": failure.is_of_worker,
        "has_place": origin is not None, "sets_part": bool(failure.settings),
        "raised_by_unknown_code": origin is None and not failure.message_file,
        "is_builtin_exception": hasattr(builtins, exception),
        "is_of_plugin": is_of_plugin(failure),
        "is_of_nvml": exception.startswith("NVMLError"),
        "is_of_device_memory": error_lines.is_of_device_memory(failure.message),
        "wants_other_release": failure.direction in {"older", "moved", "range", "v0-engine"},
        "names_setting": failure.kind == "refusal" and names_a_setting(failure.message),
        "rejects_settings": _rejects_settings(failure),
        "rejects_own_settings": _rejects_own_settings(failure, calling_package),
        "passes_error_on": failure.caller is None and origin is not None and passes_errors_on(origin),
        "reads_text": failure.caller is None and own is None and origin is not None and is_decoder(origin),
        "refuses_path": refused is not None and refused["path"] is not None,
        "refuses_call": refused is not None,
        "is_called_by_own_code": own is not None and own.file == failure.caller,
        "is_called_by_vllm": failure.vllm_frame is not None,
        "calls_other_library": own is not None and bool(origin and origin.package not in {None, "vllm"})
        and failure.vllm_frame is None and failure.caller is None,
        "refuses_call_of_script": failure.source_line.startswith(RAISES_TYPE_ERROR),
        "rejects_arguments": _rejects_arguments(origin, exception),
        "has_own_code": own is not None,
        "is_raised_by_own_code": own is not None and origin is not None and origin.package is None,
        "is_in_middleware": is_own and stem in str((given or {}).get("middleware")),
        "is_in_scheduler": is_own and stem in str((given or {}).get("scheduler_cls")),
        "has_calling_package": bool(calling_package),
        "calling_code": calling_package or message("the calling code"),
        "own_file": own.file if own and _PLAIN.fullmatch(own.file) else message("your own code"),
        "name_direction": joined(" ", filter(None, (failure.direction_sentence, failure.direction_command))),
        **_missing_module(failure),
        **_asked(failure, given, facts),
        **_device_memory(facts),
    }


def is_of_plugin(failure: Failure) -> bool:
    """Return whether a plugin for other hardware raised it."""
    return failure.origin is not None and failure.origin.package in PLUGINS


def _rejects_arguments(origin: Place | None, exception: str) -> bool:
    """Return whether vLLM rejects the arguments of a call; those of LLM() are the engine's settings."""
    if origin is None or origin.function == "__init__":
        return False
    if origin.file.startswith(_OF_CALLS):
        return exception in _REJECTIONS or exception == "AssertionError"
    return origin.file.startswith(_BEHIND_CALLS) and exception in _REJECTIONS


def _is_of_python(module: str) -> bool:
    """Return whether a module belongs to Python's standard library, in this Python or an older one."""
    return module in sys.stdlib_module_names or module in {"distutils", "imp", "asynchat", "asyncore", "smtpd"}


def _missing_module(failure: Failure) -> dict[str, Any]:
    found = _MODULE.search(failure.message)
    names: dict[str, Any] = {"misses_part_of_package": False, "misses_part_of_plugin": False,
                             "misses_own_module": False}
    if found is None:
        return names | _missing_name(failure)
    package, _, part = found["module"].partition(".")
    importer = failure.origin.package if failure.origin is not None else ""
    names |= {"missing_from": package, "misses_part_of_package": bool(part),
              "misses_part_of_plugin": bool(part) and package in PLUGINS}
    if importer and importer not in {"python", "vllm", package} and not (part or _is_of_python(package)):
        names |= {"needed_by": importer, "missing_package": distribution_of(package)}
    elif importer is None and part and _may_be_own(failure, package, part):
        names |= {"misses_own_module": True, "missing_package": found["module"]}
    return names


def _missing_name(failure: Failure) -> dict[str, Any]:
    """Return the package that does not have a name which some code imports, unless it is vLLM or Python."""
    imported = _IMPORTED.search(failure.message)
    package = "" if imported is None else imported["package"]
    if not package or failure.origin is not None or package == "vllm" or _is_of_python(package):
        return {}
    return {"imported_package": package}


def _may_be_own(failure: Failure, package: str, part: str) -> bool:
    """Return whether the user's own code may have the module; where Python found `a.b` of `a.b.c`, `a` is installed."""
    if is_required(package) or distribution_of(package) != package:
        return False
    folders = failure.origin.file.split("/")[:-1] if failure.origin is not None else []
    return "." not in part or package in folders


def _asked(failure: Failure, given: Mapping[str, Any] | None, facts: Mapping[str, Any]) -> dict[str, Any]:
    found = _change_asked(failure, given, facts)
    if found is None:
        return {}
    names = {"asked_flag": found.flag, "asked_setting": found.typed(), "asks_for_variable": found.flag.isupper()}
    return names if found.value is None else {**names, "asked_value": found.value}


def _change_asked(failure: Failure, given: Mapping[str, Any] | None, facts: Mapping[str, Any]) -> Advice | None:
    """Return the change of the server's settings that the message of a rejection asks for."""
    if failure.kind not in {"refusal", "request"}:
        return None
    version = str(facts["vllm_version"]) if "vllm_version" in facts else None
    found = advice(failure.message, tuple(given or ()), flags.resolve(version))
    if found is None or "." in found.flag:
        return None
    is_of_server = found.value is not None and found.flag.startswith("--") and found.flag in failure.message
    return found if is_of_server or failure.kind == "refusal" else None


def _device_memory(facts: Mapping[str, Any]) -> dict[str, Any]:
    names: dict[str, Any] = {"twice_the_devices": 2 * int(facts.get("tensor_parallel_size") or _devices_shown(facts))}
    share, tried, total = (facts.get(name) for name in ("gpu_memory_utilization", "oom_tried_gib", "gpu_total_gib"))
    if share and tried and total:  # the budget without the failed allocation and half a GiB
        names["less_utilization"] = math.floor(100 * min(share - 0.02, share - (tried + 0.5) / total)) / 100
    return names


def _devices_shown(facts: Mapping[str, Any]) -> int:
    """Return how many devices the ranks in the log need, as a power of two: an estimate of the parallel size."""
    ranks = int(facts.get("ranks_at_least") or 1)
    if ranks > 1:  # a process that is alone may use any device
        ranks = max(ranks, int(facts.get("oom_gpu_index") or 0) + 1)
    return power_of_two(2 * ranks - 1) or 1


def _rejects_settings(failure: Failure) -> bool:
    """Return whether vLLM rejected the user's settings, not the checkpoint's config.json."""
    checked = _CHECKED.search(failure.message)
    if checked is not None:
        # VllmConfig compares settings with each other; what it takes from config.json belongs to a feature of its own.
        return checked["settings"] in classes_of_settings() or checked["settings"] == "VllmConfig"
    file = failure.origin.file if failure.origin else ""
    return file.startswith(_OF_SETTINGS) or (
        file.startswith("vllm/config/") and not file.startswith(("vllm/config/model", "vllm/config/__init__")))


def _rejects_own_settings(failure: Failure, calling_package: str) -> bool:
    """Return whether a program that uses vLLM rejected its own settings: it raised the error, with a sentence."""
    package = failure.origin.package if failure.origin else None
    return (package is not None and package == calling_package and failure.vllm_frame is None
            and failure.caller is None and failure.exception in {"AssertionError", "ValueError"}
            and error_lines.has_sentence_length(failure.message))


def _calling_package(failure: Failure) -> str:
    """Return the package that called vLLM or raised, empty where it is the user's own code or unknown."""
    own = failure.own_frame.file if failure.own_frame else ""
    whose = failure.caller or (failure.origin.file if failure.origin else "")
    package = "" if whose == own else whose.partition("/")[0].removesuffix(".py")
    if (imported := _IMPORTED.search(failure.message)) and imported["package"] != "vllm":
        package = imported["package"]
    return package if _PLAIN.fullmatch(package) and package != "vllm" else ""
