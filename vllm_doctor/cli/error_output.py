"""Report errors that the user can correct."""

from __future__ import annotations

import sys

from vllm_doctor.cli.streams import discard
from vllm_doctor.errors import DoctorError
from vllm_doctor.redact import redact
from vllm_doctor.reports.escape import inert_text, one_line


def report_error(problem: DoctorError) -> None:
    """Print an error on one line of stderr, with control characters escaped and secrets masked."""
    print_error_line(f"vllm-doctor: {inert_text(one_line(redact(str(problem))))}")


def print_error_line(text: str) -> bool:
    """Print a line on stderr. Returns False if it is closed or its disk is full."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        discard(2)
        return False
    return True
