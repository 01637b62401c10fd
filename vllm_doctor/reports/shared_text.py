"""What the reports for people say in the same words: the headline, the change a fix asks for, the memory's parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vllm_doctor.memory import Memory
from vllm_doctor.reports.model import Finding, Fix, Report, Unexplained
from vllm_doctor.severity import RANK

__all__ = ["advice", "change", "evidence_rows", "evidence_text", "fact_rows",
           "headline", "log_name", "memory_shown", "memory_title", "numbered", "others",
           "part_label", "ranked", "said", "shown_causes", "value_text"]

_LANGUAGES = {"python": "python", "yaml": "yaml", "compose": "yaml", "kubernetes": "yaml"}


def log_name(report: Report) -> str:
    """The log as a person calls it, with the run where it holds several."""
    name = "standard input" if report.source.path == "-" else report.source.path
    return name + (f", run {report.source.run} of {report.source.runs}" if report.source.runs > 1 else "")


def headline(report: Report) -> str:
    """The report in one sentence."""
    cause = report.cause
    if cause is not None:
        return said(cause)
    if report.unexplained is not None:
        return "The server failed, and no rule knows the cause"
    if report.status == "failed":
        return "The server failed, and the cause is not in this log"
    if report.status == "unknown":
        return "Nothing of vLLM was recognised in this log"
    phase = f" (phase {report.phase})" if report.phase and report.status == "starting" else ""
    return f"No failure found: the server is {report.status}{phase}"


def advice(report: Report) -> str:
    """What to do when no cause is known; empty when one is, or when nothing failed."""
    if report.cause is not None or report.status != "failed":
        return ""
    if report.unexplained is not None:
        return ("If this is not the beginning of the log, take the part from the start of the server up to the first "
                "traceback: the cause stands above the last lines. A log that no rule knows is worth an issue, with "
                "its vLLM release and command.")
    return ("What is here is the aftermath. Take the log from the start of the server up to the first traceback; with "
            "several GPUs or nodes, the log of each worker.")


def said(finding: Finding) -> str:
    """The title, with the ranks that say it."""
    return finding.title + (f" ({finding.ranks})" if finding.ranks else "")


def evidence_text(finding: Finding) -> str:
    """The lines of the log that say it, each with its number."""
    return "\n".join(f"line {item.line}: {item.text}" for item in finding.evidence)


def evidence_rows(finding: Finding) -> list[tuple[int | None, str]]:
    """(line, text) of each line of the log that says it."""
    return [(item.line, item.text) for item in finding.evidence]


def shown_causes(report: Report) -> list[Finding]:
    """The findings told in full: what may be the cause."""
    return [finding for finding in report.findings if finding.role == "cause" and not finding.recovered]


def others(report: Report) -> list[Finding]:
    """The findings told in short."""
    told = shown_causes(report)
    return [finding for finding in report.findings if finding not in told]


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """The gravest first; causes before what follows from them; otherwise in the report's order."""
    return sorted(findings, key=lambda f: (RANK.get(f.severity, 2), f.role != "cause" or f.recovered))


def change(fix: Fix) -> tuple[str, str]:
    """(language, text) of what to run or set: the command, else the patch, else the settings; ("", "") for none."""
    if fix.command:
        return "bash", fix.command
    if fix.patch and fix.patch.get("text"):
        return _LANGUAGES.get(str(fix.patch.get("kind")), ""), str(fix.patch["text"])
    settings = [f"{name}={value}" for name, value in fix.env.items()]
    settings += [f"{name} {value}".strip() for name, value in fix.flags.items()]
    settings += [f"without {name}" for name in fix.unset]
    return "", "\n".join(settings)


def numbered(block: Unexplained) -> list[tuple[int | None, str]]:
    """The lines of an error block; only the first one's number in the log is known."""
    return [(None if index else block.line, line) for index, line in enumerate(block.text.split("\n"))]


def memory_shown(report: Report) -> Memory | None:
    """The memory, when the log itself tells more than one part of it."""
    memory = report.memory
    if memory is None or sum(part.origin == "log" for part in memory.parts) < 2:
        return None
    return memory


def memory_title(report: Report) -> str:
    """"Memory of one GPU of 24.00 GiB, budget 21.60 GiB"."""
    memory = report.memory
    title = "Memory of one " + ("CPU node" if report.facts.get("device") == "cpu" else "GPU")
    if memory is not None and memory.device_gib:
        title += f" of {memory.device_gib:.2f} GiB"
    if memory is not None and memory.budget_gib:
        title += f", budget {memory.budget_gib:.2f} GiB"
    return title


def part_label(name: str) -> str:
    """A part's name in words."""
    return {"kv_cache": "KV cache", "cuda_graphs": "CUDA graphs", "non_torch": "outside PyTorch"}.get(
        name, name.replace("_", " "))


def fact_rows(report: Report) -> list[tuple[str, str, str]]:
    """(name, value, where) of each fact and each derived number."""
    rows = []
    for name, value in report.facts.items():
        lines = list(dict.fromkeys(str(place["line"]) for place in report.facts_at.get(name, ())))
        where = ", ".join(lines[:3]) + (", …" if len(lines) > 3 else "")
        rows.append((name, value_text(value), where))
    return rows + [(name, value_text(value), "computed") for name, value in report.derived.items()]


def value_text(value: Any) -> str:
    """A fact's value as a person writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{round(value, 6):g}" if abs(value) < 1e6 else str(round(value, 2))
    if isinstance(value, (list, tuple)):
        return ", ".join(value_text(item) for item in value)
    return str(value)
