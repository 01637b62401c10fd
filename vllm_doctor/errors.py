"""What can go wrong on the user's side, each with one clear line."""

from __future__ import annotations


class DoctorError(Exception):
    """A problem to tell in one line; the command ends with status 2."""


class InputError(DoctorError):
    """A log that cannot be read."""


class RuleError(DoctorError):
    """A rule file that cannot be used; the text names file, line and column."""
