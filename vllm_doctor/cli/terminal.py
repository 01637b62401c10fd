"""Terminal capabilities: colors and width."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any


def colored(choice: str, stream: Any) -> bool:
    """Return whether to color the output: with "auto" only on a terminal without NO_COLOR (https://no-color.org)."""
    if choice != "auto":
        return choice == "always"
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def columns(width: int | None) -> int:
    """Return the width of the report: as given, else the terminal's up to 120; 100 in a pipe."""
    return width or min(120, terminal_width() or 100)


def terminal_width() -> int | None:
    """Return the current width of the terminal on stdout, else of the one on stderr; None without either.

    COLUMNS overrides it. The analyser of `watch` and `run` has no stdout, so stderr is asked as well.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream.isatty():
            with suppress(OSError):
                return _chosen_columns() or os.get_terminal_size(stream.fileno()).columns or None
    return None


def _chosen_columns() -> int:
    text = os.environ.get("COLUMNS", "")
    return int(text) if text.isascii() and text.isdecimal() else 0
