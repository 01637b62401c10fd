"""The findings of a report: their titles, their evidence, and which of them are shown."""

from __future__ import annotations

from vllm_doctor.language import ENGLISH, Language
from vllm_doctor.reports.model import Evidence, Failure, Finding, Report


def title_with_ranks(finding: Finding, language: Language = ENGLISH) -> str:
    """Return the finding's title with the ranks that reported it."""
    if not finding.ranks:
        return finding.title
    return language.say("{title} ({where})", title=finding.title, where=finding.ranks)


def evidence_text(finding: Finding, language: Language = ENGLISH) -> str:
    """Return the finding's evidence, one numbered log line per line."""
    return "\n".join(line_with(item, language) for item in finding.evidence)


def line_with(item: Evidence | Failure, language: Language = ENGLISH) -> str:
    """Return `line 12: its text`."""
    return language.say("line {number}: {text}", number=item.line, text=item.text)


def line_of(number: int, language: Language = ENGLISH) -> str:
    """Return `line 12`."""
    return language.say("line {number}", number=number)


def evidence_rows(finding: Finding) -> list[tuple[int | None, str]]:
    """Return (line number, text) of each log line of the evidence."""
    return [(item.line, item.text) for item in finding.evidence]


def shown_causes(report: Report) -> list[Finding]:
    """Return the findings that may be the cause; reports show them in full."""
    return [finding for finding in report.findings if finding.role == "cause" and not finding.recovered]


def reported(report: Report) -> list[Finding]:
    """Return the findings to report: beside a failure, neither its consequences nor remarks on normal operation."""
    is_named = report.cause is not None or report.unexplained is not None
    return [finding for finding in report.findings
            if not (is_named and finding.role == "cascade")
            and not (report.status == "failed" and finding.role == "advice" and finding.severity == "info")]


def others(report: Report) -> list[Finding]:
    """Return the findings that reports show in short."""
    causes = shown_causes(report)
    return [finding for finding in reported(report) if finding not in causes]
