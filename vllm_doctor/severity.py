"""The severities of findings, the most severe first."""

from __future__ import annotations

from collections.abc import Mapping

SEVERITIES = ("error", "warning", "info")
RANK: Mapping[str, int] = {severity: rank for rank, severity in enumerate(SEVERITIES)}
FAIL_ON = (*SEVERITIES, "never")
"""The choices of `--fail-on`."""


def reaches(severity: str | None, threshold: str) -> bool:
    """Return whether a severity is at or above the threshold of `--fail-on`; None is that of no finding."""
    return severity is not None and threshold != "never" and RANK[severity] <= RANK[threshold]
