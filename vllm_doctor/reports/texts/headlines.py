"""What a report says in its first and last lines: the log, its state, the vLLM release, and notes."""

from __future__ import annotations

from vllm_doctor.catalog.releases import Releases
from vllm_doctor.messages import N_, say
from vllm_doctor.reports.model import Report
from vllm_doctor.reports.texts.failures import failure_title
from vllm_doctor.reports.texts.findings import title_with_ranks

WORDS = (N_("failed"), N_("stalled"), N_("starting"), N_("stopped"), N_("serving"), N_("unknown"), N_("error"),
         N_("warning"), N_("info"), N_("safe"), N_("review"), N_("manual"), N_("log"), N_("computed"), N_("estimated"),
         N_("rest"))
"""What reports show of closed sets of values, in the user's language."""


def log_name(report: Report) -> str:
    """Return the log's name for display, with the run if the log holds several."""
    _ = report.language.say
    name = _("standard input") if report.source.path == "-" else report.source.path
    if report.source.runs <= 1:
        return name
    return _("{name}, run {run} of {runs}", name=name, run=report.source.run, runs=report.source.runs)


def file_name(report: Report) -> str:
    """Return the log's file name without its folders."""
    return "stdin" if report.source.path == "-" else report.source.path.replace("\\", "/").rsplit("/", 1)[-1]


def headline(report: Report) -> str:
    """Return the report in one sentence."""
    _ = report.language.say
    cause = report.cause
    if report.status == "stalled":
        return _("The start is stalled")
    if cause is not None:
        return title_with_ranks(cause, report.language)
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
