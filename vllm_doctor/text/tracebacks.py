"""The line with which Python begins a traceback."""

from __future__ import annotations

TRACEBACK = "Traceback (most recent call last):"
