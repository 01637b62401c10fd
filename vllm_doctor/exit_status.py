"""Exit statuses of the commands."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """0: nothing found at or above the threshold; 1: something found; 2: wrong usage or unreadable input."""

    OK = 0
    FOUND = 1
    USAGE = 2
