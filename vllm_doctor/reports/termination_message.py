"""A container's termination message: the cause in a few lines, for the pod's status (`kubectl describe pod`)."""

from __future__ import annotations

from vllm_doctor.reports import texts
from vllm_doctor.reports.model import Report
from vllm_doctor.reports.output import finish

MAX_BYTES = 4096
"""Kubernetes cuts a longer message."""


def render(report: Report) -> str:
    """Return the message, at most MAX_BYTES; "" if the log shows no error. Secrets are redacted."""
    if report.worst() != "error" and report.status != "failed":
        return ""
    cause, failure = report.cause, report.unexplained
    language = report.language
    pieces = [texts.headline(report)]
    if cause is not None:
        pieces += [cause.explanation, *(texts.line_with(item, language) for item in cause.evidence[:1])]
        pieces += ["\n".join((language.say("Fix: {title}", title=fix.title),
                              texts.change(fix, language)[1])).strip()
                   for fix in cause.fixes[:1]]
        pieces += [f"vllm-doctor explain {cause.id}"]
    elif failure is not None:
        pieces += [texts.failure_place(failure, language), texts.line_with(failure, language)]
    return texts.as_many_as_fit([finish(piece, "text", [report]) for piece in pieces], MAX_BYTES - 1) + "\n"
