"""`vllm-doctor diagnose LOG…` as most often typed, with no option: without the parser, which is a third of a start."""

from __future__ import annotations

import sys

from vllm_doctor.cli.problem import say, tell
from vllm_doctor.cli.reading import diagnose
from vllm_doctor.cli.values import DIAGNOSE_DEFAULTS, fill_in
from vllm_doctor.errors import DoctorError
from vllm_doctor.exit_status import ExitStatus


def run(logs: tuple[str, ...]) -> None:
    """Diagnose logs as the command does when nothing but their names is typed. Raises SystemExit."""
    values = dict(DIAGNOSE_DEFAULTS)
    try:
        notes = fill_in("diagnose", values, lambda _: False)
        sys.exit(diagnose(logs, values, notes))
    except DoctorError as problem:
        tell(problem)
        sys.exit(ExitStatus.USAGE)
    except KeyboardInterrupt:
        say("\nAborted!")
        sys.exit(1)
