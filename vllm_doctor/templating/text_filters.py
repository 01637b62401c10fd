"""Filters that write numbers and lists for a reader, and read names and paths."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

__all__ = [
    "count",
    "first_directory",
    "gib",
    "is_local_path",
    "listed",
    "number",
    "percent",
    "plural",
    "shell_word",
    "spaced",
]


def first_directory(path: str) -> str | None:
    """Return the directory that a path begins with (`models` of `models/a`); unknown for a name alone."""
    directory, slash, _ = path.partition("/")
    return directory if slash else None


def is_local_path(model: str) -> bool:
    """Return whether a model name is a path rather than a repository id (`org/name`)."""
    return model.startswith(("/", "./", "../", "~")) or model.count("/") > 1


def count(items: Any) -> int:
    """Return the number of items of a list (1 for a single value)."""
    return len(items) if isinstance(items, Sequence) and not isinstance(items, str) else 1


def listed(text: Any) -> int:
    """Return the number of comma-separated items of a text: 2 for `0, 1`, 0 for an empty text."""
    return sum(1 for item in str(text).split(",") if item.strip())


def spaced(text: str) -> str:
    """Return a comma-separated list with a space after each comma: `a, b` for `a,b`."""
    return ", ".join(item.strip() for item in text.split(","))


def shell_word(text: str) -> str:
    """Return a text as one word of a shell command: `'a>=1'` for `a>=1`."""
    return shlex.quote(text)


def gib(value: float) -> str:
    """Format a size given in GiB: `4.5 GiB`, `512 MiB`."""
    if abs(value) < 0.1 and value:
        return f"{value * 1024:.0f} MiB"
    return f"{value:.2f}".rstrip("0").rstrip(".") + " GiB"


def number(value: float) -> str:
    """Format a number with thousands separators: `131,072`."""
    return f"{value:,.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"


def percent(value: float) -> str:
    """Format a fraction as a percentage: `92 %` for 0.92."""
    return f"{value * 100:.1f}".rstrip("0").rstrip(".") + " %"


def plural(value: float, one: str, many: str) -> str:
    """Format a count with its noun: `1 GPU` for 1 with 'GPU' and 'GPUs'."""
    return f"{number(value)} {one if value == 1 else many}"
