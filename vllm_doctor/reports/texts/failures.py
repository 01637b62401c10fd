"""A failure that no rule explains: its title, what it did to the server, where it was raised, and what to ask for."""

from __future__ import annotations

from vllm_doctor.failures import Place, error_lines
from vllm_doctor.language import ENGLISH, Language
from vllm_doctor.messages import N_, joined, message
from vllm_doctor.reports.model import MESSAGE_LINES, Failure, Report
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
_ERROR_HEAD = lazy_pattern(r"\A(\d{1,9} validation errors? for \S{1,200})\s{1,40}(?:Value error, |Assertion failed, )?")
_ERROR_DETAILS = lazy_pattern(r" ?\[type=\w{1,60}, input_value=[^\n]*|\n {0,40}For further information visit \S+")


def failure_title(failure: Failure, language: Language = ENGLISH) -> str:
    """Return `ValueError: its message` on one line, shortened to fit a headline."""
    message = " ".join(_without_envelope(failure.message).split())
    if len(message) > _TITLE:
        message = message[:_TITLE - 1].rstrip() + "…"
    if not failure.exception:
        message = "" if _is_cut(failure) and _is_source(failure) else message
        return message or language.say("The log ends in a traceback without its exception")
    return f"{failure.exception}: {message}" if message else failure.exception


def _without_envelope(message: str) -> str:
    """Return a message without what pydantic writes behind each error: its type, the input, and where to read more."""
    return _ERROR_HEAD.sub(r"\1: ", _ERROR_DETAILS.sub("", message))


def _is_cut(failure: Failure) -> bool:
    """Return whether the log ends in the calls of a traceback, before its exception."""
    return not failure.exception and failure.origin is not None


def _is_source(failure: Failure) -> bool:
    """Return whether the message is only the source line of the last call."""
    return f"    {failure.message}\n" in failure.text


def failure_status(report: Report) -> str:
    """Return what the failure did to the server, and that no rule explains it; empty without such a failure."""
    failure = report.unexplained
    if failure is None:
        return ""
    _ = report.language.say
    if report.status == "serving" and failure.ends_log:
        done = _("The server was serving; the log does not show whether it went on.")
    elif failure.kind == "request" or report.status in {"serving", "stopped"}:
        runs = report.status == "serving" and not failure.is_consequence  # it may follow from the engine's end
        done = _("A request failed; the server still runs.") if runs else _("A request failed.")
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
    if failure.kind == "resource" and not report.phase and error_lines.is_of_device_memory(error):
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
    return joined(" ", places).translated(language.gettext)


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


def advice(report: Report) -> str:
    """Return what to do when the log shows only the consequences of a failure; empty otherwise."""
    failure = report.unexplained
    if report.cause is not None or report.status != "failed" or (failure is not None and not failure.is_consequence):
        return ""
    return report.language.say(
        "These lines are consequences of another failure. Paste the log from the start of the server up to the "
        "first traceback; with several GPUs or nodes, the log of each worker.")


def numbered(failure: Failure) -> list[tuple[int | None, str]]:
    """Return the lines of a failure's excerpt, with the line number of the exception, the only one known."""
    lines = failure.text.split("\n")
    first = len(lines) - min(failure.message.count("\n") + 1, MESSAGE_LINES)
    return [(failure.line if index == first else None, line) for index, line in enumerate(lines)]
