"""Two starts -> their differences, the one that explains the failure first.

Compared are the command's arguments and variables, the model, the release, the hardware and software that the logs
name, and what was measured. What one of the logs does not show is no difference, unless the failure is about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from vllm_doctor.catalog import flags
from vllm_doctor.comparison.named_settings import DIRECT, Named, named_by_failure
from vllm_doctor.diagnosis.run_analysis import RunAnalysis
from vllm_doctor.facts.python_literals import Repr
from vllm_doctor.messages import message
from vllm_doctor.redact import Redactor, redact_value, safe_text
from vllm_doctor.reports import texts
from vllm_doctor.reports.model import Change, Report

NOT_SHOWN = message("not in the log")
NOT_SET = message("not set")
_LONGEST = 200
_SYSTEM = ("vllm_version", "engine", "device", "gpu_name", "num_gpus_visible", "compute_capability", "gpu_total_gib",
           "torch_version", "cuda_version", "nvidia_driver_cuda_version", "nccl_version", "attention_backend")
_MEASURED = ("max_model_len", "dtype", "quantization", "world_size", "gpu_free_gib", "gpu_requested_gib",
             "model_weights_gib", "peak_activation_gib", "non_torch_gib", "cuda_graph_gib", "kv_cache_available_gib",
             "kv_cache_tokens", "max_concurrency")
_NAMES = {"vllm_version": message("vLLM release"), "gpu_name": message("GPU"),
          "num_gpus_visible": message("visible GPUs"),
          "model": message("model"), "gpu_total_gib": message("GPU memory (GiB)"),
          "gpu_free_gib": message("free GPU memory (GiB)"), "image": message("container image")}
_TOLERANCE = 0.02  # of a measured quantity
_SAME_MODEL = frozenset({"model_tag"})
_UNIMPORTANT = frozenset({"port", "host", "served_model_name", "api_key", "uvicorn_log_level", "ssl_keyfile"})


class _Kind(IntEnum):
    """Where a difference is told if none explains the failure: what the user sets before what follows from it."""

    SETTING = 0
    MODEL = 1
    SYSTEM = 2
    UNIMPORTANT = 3
    MEASURED = 4


class _Difference(NamedTuple):
    """A difference between two starts; `keyword` is the setting or fact it is about."""

    kind: _Kind
    what: str
    keyword: str
    good: str
    bad: str
    value: Any = None  # of the failed start


def changes(bad: RunAnalysis, report: Report, good: RunAnalysis, good_report: Report) -> tuple[Change, ...]:
    """Return what differs between a failed start and a good one, the change that explains the failure first."""
    named = named_by_failure(bad, report)
    settings = list(_settings(bad, good, named))
    keywords = {one.keyword for one in settings}
    found = [*_programs(bad, good), *settings, *_facts(bad, good, _SYSTEM, _Kind.SYSTEM),
             *(one for one in _facts(bad, good, _MEASURED, _Kind.MEASURED) if one.keyword not in keywords),
             *_memory(report, good_report)]
    unique = {one.what: one for one in reversed(found)}
    differences = [one for one in found if unique[one.what] is one]
    is_failed = report.worst() in {"error", "warning"} or report.status == "failed"
    strength = {one.what: named.strength(one.keyword, one.value) if is_failed else 0 for one in differences}
    causes = [one for one in differences if one.kind < (_Kind.MEASURED if strength[one.what] else _Kind.UNIMPORTANT)]
    if is_failed and len(causes) == 1:  # nothing else can explain it
        strength[causes[0].what] = max(strength[causes[0].what], 1)
    enough = min(max((strength[one.what] for one in causes), default=0), DIRECT)
    ranked = sorted(differences, key=lambda one: (one.kind == _Kind.MEASURED, -strength[one.what], one.kind))
    clean = _cleaner(bad.redactor, good.redactor)
    return tuple(Change(one.what, clean(one.good), clean(one.bad), one in causes and 0 < enough <= strength[one.what])
                 for one in ranked)


def _settings(bad: RunAnalysis, good: RunAnalysis, named: Named) -> Iterator[_Difference]:
    """Yield the differing arguments and variables."""
    of_bad, of_good = _arguments(bad), _arguments(good)
    keywords = dict.fromkeys([*of_bad, *of_good])
    for keyword in keywords if of_bad and of_good else ():
        left, right = of_good.get(keyword), of_bad.get(keyword)
        if not _is_equal(left, right):
            yield _Difference(_kind_of(keyword), _name_of(keyword), keyword,
                              _shown(keyword, _or_default(left, good, keyword), NOT_SET),
                              _shown(keyword, _or_default(right, bad, keyword), NOT_SET), right)
    if not (of_bad and of_good):
        for keyword, value in named.values.items():
            left, right = of_good.get(keyword), of_bad.get(keyword, value)
            if not _is_equal(left, right):
                yield _Difference(_kind_of(keyword), _name_of(keyword), keyword,
                                  _shown(keyword, left, NOT_SET if of_good else NOT_SHOWN),
                                  _shown(keyword, right, NOT_SHOWN), right)
        model = (good.facts.get("model"), bad.facts.get("model"))
        if None not in model and not _is_equal(*model):
            yield _Difference(_Kind.MODEL, "model", "model", str(model[0]), str(model[1]), model[1])
    if bad.typed is not None and good.typed is not None:
        yield from _variables(dict(good.typed.environment), dict(bad.typed.environment))
        images = good.typed.image, bad.typed.image
        if None not in images and images[0] != images[1]:
            yield _Difference(_Kind.SYSTEM, _NAMES["image"], "image", str(images[0]), str(images[1]))


def _variables(good: Mapping[str, str | None], bad: Mapping[str, str | None]) -> Iterator[_Difference]:
    for name in dict.fromkeys([*bad, *good]):
        if (name in good) == (name in bad) and good.get(name) == bad.get(name):
            continue
        left, right = (_shown(name, variables.get(name), NOT_SHOWN if name in variables else NOT_SET)
                       for variables in (good, bad))
        yield _Difference(_Kind.SETTING, name, name, left, right, bad.get(name))


def _programs(bad: RunAnalysis, good: RunAnalysis) -> Iterator[_Difference]:
    """Yield the difference between the programs that both users typed."""
    programs = _program(good), _program(bad)
    if all(programs) and programs[0] != programs[1]:
        yield _Difference(_Kind.SETTING, "program", "program", *programs)


def _program(case: RunAnalysis) -> str:
    """Return the words of the command that start vLLM, before its arguments."""
    command = case.typed
    return "" if command is None else " ".join(word.text for word in command.before[command.program:])


def _arguments(case: RunAnalysis) -> dict[str, Any]:
    """Return the user's arguments by keyword: those that vLLM prints, else those that were typed."""
    typed = dict(case.typed.arguments()) if case.typed is not None else {}
    printed = dict(case.run.settings)
    if case.run.settings_kind == "arguments":  # all of them, defaults included
        printed = {name: value for name, value in printed.items()
                   if name in typed or not _is_default(name, value, case)}
    arguments = {**typed, **printed}
    return {name: value for name, value in arguments.items() if name not in _SAME_MODEL and value is not None}


def _or_default(value: Any, case: RunAnalysis, keyword: str) -> Any:
    """Return a value; of an argument that was not set, the default that old releases print with all others."""
    return case.run.settings.get(keyword) if value is None else value


def _is_default(keyword: str, value: Any, case: RunAnalysis) -> bool:
    known = flags.lookup("--" + keyword.replace("_", "-"))
    default = known.default(case.facts.get("vllm_version")) if known is not None else None
    return value is None or value is False or _is_equal(default, value)


def _facts(bad: RunAnalysis, good: RunAnalysis, names: Iterable[str], kind: _Kind) -> Iterator[_Difference]:
    """Yield the facts that both logs show and that differ."""
    for name in names:
        left, right = good.facts.get(name), bad.facts.get(name)
        if left is None or right is None or _is_equal(left, right, _TOLERANCE if kind is _Kind.MEASURED else 0.0):
            continue
        definition = bad.base.names.get(name)
        yield _Difference(kind, _NAMES.get(name) or texts.fact_message(name),
                          (definition.args if definition is not None else "") or name,
                          texts.value_text(left), texts.value_text(right))


def _memory(bad: Report, good: Report) -> Iterator[_Difference]:
    """Yield the parts of the memory that both logs show and that differ."""
    if bad.memory is None or good.memory is None:
        return
    for part in bad.memory.parts:
        other = good.memory.gib(part.name)
        if other is not None and part.origin == "log" and abs(other - part.gib) > max(0.05, _TOLERANCE * abs(other)):
            yield _Difference(_Kind.MEASURED, message("memory: {part} (GiB)",
                                                      part=message(texts.part_label(part.name))), part.name,
                              f"{other:.2f}", f"{part.gib:.2f}")


def _kind_of(keyword: str) -> _Kind:
    if keyword == "model":
        return _Kind.MODEL
    return _Kind.UNIMPORTANT if keyword in _UNIMPORTANT else _Kind.SETTING


def _name_of(keyword: str) -> str:
    return "model" if keyword == "model" else "--" + keyword.replace("_", "-")


def _shown(keyword: str, value: Any, missing: str) -> str:
    """Return a value for display; what a name like `api_key` holds is masked."""
    if value is None:
        return missing
    plain = str(value.as_dict()) if isinstance(value, Repr) else texts.value_text(_plain(value))
    text = str(redact_value({keyword: plain})[keyword])
    return (text or "set") if len(text) <= _LONGEST else text[:_LONGEST - 1] + "…"


def _plain(value: Any) -> Any:
    """Return the value with the objects in a list as their fields."""
    return [item.as_dict() if isinstance(item, Repr) else item for item in value] if isinstance(value, list) else value


def _is_equal(left: Any, right: Any, tolerance: float = 0.0) -> bool:
    """Return whether two values are the same: a list as a repr and as a value, 8192 and 8192.0, True and "true"."""
    numbers = [value for value in (left, right) if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if len(numbers) == 2:
        return abs(numbers[0] - numbers[1]) <= tolerance * max(abs(numbers[0]), abs(numbers[1]))
    if left is None or right is None:
        return left is right
    if isinstance(left, bool) or isinstance(right, bool):
        return str(left).lower() == str(right).lower()
    return str(left).rstrip("/") == str(right).rstrip("/")


def _cleaner(*redactors: Redactor | None) -> Callable[[str], str]:
    known = [redactor for redactor in redactors if redactor is not None]
    if not known:  # --show-secrets
        return safe_text
    redactor = Redactor(*known)
    return lambda text: safe_text(redactor.redact(text))
