"""One file -> its rows. The only place where a log of the fleet is read; it keeps nothing between two calls."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from vllm_doctor.diagnosis.engine import Diagnosis
from vllm_doctor.diagnosis.run import Run
from vllm_doctor.fleet.labels import compile_label, labels_of
from vllm_doctor.fleet.model import FindingRow, LogFile, LogRows, StartRow
from vllm_doctor.fleet.reread_hash import rules_hash
from vllm_doctor.fleet.sources import one_file, open_source, problem_of
from vllm_doctor.logs.inputs import Log
from vllm_doctor.options import Options
from vllm_doctor.redact import Redactor, redact, redact_value, safe_text
from vllm_doctor.reports import texts
from vllm_doctor.reports.model import Fix, Report
from vllm_doctor.text.times import seconds_between

_CHUNK = 1 << 18
_TAIL = 1 << 16  # bytes at the end of a log in which its last time is looked for
_LONGEST = 600  # characters of a text
_CATCH_ALL = 0.5  # a rule names the cause with at most this confidence only for want of a better one
_TIME = re.compile(rb"(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) ((?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d) \[?[\w./-]+:\d+\]")
NO_ERROR = "no-error-in-log"
"""The group of failed starts whose log shows no error."""


def rows(url: str, options: Options | None = None, *, label: str = "") -> list[StartRow]:
    """Return a row for each start of the server in a log: a path, or a URL that fsspec opens.

    Never raises for a log: one that cannot be read is a row with its `problem`. Raises InputError for an invalid
    `label`, RuleError for invalid rules in `options`.
    """
    options = options or Options()
    return read(one_file(url), Reading(options, label, rules_hash(options, label))).starts


class Reading(NamedTuple):
    """How the files of a fleet are read; `state` is the `rules_hash` of the other two."""

    options: Options
    label: str
    state: str


def read(file: LogFile, reading: Reading) -> LogRows:
    """Return the rows of one file, of an archive those of all its logs; see `rows`."""
    options, label, state = reading
    pattern = compile_label(label) if label else None
    rows = LogRows([], [])
    try:
        if file.problem:
            return LogRows([_problem(file, file.url, file.problem, state, pattern)], [])
        with open_source(file.url) as logs:
            for log in logs:
                found = _read_log(file, log, options, state, pattern)
                rows.starts.extend(found.starts)
                rows.findings.extend(found.findings)
            notes = logs.notes
    except Exception as error:  # noqa: BLE001 - one bad input is a row, never the end
        rows.starts.append(_problem(file, file.url, problem_of(error), state, pattern))
        return rows
    for row in rows.starts:
        row["note"] = " ".join(filter(None, (row["note"], *notes))) or None
    if not rows.starts:
        rows.starts.append(_problem(file, file.url, "the archive holds no logs", state, pattern))
    return rows


def _read_log(file: LogFile, log: Log, options: Options, state: str, pattern: re.Pattern[str] | None) -> LogRows:
    """Return the rows of one log; the row of its problem if it cannot be read."""
    try:
        return _starts(file, log, options, state, pattern)
    except Exception as error:  # noqa: BLE001 - one bad input is a row, never the end
        return LogRows([_problem(file, log.name, problem_of(error), state, pattern)], [])


def _starts(file: LogFile, log: Log, options: Options, state: str, pattern: re.Pattern[str] | None) -> LogRows:
    ended: list[tuple[Run, Report]] = []
    diagnosis = Diagnosis(options, log.name, on_start_end=lambda run, report: ended.append((run, report)))
    tail: deque[bytes] = deque(maxlen=2)
    for chunk in log.chunks(_CHUNK):
        diagnosis.feed(chunk)
        tail.append(chunk[-_TAIL:])
    report = diagnosis.finish()
    reports = {} if diagnosis.reading.is_page else {run.number: (run, one) for run, one in ended}
    for run in diagnosis.runs:
        if run.number == report.source.run:
            reports[run.number] = run, report
        elif run.has_output and run.number not in reports:
            reports[run.number] = run, diagnosis.reading.report(diagnosis.reading.analysis(run))
    times = _TIME.findall(b"".join(tail)[-_TAIL:])
    result = LogRows([], [])
    redactor = report.redactor or Redactor()
    for number, (run, one) in sorted(reports.items()):
        end = times[-1].decode() if number == max(reports) and times else ""
        row = _start(file, one, run, end, state=state, pattern=pattern)
        row["note"] = " ".join(log.notes) or None
        result.starts.append(_clean(row, redactor.redact))
        result.findings.extend(_clean(found, redactor.redact) for found in _findings(file, one, number))
    return result


def _start(file: LogFile, report: Report, run: Run, end: str, *, state: str,
           pattern: re.Pattern[str] | None) -> StartRow:
    cause, failure, timeline = report.cause, report.failure, report.timeline
    memory = texts.memory_shown(report)
    fixes = cause.fixes if cause is not None else failure.fixes if failure is not None else ()
    return _row(
        file, report.source.path, state, pattern, run=run.number, status=report.status, phase=report.phase,
        cause=report.primary, signature=failure.signature if failure is not None else None,
        severity=cause.severity if cause is not None and report.unexplained is None else report.worst(),
        first_fix=_first(fixes),
        vllm_version=_text(report.facts.get("vllm_version")), model=_text(report.facts.get("model")),
        gpu_name=_text(report.facts.get("gpu_name")),
        first_time=run.clock.first or None, last_time=_later(run.clock.last, end) or None,
        start_seconds=timeline.total_seconds if timeline is not None else None,
        phase_seconds={one.phase: one.seconds for one in timeline.phases} if timeline is not None else None,
        memory={part.name: round(part.gib, 6) for part in memory.parts} if memory is not None else None,
        group=_group(report), title=_title(report),
        message=texts.failure_title(failure) if failure is not None else None,
        line=failure.line if failure is not None else cause.evidence[0].line if cause and cause.evidence else None,
    )


def _group(report: Report) -> str | None:
    """Return what a start is counted under: its rule, or the signature of a failure that no precise rule explains."""
    failure, cause = report.failure, report.cause
    if cause is not None and not (failure is not None and failure.exception and cause.confidence <= _CATCH_ALL):
        return cause.id
    if failure is not None and failure.counts:
        return failure.signature
    return NO_ERROR if report.status == "failed" else None


def _title(report: Report) -> str | None:
    if report.cause is not None or report.lacks_cause:
        return texts.headline(report)
    return None


def _findings(file: LogFile, report: Report, run: int) -> list[FindingRow]:
    return [FindingRow(
        url=report.source.path, run=run, id=finding.id, title=texts.title_with_ranks(finding),
        severity=finding.severity, confidence=finding.confidence, role=finding.role, phase=finding.phase,
        line=finding.evidence[0].line if finding.evidence else None,
        evidence=finding.evidence[0].text if finding.evidence else None, first_fix=_first(finding.fixes),
        source=file.url) for finding in report.findings]


def _problem(file: LogFile, url: str, problem: str, state: str, pattern: re.Pattern[str] | None) -> StartRow:
    row: StartRow = _clean(_row(file, url, state, pattern, problem=problem.removeprefix(f"{url}: ")), redact)
    return row


def _row(file: LogFile, url: str, state: str, pattern: re.Pattern[str] | None, **values: Any) -> StartRow:
    labels = labels_of(url, pattern)
    row: dict[str, Any] = dict.fromkeys(StartRow.__annotations__)
    row.update(url=url, **labels, source=file.url, size=file.size, version=file.version, rules_hash=state)
    row.update(values)
    return cast("StartRow", row)


def _clean(row: Any, mask: Callable[[str], str]) -> Any:
    """Return a row with its texts masked, safe to print and of bounded length."""
    kept = {name: row[name] for name in ("rules_hash", "size") if name in row}
    if row.get("version"):
        kept["version"] = safe_text(row["version"])  # looks like a key, and is none
    return {**redact_value(dict(row), lambda text: _short(safe_text(mask(_encodable(text))))), **kept}


def source_of(url: str) -> str:
    """Return what identifies a file in the tables: its URL without secrets and safe to print.

    Files whose names differ in a secret alone are one: nothing derived from the secret is written.
    """
    return _short(safe_text(redact(_encodable(url))))


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST - 1] + "…"


def _first(fixes: tuple[Fix, ...]) -> str | None:
    return fixes[0].title if fixes else None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _later(last: str, end: str) -> str:
    """Return the later of two printed times: healthy lines at the end of a long log are not all read."""
    if not last or not end:
        return last or end
    return end if (seconds_between(last, end) or 0) > 0 else last
