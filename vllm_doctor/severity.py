"""The severities of findings, the most severe first."""

from __future__ import annotations

from collections.abc import Mapping

SEVERITIES = ("error", "warning", "info")
RANK: Mapping[str, int] = {severity: rank for rank, severity in enumerate(SEVERITIES)}
FAIL_ON = (*SEVERITIES, "never")
"""The choices of `--fail-on`."""
