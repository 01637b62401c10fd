"""How a problem on the user's side is told."""

from __future__ import annotations

import sys

from vllm_doctor.errors import DoctorError
from vllm_doctor.reports.escape import inert_text, one_line


def tell(problem: DoctorError) -> None:
    """One line on stderr, whatever a file's name holds."""
    say(f"vllm-doctor: {inert_text(one_line(str(problem)))}")


def say(text: str) -> None:
    """A line on stderr, where there is one: `print` would take stdout instead."""
    if sys.stderr is not None:
        print(text, file=sys.stderr)
