"""`vllm-doctor diagnose` as it is mostly typed: without click, which is a third of a start."""

from __future__ import annotations

import sys
from typing import Any

from vllm_doctor.cli.diagnose_logs import diagnose
from vllm_doctor.cli.error_output import say, tell
from vllm_doctor.cli.option_table import DIAGNOSE, SHARED
from vllm_doctor.cli.values import fill_in
from vllm_doctor.errors import DoctorError
from vllm_doctor.exit_status import ExitStatus


def run(logs: tuple[str, ...], typed: dict[str, Any]) -> None:
    """Diagnose logs as the command does, given the values typed. Raises SystemExit."""
    values = {option.key: option.default for option in (*DIAGNOSE, *SHARED)} | typed
    try:
        notes = fill_in("diagnose", values, typed.__contains__)
        sys.exit(diagnose(logs, values, notes))
    except DoctorError as problem:
        tell(problem)
        sys.exit(ExitStatus.USAGE)
    except KeyboardInterrupt:
        say("\nAborted!")
        sys.exit(1)
