"""Report errors that the user can correct."""

from __future__ import annotations

import sys

import click

from vllm_doctor.cli.streams import discard
from vllm_doctor.errors import DoctorError
from vllm_doctor.language import language
from vllm_doctor.messages import say
from vllm_doctor.redact import redact
from vllm_doctor.reports.escape import inert_text, one_line


def report_error(problem: DoctorError) -> None:
    """Print an error in the user's language on one line of stderr, printable and without secrets."""
    context = click.get_current_context(silent=True)
    code = context.find_root().obj if context else None
    words = problem.args[0] if problem.args else ""
    text = say(words, language(code).gettext) if code and isinstance(words, str) else str(problem)
    print_error_line(f"vllm-doctor: {inert_text(one_line(redact(text)))}")


def print_error_line(text: str) -> bool:
    """Print a line on stderr. Returns False if it is closed or its disk is full."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        discard(2)
        return False
    return True
