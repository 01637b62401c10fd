"""The line with which Python begins a traceback."""

from __future__ import annotations

TRACEBACK = "Traceback (most recent call last):"
TRACEBACK_WORDS = "Traceback (most recent call last)"
"""Also in the line with which Rich and IPython begin one."""
