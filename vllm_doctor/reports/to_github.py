"""GitHub workflow annotations: what a job's standard output turns into notes on the run and the pull request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from vllm_doctor.language import ENGLISH, Language
from vllm_doctor.reports import texts
from vllm_doctor.reports.escape import relative_path, workflow_data, workflow_property
from vllm_doctor.reports.fingerprint import fingerprint, unexplained_fingerprint
from vllm_doctor.reports.model import Finding, Report

MOST = 10  # of each kind: GitHub shows no more of one step
_LONGEST = 4000  # bytes of a message
_LEVEL = {"error": "error", "warning": "warning", "info": "notice"}


class _Annotation(NamedTuple):
    """One annotation; of those with the same `key` the first is written, with a count."""

    level: str
    rank: int  # the most important first
    key: str
    title: str
    message: str
    path: str | None
    line: int | None
    language: Language = ENGLISH

    def command(self, times: int) -> str:
        """Return the workflow command."""
        place = "" if self.path is None else f"file={workflow_property(self.path)},"
        place += f"line={self.line}," if self.path is not None and self.line else ""
        title = self.language.say("{title} ({count} times)", title=self.title, count=times) if times > 1 else self.title
        return f"::{self.level} {place}title={workflow_property(title)}::{workflow_data(self.message)}\n"


def render(report: Report) -> str:
    """Return the annotations of one log; "" when nothing was found."""
    return render_many([report])


def render_many(reports: list[Report]) -> str:
    """Return the annotations of several logs; a shared one is written once, with the first log's lines."""
    found: dict[tuple[str, str], list[_Annotation]] = {}
    for report in reports:
        for annotation in [*_annotations(report, name=len(reports) > 1), *_notes(report)]:
            found.setdefault((annotation.level, annotation.key), []).append(annotation)
    groups = sorted(found.values(), key=lambda group: group[0].rank)
    return "".join(group[0].command(len(group)) for level in _LEVEL.values()
                   for group in [group for group in groups if group[0].level == level][:MOST])


def _annotations(report: Report, *, name: bool) -> Iterator[_Annotation]:
    path = relative_path(report.source.path)
    where = f"{texts.log_name(report)}: " if name else ""
    if report.lacks_cause:
        unexplained = report.unexplained
        lines = [texts.failure_status(report), texts.failure_place(unexplained, report.language),
                 *(f"{number}. {fix.title}" for number, fix in enumerate(unexplained.fixes[:3], 1)),
                 ] if unexplained else []
        message = texts.as_many_as_fit([*lines, texts.advice(report)], _LONGEST)
        yield _Annotation("error" if unexplained else "warning", 0, unexplained_fingerprint(report),
                          where + texts.headline(report), message, path,
                          unexplained.line if unexplained else None, report.language)
    for finding in texts.reported(report):
        if finding.severity == "info" and finding.role == "cascade":
            continue
        rank = 0 if finding.id == report.primary else 1 if finding.role == "cause" and not finding.recovered else 2
        yield _Annotation(_LEVEL.get(finding.severity, "notice"), rank, fingerprint(finding),
                          where + texts.title_with_ranks(finding, report.language), _message(finding, report.language),
                          path, finding.evidence[0].line if finding.evidence else None, report.language)


def _notes(report: Report) -> Iterator[_Annotation]:
    """Yield an annotation for each caveat about the report; none of them has a line of the log."""
    for note in report.caveats:
        yield _Annotation("notice", 3, note, report.language.say("About this report"), note, None, None)


def _message(finding: Finding, language: Language) -> str:
    pieces = [texts.line_with(item, language) for item in finding.evidence[:1]]
    pieces.append(finding.explanation)
    if finding.fixes:
        fix = finding.fixes[0]
        pieces += [language.say("Fix: {title}", title=fix.title), texts.change(fix, language)[1]]
    return texts.as_many_as_fit([*pieces, f"({finding.id})"], _LONGEST)
