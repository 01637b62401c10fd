"""Exit statuses of the commands."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from vllm_doctor.reports.model import Report
from vllm_doctor.severity import reaches


class ExitStatus(IntEnum):
    """0: nothing found at or above the threshold; 1: something found; 2: wrong usage or unreadable input."""

    OK = 0
    FOUND = 1
    USAGE = 2


def exit_status(reports: Iterable[Report], fail_on: str) -> ExitStatus:
    """Return FOUND if a report has a finding at or above the threshold of --fail-on, else OK."""
    return ExitStatus.FOUND if any(reaches(report.worst(), fail_on) for report in reports) else ExitStatus.OK
