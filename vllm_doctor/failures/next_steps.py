"""Next steps for a failure that no rule knows: what to try, in the form of a rule's fixes. None of them is the cure."""

from __future__ import annotations

import builtins
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from vllm_doctor.catalog import flags
from vllm_doctor.catalog.features import Switch, feature
from vllm_doctor.command.advice import Advice, advice
from vllm_doctor.command.setting_terms import CLASSES_OF_SETTINGS
from vllm_doctor.failures import messages
from vllm_doctor.failures.frames import PLUMBING
from vllm_doctor.failures.model import Failure
from vllm_doctor.messages import N_, joined, message
from vllm_doctor.rulebase.model import FixRule
from vllm_doctor.text.patterns import lazy_pattern

_AS_A_TEST = N_("If the failure no longer occurs, this feature causes it; the server runs without it.")
_ALWAYS_ON = frozenset({"compilation", "cuda-graphs", "attention", "prefix-caching", "sampling", "model-class",
                        "metrics", "scheduler", "moe"})
"""Parts that most releases have on unless a flag says otherwise, so that a switch may be set that nobody had set."""
_OPT_IN = frozenset({"lora", "speculative-decoding", "kv-transfer", "offload", "tool-calling", "reasoning"})
"""Parts that a failure in their code proves to be on: they are off unless a flag turns them on."""
_DRIVER = lazy_pattern(
    r"libcuda\.so|Found no NVIDIA driver|No CUDA GPUs|Failed to infer device|Device string must not be")
_BUILD = lazy_pattern(r"undefined symbol|DLL load failed|GLIBC|\.so\b")
_MODULE = lazy_pattern(r"No module named '(?P<module>[\w.]+)'")
_OF_VLLM = lazy_pattern(
    r"(?:No module named |from (?:partially initialized module )?)'vllm[.']"
    r"|'(?:\w{0,60}?LLM\w{0,60}|vllm\.\S{1,200})' object has")
_SERVER_ERROR = lazy_pattern(r"5\d\d(?: [A-Z][\w -]{1,40})?$")
"""A status in an access log."""
_FORBIDDEN = lazy_pattern(r"extra_forbidden|Extra inputs are not permitted")
"""What pydantic says of a field that a request has and this release of the API does not know."""
_BENCHMARKS = "vllm/benchmarks/"
_PATH = lazy_pattern(r"Repo id must (?:be in the form|use alphanumeric chars)")
_ASKS_FOR_VLLM = lazy_pattern(
    r"\bpip install [^\n]{0,80}\bvllm\b|\b(?:[Uu]pgrade|[Uu]pdate) (?:to )?(?:a newer )?v[Ll][Ll][Mm]\b")
_NETWORK = lazy_pattern(
    r"Connection (?:refused|error)|Max retries|Name or service|name resolution|timed out|resolve host"
    r"|No route to host|Network is unreachable", re.IGNORECASE)
_UNREACHED = lazy_pattern(
    r"All connection attempts failed|[Cc]onnect(?:ion)? (?:call failed|refused|error)|[Cc]annot connect to host"
    r"|Server disconnected|(?:can't|cannot|could not|not) be reached|[Ff]ailed to connect to|actively refused")
"""What a client says of a server that does not answer."""
_MODEL_FILE = lazy_pattern(r"ermission denied: '\S{1,300}\.(?:json|safetensors|bin|pth?|gguf|model|jinja)'")
_NO_PROGRAM = lazy_pattern(r"\[Errno 2\] No such file or directory: '[\w.+-]{1,60}'")
_DISK = lazy_pattern(r"No space left|Disk quota")
_CACHE = lazy_pattern(r"writ(?:e|ing) in your cache folder|TRANSFORMERS_CACHE")
_ABSENT = lazy_pattern(r"not (?:available|installed|found)|pip install|please install|is required", re.IGNORECASE)
_IMPORTED = lazy_pattern(r"cannot import name '[^']{1,120}' from '(?P<package>[A-Za-z_]\w{0,60})")
_PLAIN = lazy_pattern(r"[\w./-]{1,120}")
_ADDRESS = N_("Start the server, or correct the address that the client connects to")
_BELONG = N_("Install matching releases of {{ calling_code }} and vLLM")
_REINSTALL = N_("Reinstall vLLM in a clean environment: the installation is incomplete")
_CHECKED = lazy_pattern(r"validation errors? for (?P<settings>\w{1,60}(?:Config|Args))\b")
_OF_NAMES = frozenset({"AttributeError", "TypeError", "ImportError", "ModuleNotFoundError"})
"""What code raises that was written for other releases of what it calls."""
_SENTENCE = 4  # words of a message that names a setting
_NO_UPGRADE = frozenset({"older", "moved", "range", "v0-engine"})
_SAID = "{{ name_direction }}"
_TRANSFORMERS = frozenset({"transformers", "transformers_modules", "tokenizers", "huggingface_hub"})


def next_steps(failure: Failure, given: Mapping[str, Any] | None, facts: Mapping[str, Any],
               text: str) -> list[FixRule]:
    """Return what to try, the most informative first.

    `given` are the settings by keyword, None if the log does not show them; `text` is the message with its calls.
    """
    direction = failure.direction
    if failure.is_consequence and failure.kind == "other-software" and _UNREACHED.search(failure.message):
        return [_action("check-server-address", "Check that the server which it calls runs and is reachable")]
    if failure.is_consequence:
        return [_action("find-root-cause-above", "Find the first error above this line, or of another process")]
    if failure.kind == "unknown" and _UNREACHED.search(failure.message):
        return [_action("check-server-address", _ADDRESS)]
    is_bug_by_class = failure.kind == "bug" and direction in {"", "unknown"}  # nothing shows that it is vLLM's code
    if failure.is_alone and failure.origin is None and (failure.kind == "unknown" or is_bug_by_class):
        return list(_alone(failure))
    steps = [*_where_the_reason_is(failure), *_by_direction(direction), *_advised(failure, given, facts),
             *_without(failure, given, facts, text), *_by_kind(failure, text, direction),
             *_without_own_class(failure, given)]
    unique: dict[str, FixRule] = {}
    for step in steps:
        unique.setdefault(step.id, step)
    return list(unique.values())


def _alone(failure: Failure) -> Iterator[FixRule]:
    """Yield the steps for an error beside which nothing of a server stands, and whose code is unknown."""
    yield _action("add-server-output", "Add the output of vLLM itself, if it was started: this log has none")
    if failure.exception is not None and hasattr(builtins, failure.exception):  # vLLM and PyTorch raise these most
        yield _action("upgrade-vllm", "Try a newer vLLM release")
        yield _action("report-bug", "Report it with the command, the release and the traceback")


def _where_the_reason_is(failure: Failure) -> Iterator[FixRule]:
    """Yield the step that leads to the reason, if the log has none: a traceback without its end, a bare status."""
    if failure.is_of_worker:
        yield _action("find-worker-traceback", "Find the worker's traceback of this error, earlier in the output")
    if failure.exception is not None or failure.is_of_worker:
        return
    if failure.origin is not None:
        yield _action("add-end-of-traceback", "Add the end of the traceback, whose last line has the reason")
    elif _SERVER_ERROR.match(failure.message):
        yield _action("find-reason-of-answer", "Find the reason in the response body and around this line")


def _by_direction(direction: str) -> Iterator[FixRule]:
    """Yield the steps that the names in vLLM's releases suggest."""
    if direction in {"older", "moved", "range", "v0-engine"}:
        if direction == "v0-engine":
            yield FixRule("use-v0-engine", "Try the V0 engine", vllm=">=0.8.0,<0.11.0",
                          env={"VLLM_USE_V1": "'0'"}, why=_SAID)
        yield _action("downgrade-vllm", "Install a vLLM release that the calling code supports", _SAID)
        if direction == "moved":
            yield _action("correct-plugin-file", "Or change the calling code to the new name", _SAID)
    elif direction == "newer":
        yield _action("upgrade-vllm", "Install a vLLM release that the calling code supports", _SAID)
    elif direction == "incomplete":
        yield _action("reinstall-vllm-clean-env", _REINSTALL, _SAID)
        yield _action("use-container-image", "Try vLLM's container image")
    elif direction == "shadowed":
        yield _action("leave-source-folder",
                      "Start in another directory: the imported vllm is not the installed package", _SAID)
    elif direction == "not-installed":
        yield _action("use-vllm-environment", "Run vLLM from the environment in which it is installed", _SAID)
    elif direction == "plugin-older":
        yield _action("reinstall-plugin", "Install the plugin release for this vLLM", _SAID)
        yield _action("correct-plugin-file", "Or adapt the plugin to this vLLM release")
    elif direction == "dependency":
        yield _action("install-package", "Install the versions that this vLLM release requires", _SAID)
        yield _action("reinstall-vllm-clean-env", "Or reinstall vLLM in a clean environment")


def _advised(failure: Failure, given: Mapping[str, Any] | None, facts: Mapping[str, Any]) -> Iterator[FixRule]:
    """Yield the change of settings that the message asks for; of the server's own, if it rejects a request."""
    found = _asked(failure, given, facts)
    if found is None:
        return
    if failure.kind == "request":
        yield FixRule("set-as-asked", "Set {{ asked_setting }} on the server", set={"asked_flag": "asked_value"})
    elif found.value is None:
        yield FixRule("remove-as-asked", "Remove {{ asked_setting }}", unset=("asked_flag",))
    elif found.flag.isupper():
        yield FixRule("set-as-asked", "Set {{ asked_setting }}", env={"asked_flag": "asked_value"})
    else:
        yield FixRule("set-as-asked", "Set {{ asked_setting }}", set={"asked_flag": "asked_value"})


def _asked(failure: Failure, given: Mapping[str, Any] | None, facts: Mapping[str, Any]) -> Advice | None:
    """Return the change of the server's settings that the message of a rejection asks for."""
    if failure.kind not in {"refusal", "request"}:
        return None
    version = str(facts["vllm_version"]) if "vllm_version" in facts else None
    found = advice(failure.message, tuple(given or ()), flags.resolve(version))
    if found is None or "." in found.flag:
        return None
    is_of_server = found.value is not None and found.flag.startswith("--") and found.flag in failure.message
    return found if is_of_server or failure.kind == "refusal" else None


def _without(failure: Failure, given: Mapping[str, Any] | None, facts: Mapping[str, Any],
             text: str) -> Iterator[FixRule]:
    """Yield the steps that turn off the feature that failed, if the user has enabled it."""
    known = feature(failure.feature) if failure.feature else None
    if known is None or failure.kind in {"request", "environment"}:
        return
    device = str(facts.get("device") or "cuda")
    for number, switch in enumerate(known.without):
        if (switch.device and switch.device != device) or (switch.paths and not re.search(switch.paths, text)):
            continue
        drop = _on(switch.unset, given, is_implied=known.id in _OPT_IN)
        if switch.unset and not drop:
            continue
        if switch.set and _is_set(switch.set, given, facts):
            continue
        is_in_use = known.id in _ALWAYS_ON or bool(switch.paths) or _given(known.flags, given)
        if (switch.set or switch.env) and not is_in_use:
            continue
        yield _switch(known.id, number, switch, drop)


def _without_own_class(failure: Failure, given: Mapping[str, Any] | None) -> Iterator[FixRule]:
    """Yield the step that turns off the user's middleware or scheduler, if its own code raised."""
    own = failure.own_frame
    if given is None or own is None or own != failure.origin:
        return
    name = PurePosixPath(own.file).stem
    if name in str(given.get("middleware")):
        yield FixRule("without-middleware", "As a test, start without the middleware", unset=("--middleware",),
                      why=_AS_A_TEST, cost=N_("A middleware may implement authentication."))
    if name in str(given.get("scheduler_cls")):
        yield FixRule("without-own-scheduler", "As a test, start with vLLM's own scheduler", unset=("--scheduler-cls",),
                      why=_AS_A_TEST)


def _switch(name: str, number: int, switch: Switch, drop: Sequence[str]) -> FixRule:
    return FixRule(
        f"without-{name}" + (f"-{number + 1}" if number else ""), f"As a test, {switch.title}", vllm=switch.vllm,
        set=switch.set or {}, unset=tuple(drop), env=switch.env or {},
        why=_AS_A_TEST)


def _on(names: Iterable[str], given: Mapping[str, Any] | None, *, is_implied: bool) -> list[str]:
    """Return the flags that the user set; the first if the log shows no settings but the failure implies it."""
    names = list(names)
    if given is None:
        return names[:1] if is_implied else []
    return [name for name in names if _given((name,), given)]


def _given(names: Iterable[str], given: Mapping[str, Any] | None) -> bool:
    if given is None:
        return False
    for name in names:
        flag = flags.lookup(name)
        keyword = (flag.keyword if flag else None) or name.lstrip("-").replace("-", "_")
        if given.get(keyword) not in (None, False, ""):
            return True
    return False


def _is_set(wanted: Mapping[str, Any], given: Mapping[str, Any] | None, facts: Mapping[str, Any]) -> bool:
    """Return whether the user has already set it."""
    if "--enforce-eager" in wanted and facts.get("enforce_eager") is True:
        return True
    return _given(wanted, given)


def _by_kind(failure: Failure, text: str, direction: str) -> Iterator[FixRule]:
    """Yield the steps for this kind of failure."""
    kind, package = failure.kind, failure.origin.package if failure.origin else None
    if kind == "request" and _FORBIDDEN.search(failure.message):
        yield _action("correct-request-value", "Leave out the field of the request that the message names")
        yield _action("upgrade-vllm", "Or try a newer vLLM release, which may know the field")
    elif kind == "request":
        yield _action("fix-request-messages", "Correct the request that the client sends")
        yield _action("read-client-response-body", "Read the response body on the client")
    elif kind == "environment":
        yield from _environment(failure, text, direction)
    elif kind == "resource":
        yield from _resource(failure, text)
    elif kind == "other-software":
        yield from _other_software(failure, direction)
    elif kind == "library":
        if failure.exception == "ValueError" and package == "ray":
            yield _action("follow-the-refusal", "Do what the message asks for")
        if package in _TRANSFORMERS:
            yield _action("upgrade-transformers", "Try the transformers release that this vLLM requires")
            yield _action("upgrade-vllm", "Try a newer vLLM release")
            yield _action("use-other-checkpoint", "Try another checkpoint of the model")
        else:
            yield _action("upgrade-vllm", "Try a newer vLLM release with the libraries it requires")
            yield _action("reinstall-vllm-clean-env", "Try a clean environment with the libraries that vLLM requires")
            yield _action("report-bug", "Report it with the command, the release and the traceback")
    elif kind == "refusal":
        if failure.feature in {"model-class", "config"} and not _is_of_settings(failure):
            yield _action("correct-model-config", "Compare the model's config.json with the message")
        else:
            yield _action("follow-the-refusal", "Change the setting that the message names")
        yield _action("upgrade-vllm", "Try a newer vLLM release")
        is_of_benchmark = failure.origin is not None and failure.origin.file.startswith(_BENCHMARKS)
        if failure.feature in {"model-class", "config", "model-loading", "tokenizer"} and not is_of_benchmark:
            yield _action("use-other-checkpoint", "Try another checkpoint of the model")
    elif failure.feature == "environment":
        yield from _environment(failure, text, direction)
    elif _PATH.search(failure.message):
        yield _action("check-model-path", "Check that the model's path exists where vLLM runs")
        yield _action("download-model-first", "Or download the model first")
    else:
        if direction not in _NO_UPGRADE:
            yield _action("upgrade-vllm", "Try a newer vLLM release")
        yield _action("report-bug", "Report it with the command, the release and the traceback")
        yield _action("downgrade-vllm", "Try the previous vLLM release, if it worked there")


def _is_of_settings(failure: Failure) -> bool:
    """Return whether vLLM rejected the user's settings, not the checkpoint's config.json."""
    checked = _CHECKED.search(failure.message)
    if checked is not None:
        # VllmConfig compares settings with each other; what it takes from config.json belongs to a feature of its own.
        return checked["settings"] in CLASSES_OF_SETTINGS or checked["settings"] == "VllmConfig"
    file = failure.origin.file if failure.origin else ""
    return file.startswith(("vllm/engine/", "vllm/entrypoints/cli/", "vllm/envs.py", _BENCHMARKS)) or (
        file.startswith("vllm/config/") and not file.startswith(("vllm/config/model", "vllm/config/__init__")))


def _environment(failure: Failure, text: str, direction: str) -> Iterator[FixRule]:
    module = _MODULE.search(failure.message)
    if direction in _NO_UPGRADE or (_OF_VLLM.search(failure.message) and failure.feature == "other-software"):
        yield from _other_software(failure, direction)
    elif _OF_VLLM.search(failure.message):
        yield _action("reinstall-vllm-clean-env", _REINSTALL)
        yield _action("use-container-image", "Try vLLM's container image")
    elif (failure.exception or "").startswith("NVMLError"):
        yield _action("check-visible-gpus", "Check that nvidia-smi shows the GPU in the environment where vLLM runs")
        yield _action("upgrade-nvidia-driver", "Update the NVIDIA driver if nvidia-smi fails as well")
    elif _DRIVER.search(text):
        yield _action("pass-gpu-to-container", "Pass the GPU and its driver to the process")
        yield _action("install-matching-cuda-wheel", "Install the PyTorch and vLLM builds for this GPU")
    elif module and "." in module["module"]:  # Python found the package, and not this part of it
        yield _action("reinstall-package", "Install the release of {{ missing_from }} that has this module")
        yield _action("reinstall-vllm-clean-env", "Reinstall vLLM in a clean environment")
    elif module or failure.exception == "ModuleNotFoundError" or (
            failure.exception == "ImportError" and _ABSENT.search(failure.message)):
        yield _action("install-package", "Install the missing package")
        yield _action("reinstall-vllm-clean-env", "Reinstall vLLM in a clean environment")
    elif failure.own_frame is not None and failure.exception == "ImportError" and not _BUILD.search(text):
        yield _action("correct-plugin-file", "Correct the import in your own code")
        yield FixRule("set-pythonpath", "Add the directory above the package to PYTHONPATH", action="install-package")
    else:
        yield from _machine(failure, text)


def _machine(failure: Failure, text: str) -> Iterator[FixRule]:
    """Yield the steps for what the operating system refused, or for a build."""
    if _DISK.search(text):
        yield _action("free-disk-space", "Free disk space")
    elif _NETWORK.search(text):
        yield _action("fix-network-or-proxy", "Check the network between the machines")
    elif _UNREACHED.search(failure.message):
        yield _action("check-server-address", _ADDRESS)
    elif _CACHE.search(text):
        yield FixRule("writable-hub-cache", "Set HF_HOME to a directory that the process can write to",
                      env={"HF_HOME": "'/tmp/huggingface'"})
        yield _action("use-local-cache-folder", "Make the cache directory writable for the process")
    elif _MODEL_FILE.search(failure.message):
        yield _action("make-model-readable", "Let the user of the process read the model's directory")
    elif "ermission denied" in text or "Read-only" in text:
        yield _action("use-local-cache-folder", "Make the cache directory writable for the process")
    elif re.search(r"EADDRINUSE|ddress already in use", text):
        yield _action("free-port", "Use another port, or stop the process that uses it")
    elif re.search(r"nvcc|CUDA_HOME|ninja|Error building extension", text):
        yield _action("install-cuda-toolkit", "Install the CUDA toolkit, which is needed to compile kernels at startup")
        yield _action("use-container-image", "Try vLLM's container image")
    elif re.search(r"not found in \$PATH|command not found", text):
        yield _action("use-vllm-environment", "Run vLLM from the environment in which it is installed")
        yield _action("use-container-image", "Try vLLM's container image")
    elif _NO_PROGRAM.match(failure.message):
        yield _action("install-program", "Install the program that the message names, or correct the path of the file")
    elif refused := messages.REFUSED_CALL.match(failure.message):
        if refused["path"]:
            yield _action("check-file-path", "Check the path in the message, where vLLM runs")
        else:
            yield _action("check-kernel-log", "Check the kernel log for the reason")
    else:
        yield _action("reinstall-vllm-clean-env", "Reinstall vLLM in a clean environment")
        yield _action("use-container-image", "Try vLLM's container image")
        yield _action("rebuild-against-installed-torch", "Build vLLM against the installed PyTorch")


def _device_memory(failure: Failure) -> Iterator[FixRule]:
    """Yield the steps for a device that ran out of memory in a phase that the log does not show."""
    yield FixRule(
        "free-gpu", "Stop the other process on the device, or use an idle one", action="free-gpu", safety="manual",
        when=("oom_other_process_gib >= oom_tried_gib",
              "oom_other_process_gib > 0.1 * gpu_total_gib", "oom_pytorch_allocated_gib < 0.8 * gpu_total_gib"),
        why=N_("Another process holds {{ oom_other_process_gib | gib }}."))
    yield FixRule(
        "raise-tensor-parallel-size",
        "If it was loading the model, raise --tensor-parallel-size to {{ twice_the_devices }}",
        set={"--tensor-parallel-size": "twice_the_devices"},
        when=("oom_pytorch_allocated_gib >= 0.85 * gpu_total_gib",),
        why=N_("PyTorch holds {{ oom_pytorch_allocated_gib | gib }} of {{ gpu_total_gib | gib }}; each device then "
               "holds half of the weights."))
    yield FixRule(
        "lower-utilization", "If it was serving, lower --gpu-memory-utilization to {{ less_utilization }}",
        set={"--gpu-memory-utilization": "less_utilization"}, when=("less_utilization >= 0.4",),
        why=N_("A smaller KV cache leaves more for a step."))
    yield from _less_memory()
    if failure.is_alone:
        yield _action("add-server-output", "Add the log from the start of the server, which shows the phase")


def _less_memory() -> Iterator[FixRule]:
    """Yield the steps that need less device memory, or give more."""
    yield FixRule("lower-max-num-seqs", "Try fewer concurrent requests: --max-num-seqs 16",
                  set={"--max-num-seqs": 16})
    yield _action("use-smaller-or-quantized-model", "Use a smaller or quantized model")
    yield _action("use-larger-gpu", "Use a device with more memory")


def _resource(failure: Failure, text: str) -> Iterator[FixRule]:
    if messages.is_of_device_memory(text):
        yield from _device_memory(failure)
    elif _DISK.search(text):
        yield _action("free-disk-space", "Free disk space")
    elif "open files" in text:
        yield _action("raise-ulimit-nofile", "Raise the limit on open files")
    elif re.search(r"signal 9 |[Kk]illed|oom|host|Cannot allocate memory|low on memory", text):
        yield _action("add-host-ram", "Give the machine or the container more memory")
        yield _action("check-dmesg-oom", "Check the kernel log for the OOM killer")
    else:
        yield from _less_memory()


def _other_software(failure: Failure, direction: str) -> Iterator[FixRule]:
    if direction in {"", "unknown"} and _ASKS_FOR_VLLM.search(failure.message):
        yield _action("upgrade-vllm", "Install the vLLM release that the message asks for")
    elif _UNREACHED.search(failure.message) and (failure.origin is None or failure.origin.package != "vllm"):
        yield _action("check-server-address", _ADDRESS)
    elif direction in {"", "unknown"} and _OF_VLLM.search(failure.message):
        yield _action("install-package", _BELONG)
        yield _action("downgrade-vllm", "Try the vLLM release that the calling code was written for")
    elif failure.own_frame is not None and failure.origin is not None and failure.origin.package is None:
        yield _action("correct-plugin-file", "Correct {{ own_file }}, which raises the error")
        if failure.exception in _OF_NAMES:
            yield _action("install-package", _BELONG)
    elif failure.caller is None and failure.origin is not None and failure.origin.package in PLUMBING:
        yield _action("find-root-cause-above", "Find the first error above this line, or of another process")
    else:
        if _is_rejection(failure):
            yield _action("follow-the-refusal", "Change the setting that the message names")
        if failure.own_frame is not None and failure.own_frame.file == failure.caller:
            yield _action("correct-script", "Correct the call of vLLM in {{ own_file }}")
        yield _action("install-package", _BELONG)
        if _calling_package(failure):
            yield _action("reinstall-package", "Reinstall {{ calling_code }} as its documentation says")


def _is_rejection(failure: Failure) -> bool:
    """Return whether a program that uses vLLM rejected its own settings: it raised the error, with a sentence."""
    package = failure.origin.package if failure.origin else None
    return (package is not None and package == _calling_package(failure) and failure.vllm_frame is None
            and failure.caller is None and failure.exception in {"AssertionError", "ValueError"}
            and len(failure.message.split()) >= _SENTENCE)


def _calling_package(failure: Failure) -> str:
    """Return the package that called vLLM or raised, empty where it is the user's own code or unknown."""
    own = failure.own_frame.file if failure.own_frame else ""
    whose = failure.caller or (failure.origin.file if failure.origin else "")
    package = "" if whose == own else whose.partition("/")[0].removesuffix(".py")
    if (imported := _IMPORTED.search(failure.message)) and imported["package"] != "vllm":
        package = imported["package"]
    return package if _PLAIN.fullmatch(package) and package != "vllm" else ""


def names(failure: Failure, given: Mapping[str, Any] | None, facts: Mapping[str, Any]) -> dict[str, str | float]:
    """Return the names that the titles and changes use.

    `calling_code` is the package that called vLLM or raised, `own_file` the user's; `asked_setting` is the change
    that the message asks for, as typed. `twice_the_devices` and `less_utilization` are for a device without memory.
    """
    own = failure.own_frame.file if failure.own_frame else ""
    made: dict[str, str | float] = {"twice_the_devices": 2 * int(facts.get("tensor_parallel_size") or 1)}
    share, tried, total = (facts.get(name) for name in ("gpu_memory_utilization", "oom_tried_gib", "gpu_total_gib"))
    if share and tried and total:  # the budget without the failed allocation and half a GiB
        made["less_utilization"] = math.floor(100 * min(share - 0.02, share - (tried + 0.5) / total)) / 100
    module = _MODULE.search(failure.message)
    if module is not None:
        made["missing_from"] = module["module"].partition(".")[0]
    asked = _asked(failure, given, facts)
    if asked is not None:
        made["asked_flag"] = asked.flag
        made["asked_setting"] = asked.typed()
        if asked.value is not None:
            made["asked_value"] = asked.value
    return {**made, "calling_code": _calling_package(failure) or message("the calling code"),
            "own_file": own if _PLAIN.fullmatch(own) else message("your own code"),
            "name_direction": joined(" ", filter(None, (failure.direction_sentence, failure.direction_command)))}


def _action(name: str, title: str, why: str = "") -> FixRule:
    return FixRule(name, title, action=name, why=why, safety="manual")
