"""Report errors that the user can correct."""

from __future__ import annotations

import sys

from vllm_doctor.errors import DoctorError
from vllm_doctor.reports.escape import inert_text, one_line


def report_error(problem: DoctorError) -> None:
    """Print an error on one line of stderr, with control characters escaped."""
    print_error_line(f"vllm-doctor: {inert_text(one_line(str(problem)))}")


def print_error_line(text: str) -> None:
    """Print a line on stderr; nothing if stderr is closed, where `print` would use stdout instead."""
    if sys.stderr is not None:
        print(text, file=sys.stderr)
