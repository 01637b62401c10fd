"""The text that all human-readable reports share: the headline, the change a fix asks for, the memory's parts."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any

from vllm_doctor.catalog.releases import Releases
from vllm_doctor.memory import CacheNeed, Memory
from vllm_doctor.reports.model import Failure, Finding, Fix, Place, Report
from vllm_doctor.severity import RANK

_TITLE = 240  # characters of a message in a headline
_KINDS = {
    "refusal": "vLLM rejected the settings or the model",
    "bug": "errors of this kind are usually bugs in vLLM",
    "library": "a library that vLLM uses raised it",
    "environment": "the installation or the machine is the cause",
    "resource": "memory, disk space or another resource ran out",
    "request": "the request was rejected",
    "other-software": "code outside vLLM raised it",
    "unknown": "the log does not show whose code raised it",
}
_STEP = "a step to try"
_LANGUAGES = {"python": "python", "yaml": "yaml", "compose": "yaml", "kubernetes": "yaml"}


def log_name(report: Report) -> str:
    """Return the log's name for display, with the run if the log holds several."""
    name = "standard input" if report.source.path == "-" else report.source.path
    return name + (f", run {report.source.run} of {report.source.runs}" if report.source.runs > 1 else "")


def headline(report: Report) -> str:
    """Return the report in one sentence."""
    cause = report.cause
    if report.status == "stalled":
        return "The start is stalled"
    if cause is not None:
        return said(cause)
    if report.unexplained is not None:
        return failure_title(report.unexplained)
    if report.status == "failed":
        return "The server failed, and the log does not show the error"
    if report.status == "unknown":
        return "No output of a vLLM server in this log"
    if report.status == "serving":
        return serving_line(report)
    if report.status == "stopped":
        return "Stopped: no failure in this log"
    phase = f" (phase {report.phase})" if report.phase else ""
    return f"Starting{phase}: no failure so far"


def serving_line(report: Report) -> str:
    """Return where a server serves and how much its KV cache holds."""
    facts = report.facts
    troubled = any(finding.severity == "warning" for finding in report.findings)
    text = "Serving" if troubled else "Healthy: serving"
    if facts.get("port"):
        text += f" on port {facts['port']}"
    tokens = report.derived.get("kv_cache_capacity_tokens") or facts.get("kv_cache_tokens")
    if tokens:
        text += f". KV cache {tokens:,.0f} tokens"
        if facts.get("max_model_len") and facts.get("max_concurrency"):
            text += f", {facts['max_concurrency']:,.0f} requests of {facts['max_model_len']:,}"
    return text


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
    if report.release == Releases.every().words():
        return "vLLM release not in the log"
    return f"vLLM {report.release}" + ("" if report.release_is_known else " (from wording)")


def release_notes(report: Report) -> list[str]:
    """Return the note on an unknown release."""
    if not report.release or report.release_is_known or report.status == "unknown":
        return []
    if report.release == Releases.every().words():
        return ["The log does not show the vLLM release."]
    return [f"The log does not name the vLLM release; its wording fits {report.release}."]


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
    return ("These lines are consequences of another failure. Paste the log from the start of the server up to the "
            "first traceback; with several GPUs or nodes, the log of each worker.")


def failure_title(failure: Failure) -> str:
    """Return `ValueError: its message` on one line, shortened to fit a headline."""
    message = " ".join(failure.message.split())
    if len(message) > _TITLE:
        message = message[:_TITLE - 1].rstrip() + "…"
    if not failure.exception:
        return message or "The log ends in a traceback without its exception"
    return f"{failure.exception}: {message}" if message else failure.exception


def failure_status(report: Report) -> str:
    """Return what the failure did to the server, and that no rule explains it; empty without such a failure."""
    failure = report.unexplained
    if failure is None:
        return ""
    phase = f" in phase {report.phase}" if report.phase else ""
    if failure.kind == "request" or report.status in {"serving", "stopped"}:
        done = "A request failed; the server still runs." if report.status == "serving" else "A request failed."
    elif report.phase in {"runtime", "api"} and report.status == "failed":
        done = f"The server failed while it {'served' if report.phase == 'runtime' else 'started'}."
    elif report.phase:
        done = f"The start failed{phase}."
    else:
        done = "The log has this error, but no other output of a server."
    return f"{done} No rule explains it yet; {_KINDS[failure.kind]}."


def failure_place(failure: Failure) -> str:
    """Return where the failure was raised and whose code that is; empty if the log does not show it."""
    places = []
    if failure.origin is not None:
        places.append(f"Raised in {_place(failure.origin)}, {_whose(failure.origin)}.")
    own = failure.own_frame
    if own is not None and own != failure.origin:
        places.append(f"The last call in your own code or the model's: {_place(own)}.")
    if failure.vllm_frame is not None:
        places.append(f"Called from {_place(failure.vllm_frame)}.")
    if failure.caller:
        places.append(f"vLLM was called by {failure.caller}.")
    return " ".join(places)


def _place(place: Place) -> str:
    line = f":{place.line}" if place.line else ""
    return f"{place.file}{line}" + (f" ({place.function})" if place.function else "")


def _whose(place: Place) -> str:
    if place.package == "vllm":
        return "vLLM's own code"
    if place.package == "transformers_modules":
        return "the model's own code (trust_remote_code)"
    if place.package == "python":
        return "Python's standard library"
    return f"code of the package {place.package}" if place.package else "your own code or a plugin"


def said(finding: Finding) -> str:
    """Return the finding's title with the ranks that reported it."""
    return finding.title + (f" ({finding.ranks})" if finding.ranks else "")


def evidence_text(finding: Finding) -> str:
    """Return the finding's evidence, one numbered log line per line."""
    return "\n".join(f"line {item.line}: {item.text}" for item in finding.evidence)


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
    is_step = _STEP in fix.why.lower()
    return " ".join(text for text in (fix.why if is_step or not fix.cost else "", fix.cost) if text)


def change(fix: Fix) -> tuple[str, str]:
    """Return (language, text) of what to run or set: the command, the patch or the settings; ("", "") if none."""
    if fix.command:
        return "bash", fix.command
    if fix.patch and fix.patch.get("text"):
        return _LANGUAGES.get(str(fix.patch.get("kind")), ""), str(fix.patch["text"])
    if fix.program is not None:  # its steps say what to set, and where
        return "", ""
    return "", "\n".join(settings(fix))


def settings(fix: Fix) -> list[str]:
    """Return what a fix sets or removes, each as typed in a shell."""
    return [*(f"{name}={shlex.quote(value)}" for name, value in fix.env.items()),
            *(f"{name} {shlex.quote(value)}" if value else name for name, value in fix.flags.items()),
            *(f"remove {name}" for name in fix.unset)]


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
    memory = report.memory
    title = "Memory of one " + ("CPU node" if report.facts.get("device") == "cpu" else "GPU")
    if memory is not None and memory.device_gib:
        title += f" of {memory.device_gib:.2f} GiB"
    if memory is not None and memory.budget_gib:
        title += f", budget {memory.budget_gib:.2f} GiB"
    return title


LENGTH_HEADS = ("Context", "KV cache", "requests at once", "FP8 cache", "requests at once")
"""The heads of the table of context lengths."""


def length_rows(report: Report) -> list[tuple[str, str, str, str, str]]:
    """Return the cells of the table of context lengths, one row per length."""
    return [(f"{row.tokens:,}", _gib(row.sixteen_bits), _requests(row.sixteen_bits),
             _gib(row.fp8), _requests(row.fp8)) for row in report.lengths]


def _gib(need: CacheNeed | None) -> str:
    return "" if need is None else f"{need.gib:.2f} GiB"


def _requests(need: CacheNeed | None) -> str:
    """Return how many requests fit, and what it takes where not even one does."""
    if need is None or need.requests is None:
        return ""
    if need.requests >= 1:
        return f"{int(need.requests * 10) / 10:,.1f}"
    if need.utilization is not None:
        return f"0 (1 at utilization {need.utilization:g})"
    return "0" if need.suffices else "0 (too long)"


def part_label(name: str) -> str:
    """Return the display name of a part of the memory."""
    labels = {"kv_cache": "KV cache", "cuda_graphs": "CUDA graphs", "non_torch": "non-torch memory",
              "runtime": "CUDA context, NCCL, allocator", "reserved_unallocated": "reserved, not allocated"}
    return ", ".join(labels.get(part, part.replace("_", " ")) for part in name.split("_and_"))


def fact_rows(report: Report) -> list[tuple[str, str, str]]:
    """Return (label, value, where) of each fact and each derived number."""
    rows = []
    for name, value in report.facts.items():
        lines = list(dict.fromkeys(str(place["line"]) for place in report.facts_at.get(name, ())))
        where = ", ".join(lines[:3]) + (", …" if len(lines) > 3 else "")
        rows.append((fact_label(name), value_text(value), where))
    return rows + [(fact_label(name), value_text(value), "computed") for name, value in report.derived.items()]


_WORDS = {
    "api": "API", "cpu": "CPU", "cuda": "CUDA", "fp8": "FP8", "gpu": "GPU", "gpus": "GPUs", "hf": "Hugging Face",
    "json": "JSON", "kv": "KV", "lora": "LoRA", "loras": "LoRAs", "mm": "multimodal", "nccl": "NCCL", "npu": "NPU",
    "oom": "OOM", "ram": "RAM", "ray": "Ray", "rocm": "ROCm", "shm": "shared memory", "v0": "V0", "v1": "V1",
    "vllm": "vLLM", "pytorch": "PyTorch", "len": "length", "num": "number of", "seqs": "sequences",
    "dtype": "data type",
}  # fmt: skip
_UNITS = {"gib": "GiB", "gb": "GB", "mib": "MiB", "bytes": "bytes", "seconds": "s", "percent": "%", "s": "s"}


def fact_label(name: str) -> str:
    """Return a fact's name for display: `KV cache available (GiB)` for `kv_cache_available_gib`."""
    words = name.split("_")
    unit = f" ({_UNITS[words.pop()]})" if len(words) > 1 and words[-1] in _UNITS and "per" not in words else ""
    text = " ".join(_WORDS.get(word, word) for word in words)
    return (text if text.startswith("vLLM") else text[:1].upper() + text[1:]) + unit


def proof_rows(report: Report, fix: Fix) -> list[tuple[str, str]]:
    """Return (label, value) of the log's own numbers that a fix was computed from."""
    return [(fact_label(name), value_text(value)) for name, value in fix.proof.items()
            if name in report.facts or name in report.derived]


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
