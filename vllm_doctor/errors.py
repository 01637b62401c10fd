"""Errors that the user can correct, each reported in one line."""

from __future__ import annotations

import difflib
import errno
from typing import Any

from vllm_doctor.messages import N_, Message, message, text

REASONS = (N_("no such file or directory"), N_("permission denied"), N_("is a directory"), N_("not a directory"),
           N_("no space left on device"), N_("address already in use"), N_("broken pipe"), N_("input/output error"))
"""What the operating system says most often."""


class DoctorError(Exception):
    """A problem to report in one line; the command exits with status 2."""


class InputError(DoctorError):
    """A log that cannot be read."""


class RuleError(DoctorError):
    """An invalid rule file; the message names file, line and column."""


def did_you_mean(word: str, known: list[Any]) -> str:
    """Return `; did you mean `x`?` if a known word is similar, else an empty string."""
    close = difflib.get_close_matches(word, [str(name) for name in known if name], n=1, cutoff=0.6)
    return message("; did you mean `{word}`?", word=close[0]) if close else ""


def failed(name: object, error: Exception) -> Message:
    """Return what could not be read or written, and why."""
    return message("{name}: {reason}", name=name, reason=reason(error))


def reason(error: Exception) -> str:
    """Why reading or writing failed, in words."""
    if isinstance(error, OSError):
        return message("is closed") if error.errno == errno.EBADF else text((error.strerror or str(error)).lower())
    return str(error)
