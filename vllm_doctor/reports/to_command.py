"""The corrected command alone, for a shell: that of the first fix which has one."""

from __future__ import annotations

from collections.abc import Iterable

from vllm_doctor.reports.model import Fix, Report


def render(report: Report) -> str:
    """Return the command or patch with a newline; empty where no fix has one."""
    text = next((text for fix in report.fixes if (text := _text(fix))), "")
    return f"{text}\n" if text else ""


def render_many(reports: Iterable[Report]) -> str:
    """Return the commands of several logs, one per log that has one."""
    return "".join(map(render, reports))


def _text(fix: Fix) -> str:
    return fix.command or (str(fix.patch["text"]) if fix.patch else "")
