"""Errors that the user can correct, each reported in one line."""

from __future__ import annotations

import difflib
from typing import Any


class DoctorError(Exception):
    """A problem to report in one line; the command exits with status 2."""


class InputError(DoctorError):
    """A log that cannot be read."""


class RuleError(DoctorError):
    """An invalid rule file; the message names file, line and column."""


def did_you_mean(word: str, known: list[Any]) -> str:
    """Return `; did you mean `x`?` if a known word is similar, else an empty string."""
    close = difflib.get_close_matches(word, [str(name) for name in known if name], n=1, cutoff=0.6)
    return f"; did you mean `{close[0]}`?" if close else ""
