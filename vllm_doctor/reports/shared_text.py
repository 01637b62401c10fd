"""The text that all human-readable reports share: the headline, the change a fix asks for, the memory's parts."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any

from vllm_doctor.catalog import flags
from vllm_doctor.catalog.releases import Releases
from vllm_doctor.failures import messages
from vllm_doctor.language import ENGLISH, Language
from vllm_doctor.memory import CacheNeed, Memory
from vllm_doctor.messages import N_, Message, joined, message, say
from vllm_doctor.reports.model import Evidence, Failure, Finding, Fix, Place, Report
from vllm_doctor.severity import RANK
from vllm_doctor.text.devices import device_word
from vllm_doctor.text.patterns import lazy_pattern

_TITLE = 240  # characters of a message in a headline
_KINDS = {
    "refusal": N_("vLLM rejected the settings or the model"),
    "bug": N_("errors of this kind are usually bugs in vLLM"),
    "library": N_("a library that vLLM uses raised it"),
    "environment": N_("the installation or the machine is the cause"),
    "resource": N_("memory, disk space or another resource ran out"),
    "request": N_("the request was rejected"),
    "other-software": N_("code outside vLLM raised it"),
    "unknown": N_("the log does not show whose code raised it"),
}
_FROM_FILES = N_("errors of this kind are usually bugs in vLLM, or follow from unusual values in the model's files")
_READ_FROM_FILES = frozenset({"config", "tokenizer", "model-loading", "lora"})
"""Features that take their values from the files of the model or adapter."""
_CALLED = N_("code outside vLLM calls it in a way that this release does not support")
WORDS = (N_("failed"), N_("stalled"), N_("starting"), N_("stopped"), N_("serving"), N_("unknown"), N_("error"),
         N_("warning"), N_("info"), N_("safe"), N_("review"), N_("manual"), N_("log"), N_("computed"), N_("estimated"),
         N_("rest"))
"""What reports show of closed sets of values, in the user's language."""
_ERROR_HEAD = lazy_pattern(r"\A(\d{1,9} validation errors? for \S{1,200})\s{1,40}(?:Value error, |Assertion failed, )?")
_ERROR_DETAILS = lazy_pattern(r" ?\[type=\w{1,60}, input_value=[^\n]*|\n {0,40}For further information visit \S+")
_LANGUAGES = {"python": "python", "yaml": "yaml", "compose": "yaml", "kubernetes": "yaml"}


def log_name(report: Report) -> str:
    """Return the log's name for display, with the run if the log holds several."""
    _ = report.language.say
    name = _("standard input") if report.source.path == "-" else report.source.path
    if report.source.runs <= 1:
        return name
    return _("{name}, run {run} of {runs}", name=name, run=report.source.run, runs=report.source.runs)


def headline(report: Report) -> str:
    """Return the report in one sentence."""
    _ = report.language.say
    cause = report.cause
    if report.status == "stalled":
        return _("The start is stalled")
    if cause is not None:
        return said(cause, report.language)
    if report.unexplained is not None:
        return failure_title(report.unexplained, report.language)
    if report.status == "failed":
        return _("The server failed, and the log does not show the error")
    if report.status == "unknown":
        return (_("No output of a vLLM server in this log") if _fits_every_release(report)
                else _("These lines do not tell the state of the server"))
    if report.status == "serving":
        return serving_line(report)
    if report.status == "stopped":
        return _("Stopped: no failure in this log")
    if report.phase:
        return _("Starting (phase {phase}): no failure so far", phase=report.phase)
    return _("Starting: no failure so far")


def serving_line(report: Report) -> str:
    """Return where a server serves, or how far a script is, and how much the KV cache holds."""
    _ = report.language.say
    facts = report.facts
    is_healthy = all(finding.severity != "warning" for finding in report.findings)
    if facts.get("port"):
        text = (_("Healthy: serving on port {port}", port=facts["port"]) if is_healthy
                else _("Serving on port {port}", port=facts["port"]))
    elif report.batch == "done":
        text = (_("Healthy: the last batch of prompts is complete") if is_healthy
                else _("The last batch of prompts is complete"))
    elif report.batch:
        text = _("Healthy: a batch of prompts is running") if is_healthy else _("A batch of prompts is running")
    else:
        text = _("Healthy: serving") if is_healthy else _("Serving")
    tokens = report.derived.get("kv_cache_capacity_tokens") or facts.get("kv_cache_tokens")
    if tokens and facts.get("max_model_len") and facts.get("max_concurrency"):
        return _("{serving}. KV cache {tokens:,.0f} tokens, {requests:,.0f} requests of {length:,}", serving=text,
                 tokens=tokens, requests=facts["max_concurrency"], length=facts["max_model_len"])
    return _("{serving}. KV cache {tokens:,.0f} tokens", serving=text, tokens=tokens) if tokens else text


def grade(report: Report) -> str:
    """Return the report's overall grade: a severity, or `healthy`."""
    worst = report.worst()
    if worst in {"error", "warning"}:
        return worst
    if report.status == "failed":
        return "error"
    if report.status == "stalled":
        return "warning"
    return "healthy" if report.status in {"serving", "stopped"} else "info"


def file_name(report: Report) -> str:
    """Return the log's file name without its folders."""
    return "stdin" if report.source.path == "-" else report.source.path.replace("\\", "/").rsplit("/", 1)[-1]


def release(report: Report) -> str:
    """Return the vLLM release, and whether it is only inferred from the log's wording; empty if unknown."""
    if not report.release or report.status == "unknown":
        return ""
    if _fits_every_release(report):
        return report.language.say("vLLM release not in the log")
    source = "vLLM {release}" if report.release_is_known else N_("vLLM {release} (from wording)")
    return report.language.say(source, release=report.release)


def _fits_every_release(report: Report) -> bool:
    """Return whether nothing in the log is worded as some releases of vLLM word it."""
    return report.release in {"", say(Releases.every().words(), report.language.gettext)}


def release_notes(report: Report) -> list[str]:
    """Return the note on an unknown release."""
    if not report.release or report.release_is_known or report.status == "unknown":
        return []
    if _fits_every_release(report):
        return [report.language.say("The log does not show the vLLM release.")]
    return [report.language.say("The log does not name the vLLM release; its wording fits {release}.",
                                release=report.release)]


def stall(report: Report) -> str:
    """Return how long a stalled start has printed nothing, and the most frequent reason; "" if it is not stalled."""
    return report.notes[0] if report.status == "stalled" and report.notes else ""


def notes(report: Report) -> tuple[str, ...]:
    """Return the notes for the end of a report: all but the one that `stall` shows at its beginning."""
    return report.notes[1:] if stall(report) else report.notes


def advice(report: Report) -> str:
    """Return what to do when the log shows only the consequences of a failure; empty otherwise."""
    failure = report.unexplained
    if report.cause is not None or report.status != "failed" or (failure is not None and not failure.is_consequence):
        return ""
    return report.language.say(
        "These lines are consequences of another failure. Paste the log from the start of the server up to the "
        "first traceback; with several GPUs or nodes, the log of each worker.")


def _without_envelope(message: str) -> str:
    """Return a message without what pydantic writes behind each error: its type, the input, and where to read more."""
    return _ERROR_HEAD.sub(r"\1: ", _ERROR_DETAILS.sub("", message))


def _is_cut(failure: Failure) -> bool:
    """Return whether the log ends in the calls of a traceback, before its exception."""
    return not failure.exception and failure.origin is not None


def failure_title(failure: Failure, language: Language = ENGLISH) -> str:
    """Return `ValueError: its message` on one line, shortened to fit a headline."""
    message = " ".join(_without_envelope(failure.message).split())
    if len(message) > _TITLE:
        message = message[:_TITLE - 1].rstrip() + "…"
    if not failure.exception:
        message = "" if _is_cut(failure) else message  # of the last call, only the source is known
        return message or language.say("The log ends in a traceback without its exception")
    return f"{failure.exception}: {message}" if message else failure.exception


def failure_status(report: Report) -> str:
    """Return what the failure did to the server, and that no rule explains it; empty without such a failure."""
    failure = report.unexplained
    if failure is None:
        return ""
    _ = report.language.say
    if report.status == "serving" and failure.ends_log:
        done = _("The server was serving; the log does not show whether it went on.")
    elif failure.kind == "request" or report.status in {"serving", "stopped"}:
        done = _("A request failed; the server still runs.") if report.status == "serving" else _("A request failed.")
    elif report.phase in {"runtime", "api"} and report.status == "failed":
        done = (_("vLLM failed after its start.") if report.phase == "runtime" or failure.caller is not None
                else _("The server failed while it started."))
    elif report.phase:
        done = _("The start failed in phase {phase}.", phase=report.phase)
    elif failure.is_alone and _is_cut(failure):
        done = _("The log has no other output of a server.")
    elif failure.is_alone:
        done = _("The log has this error, but no other output of a server.")
    else:
        done = _("The log has this error, but not the start of the server.")
    if failure.is_consequence:
        return done if advice(report) else _("{what} It is a consequence of another failure.", what=done)
    error = f"{failure.exception}: {failure.message}"
    if failure.kind == "resource" and not report.phase and messages.is_of_device_memory(error):
        return _("{what} A device ran out of memory, and the log does not show whether the server was starting or "
                 "serving.", what=done)
    whose = _responsible(failure, report.phase)
    if not whose:
        return _("{what} No rule explains it yet.", what=done)
    return _("{what} No rule explains it yet; {whose}.", what=done, whose=_(whose))


def _responsible(failure: Failure, phase: str | None) -> str:
    """Return whose the failure is, to be translated; empty where only vLLM's file that has the message is known."""
    is_seen = failure.origin is not None or bool(failure.message_file)
    if failure.kind == "other-software" and failure.origin is not None and failure.origin.package == "vllm":
        return _CALLED
    if failure.kind == "unknown" and failure.message_file:
        return ""
    if _is_cut(failure) or (failure.kind == "bug" and failure.is_alone and not is_seen):
        return _KINDS["unknown"]
    if failure.kind == "bug" and failure.feature in _READ_FROM_FILES and phase != "runtime":
        return _FROM_FILES
    return _KINDS[failure.kind]


def failure_place(failure: Failure, language: Language = ENGLISH) -> str:
    """Return where the failure was raised and whose code that is; empty if the log does not show it."""
    places = []
    if failure.origin is not None:
        place, whose = _place(failure.origin), _whose(failure.origin)
        places.append(message("The last call in the log is {place}, {whose}.", place=place, whose=whose)
                      if _is_cut(failure) else message("Raised in {place}, {whose}.", place=place, whose=whose))
    if failure.message_file:
        places.append(message("In vLLM, {file} has an error with these words.", file=failure.message_file))
    own = failure.own_frame
    if own is not None and own != failure.origin:
        places.append(message("The last call in your own code or the model's: {place}.", place=_place(own)))
    if failure.vllm_frame is not None:
        places.append(message("Called from {place}.", place=_place(failure.vllm_frame)))
    is_in_vllm = failure.vllm_frame is not None or (failure.origin is not None and failure.origin.package == "vllm")
    if failure.caller and is_in_vllm:
        places.append(message("vLLM was called by {caller}.", caller=failure.caller))
    return joined(" ", places).said(language.gettext)


def _place(place: Place) -> str:
    line = f":{place.line}" if place.line else ""
    return f"{place.file}{line}" + (f" ({place.function})" if place.function else "")


def _whose(place: Place) -> str:
    if place.package == "vllm":
        return message("vLLM's own code")
    if place.package == "transformers_modules":
        return message("the model's own code (trust_remote_code)")
    if place.package == "python":
        return message("Python's standard library")
    if place.package:
        return message("code of the package {package}", package=place.package)
    return message("your own code or a plugin")


def said(finding: Finding, language: Language = ENGLISH) -> str:
    """Return the finding's title with the ranks that reported it."""
    if not finding.ranks:
        return finding.title
    return language.say("{title} ({where})", title=finding.title, where=finding.ranks)


def evidence_text(finding: Finding, language: Language = ENGLISH) -> str:
    """Return the finding's evidence, one numbered log line per line."""
    return "\n".join(line_with(item, language) for item in finding.evidence)


def line_with(item: Evidence | Failure, language: Language = ENGLISH) -> str:
    """Return `line 12: its text`."""
    return language.say("line {number}: {text}", number=item.line, text=item.text)


def line_of(number: int, language: Language = ENGLISH) -> str:
    """Return `line 12`."""
    return language.say("line {number}", number=number)


def evidence_rows(finding: Finding) -> list[tuple[int | None, str]]:
    """Return (line number, text) of each log line of the evidence."""
    return [(item.line, item.text) for item in finding.evidence]


def shown_causes(report: Report) -> list[Finding]:
    """Return the findings that may be the cause; reports show them in full."""
    return [finding for finding in report.findings if finding.role == "cause" and not finding.recovered]


def reported(report: Report) -> list[Finding]:
    """Return the findings to report: beside a failure, neither its consequences nor remarks on normal operation."""
    is_named = report.cause is not None or report.unexplained is not None
    return [finding for finding in report.findings
            if not (is_named and finding.role == "cascade")
            and not (report.status == "failed" and finding.role == "advice" and finding.severity == "info")]


def others(report: Report) -> list[Finding]:
    """Return the findings that reports show in short."""
    causes = shown_causes(report)
    return [finding for finding in reported(report) if finding not in causes]


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings, most severe first and causes before consequences; otherwise in the report's order."""
    return sorted(findings, key=lambda f: (RANK.get(f.severity, 2), f.role != "cause" or f.recovered))


def effect(fix: Fix) -> str:
    """Return what a fix costs, else why it helps; a step to try always says so."""
    return joined(" ", filter(None, (fix.why if fix.is_step or not fix.cost else "", fix.cost))).said(str)


def change(fix: Fix, language: Language = ENGLISH) -> tuple[str, str]:
    """Return (language, text) of what to run or set: the command, the patch or the settings; ("", "") if none."""
    if fix.command:
        return "bash", fix.command
    if fix.patch and fix.patch.get("text"):
        return _LANGUAGES.get(str(fix.patch.get("kind")), ""), str(fix.patch["text"])
    if fix.program is not None:  # its steps say what to set, and where
        return "", ""
    return "", "\n".join(settings(fix, language))


def _words(flag: str, value: str) -> str:
    """Return a flag's value as typed in a shell, as several words if it takes several integers."""
    known = flags.lookup(flag)
    if known is not None and known.kind == "list" and all(word.isdigit() for word in value.split()):
        return value
    return shlex.quote(value)


def settings(fix: Fix, language: Language = ENGLISH) -> list[str]:
    """Return what a fix sets or removes, each as typed in a shell."""
    return [*(f"{name}={shlex.quote(value)}" for name, value in fix.env.items()),
            *(f"{name} {_words(name, value)}" if value else name for name, value in fix.flags.items()),
            *(language.say("remove {name}", name=name) for name in fix.unset)]


def numbered(failure: Failure) -> list[tuple[int | None, str]]:
    """Return the lines of a failure's excerpt, with the line number of the exception, the only one known."""
    lines = failure.text.split("\n")
    first = len(lines) - 1 - failure.message.count("\n")
    return [(failure.line if index == first else None, line) for index, line in enumerate(lines)]


def memory_shown(report: Report) -> Memory | None:
    """Return the memory, or None unless the log itself reports at least two parts of it."""
    memory = report.memory
    if memory is None or sum(part.origin == "log" for part in memory.parts) < 2:
        return None
    return memory


def memory_title(report: Report) -> str:
    """Return the title of the memory table, such as "Memory of one GPU of 24.00 GiB, budget 21.60 GiB"."""
    _, memory = report.language.say, report.memory
    kind = str(report.facts.get("device") or "")
    device = _("CPU node") if kind == "cpu" else device_word(kind)
    total, budget = (memory.device_gib, memory.budget_gib) if memory is not None else (None, None)
    if total and budget:
        return _("Memory of one {device} of {total:.2f} GiB, budget {budget:.2f} GiB", device=device, total=total,
                 budget=budget)
    if total:
        return _("Memory of one {device} of {total:.2f} GiB", device=device, total=total)
    if budget:
        return _("Memory of one {device}, budget {budget:.2f} GiB", device=device, budget=budget)
    return _("Memory of one {device}", device=device)


_LENGTH_HEADS = (N_("Context"), N_("KV cache"), N_("requests at once"), N_("FP8 cache"), N_("requests at once"))


def length_heads(report: Report) -> tuple[str, ...]:
    """Return the heads of the table of context lengths."""
    return tuple(map(report.language.gettext, _LENGTH_HEADS))


def length_rows(report: Report) -> list[tuple[str, str, str, str, str]]:
    """Return the cells of the table of context lengths, one row per length."""
    language = report.language
    return [(f"{row.tokens:,}", _gib(row.sixteen_bits), _requests(row.sixteen_bits, language),
             _gib(row.fp8), _requests(row.fp8, language)) for row in report.lengths]


def _gib(need: CacheNeed | None) -> str:
    return "" if need is None else f"{need.gib:.2f} GiB"


def _requests(need: CacheNeed | None, language: Language) -> str:
    """Return how many requests fit, and what it takes where not even one does."""
    if need is None or need.requests is None:
        return ""
    if need.requests >= 1:
        return f"{int(need.requests * 10) / 10:,.1f}"
    if need.utilization is not None:
        return language.say("0 (1 at utilization {share:g})", share=need.utilization)
    return "0" if need.suffices else language.say("0 (too long)")


_PARTS = {
    "kv_cache": N_("KV cache"), "cuda_graphs": N_("CUDA graphs"), "non_torch": N_("non-torch memory"),
    "runtime": N_("CUDA context, NCCL, allocator"), "reserved_unallocated": N_("reserved, not allocated"),
    "weights": N_("weights"), "activations": N_("activations"), "other_processes": N_("other processes"),
    "free": N_("free"), "outside_budget": N_("outside budget"), "unaccounted": N_("unaccounted"),
}  # fmt: skip


def part_label(name: str, language: Language = ENGLISH) -> str:
    """Return the display name of a part of the memory."""
    labels = [_PARTS.get(part, part.replace("_", " ")) for part in name.split("_and_")]
    return language.gettext(", ").join(map(language.gettext, labels))


def fact_rows(report: Report) -> list[tuple[str, str, str]]:
    """Return (label, value, where) of each fact and each derived number."""
    rows = []
    for name, value in report.facts.items():
        lines = list(dict.fromkeys(str(place["line"]) for place in report.facts_at.get(name, ())))
        where = joined(", ", lines[:3] + ["…"] * (len(lines) > 3)).said(report.language.gettext)
        rows.append((fact_label(name, report.language), value_text(value), where))
    computed = report.language.say("computed")
    return rows + [(fact_label(name, report.language), value_text(value), computed)
                   for name, value in report.derived.items()]


_WORDS = {
    "api": "API", "cpu": "CPU", "cuda": "CUDA", "fp8": "FP8", "gpu": "GPU", "gpus": "GPUs", "hf": "Hugging Face",
    "json": "JSON", "kv": "KV", "lora": "LoRA", "loras": "LoRAs", "mm": "multimodal", "nccl": "NCCL", "npu": "NPU",
    "oom": "OOM", "ram": "RAM", "ray": "Ray", "rocm": "ROCm", "shm": "shared memory", "v0": "V0", "v1": "V1",
    "vllm": "vLLM", "pytorch": "PyTorch", "len": "length", "num": "number of", "seqs": "sequences",
    "dtype": "data type", "numpy": "NumPy", "nvshmem": "NVSHMEM", "otlp": "OTLP",
}  # fmt: skip
_UNITS = {"gib": "GiB", "gb": "GB", "mib": "MiB", "bytes": "bytes", "seconds": "s", "percent": "%", "s": "s"}


def fact_message(name: str) -> Message:
    """Return a fact's name in lower case, for a list of differences."""
    text = name.replace("_gib", " (GiB)").replace("_", " ")
    return Message(text, lambda translate: translate(fact_label(name)) if translate(text) == text else translate(text))


def fact_label(name: str, language: Language = ENGLISH) -> str:
    """Return a fact's name for display: `KV cache available (GiB)` for `kv_cache_available_gib`."""
    words = name.split("_")
    unit = f" ({_UNITS[words.pop()]})" if len(words) > 1 and words[-1] in _UNITS and "per" not in words else ""
    text = " ".join(_WORDS.get(word, word) for word in words)
    return language.gettext((text if text.startswith("vLLM") else text[:1].upper() + text[1:]) + unit)


def proof(report: Report, fix: Fix) -> str:
    """Return the log's own numbers that a fix was computed from, with their names."""
    known = [name for name in fix.proof if name in report.facts or name in report.derived]
    numbers = (f"{fact_label(name, report.language)} {value_text(fix.proof[name])}" for name in known)
    return joined(", ", numbers).said(report.language.gettext)


def value_text(value: Any) -> str:
    """Return a fact's value formatted for display."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{round(value, 6):g}" if abs(value) < 1e6 else str(round(value, 2))
    if isinstance(value, (list, tuple)):
        return ", ".join(value_text(item) for item in value)
    return str(value)


def as_many_as_fit(pieces: Iterable[str], most: int) -> str:
    """Return the pieces that fit in `most` bytes, as paragraphs. No piece is cut: a cut command is a wrong one."""
    made = ""
    for piece in pieces:
        longer = f"{made}\n\n{piece}" if made else piece
        if piece and len(longer.encode("utf-8", "replace")) <= most:
            made = longer
    return made
