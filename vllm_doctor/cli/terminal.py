"""Terminal capabilities: colors and width."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any


def colored(choice: str, stream: Any) -> bool:
    """Return whether to color the output: with "auto" only on a terminal without NO_COLOR (https://no-color.org)."""
    if choice != "auto":
        return choice == "always"
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def columns(width: int | None) -> int:
    """Return the width of the report: as given, else the terminal's up to 120; 100 in a pipe."""
    if width:
        return width
    if not (sys.stdout.isatty() or sys.stderr.isatty()):
        return 100

    return min(120, shutil.get_terminal_size((100, 24)).columns)
