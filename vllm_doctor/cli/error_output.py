"""How a problem on the user's side is told."""

from __future__ import annotations

import sys

from vllm_doctor.cli.streams import discard
from vllm_doctor.errors import DoctorError
from vllm_doctor.reports.escape import inert_text, one_line


def tell(problem: DoctorError) -> None:
    """One line on stderr, whatever a file's name holds."""
    say(f"vllm-doctor: {inert_text(one_line(str(problem)))}")


def say(text: str) -> bool:
    """Write a line on stderr; whether that could be done: it may be closed, or a full disk."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        discard(2)
        return False
    return True
