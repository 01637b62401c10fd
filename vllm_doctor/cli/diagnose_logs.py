"""Diagnose logs and write their reports."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import IO, Any

from vllm_doctor.authoring.rule_tests import why_not_fired
from vllm_doctor.cli.error_output import report_error
from vllm_doctor.cli.formats import WRITERS
from vllm_doctor.cli.terminal import colored, columns
from vllm_doctor.cli.values import check_ids, engine_options, exit_status
from vllm_doctor.diagnosis.engine import Diagnosis
from vllm_doctor.diagnosis.log_session import KEEP_RUNS
from vllm_doctor.errors import InputError
from vllm_doctor.exit_status import ExitStatus
from vllm_doctor.fastpath.earlier_starts import EarlierStarts
from vllm_doctor.logs.inputs import chunks, is_plain, open_log
from vllm_doctor.options import Options
from vllm_doctor.outputs import write_text
from vllm_doctor.reports import summary
from vllm_doctor.reports.escape import inert_json, inert_text, one_line
from vllm_doctor.reports.model import Report
from vllm_doctor.reports.output import finish

_CHUNK = 1 << 18
# These refer to a file of the repository, so a path below the working directory is made relative.
_WITH_FILE_PATHS = {"sarif", "github"}


def diagnose(logs: tuple[str, ...], values: dict[str, Any], notes: tuple[str, ...]) -> ExitStatus:
    """Diagnose the logs (none: standard input) with the options in `values`; `notes` are added to each report.

    Returns the exit status. Raises DoctorError.
    """
    if not logs:
        if sys.stdin.isatty():
            raise InputError("no log given: name a file, or pipe one in")
        logs = ("-",)
    run_number, format_, why = values["run_number"], values["format_"], values["why"]
    options = engine_options(values, int(run_number) if run_number.isdigit() else None)
    check_ids(options, *([why] if why else []))
    if why:
        _print("".join(_why_line(log, options, why) for log in logs))
        return ExitStatus.OK
    reports, unreadable = _read_all(logs, options, every=run_number == "all")
    reports = [report._replace(notes=(*report.notes, *notes)) for report in reports]
    for other, path in values["also"]:
        write_text(path, render(reports, other, _for_a_file(values)))
    if values["output"]:
        write_text(values["output"], render(reports, format_, _for_a_file(values)))
    elif not (values["quiet"] and format_ == "text" and all(report.worst() in {None, "info"} for report in reports)):
        _print(render(reports, format_, values))
    return ExitStatus.USAGE if unreadable else exit_status(reports, values["fail_on"])


def _read_all(logs: tuple[str, ...], options: Options, *, every: bool) -> tuple[list[Report], int]:
    """Return the reports and the number of unreadable logs, which are reported on stderr if others were readable.

    Raises InputError if no log is readable.
    """
    reports: list[Report] = []
    problems: list[InputError] = []
    for log in logs:
        try:
            reports += _read(log, options, every=every)
        except InputError as error:  # noqa: PERF203 - one log per iteration
            problems.append(error)
    if problems and not reports:
        raise problems[0]
    for problem in problems:
        report_error(problem)
    return reports, len(problems)


def _for_a_file(values: dict[str, Any]) -> dict[str, Any]:
    """Return the options for writing to a file: color "auto" means never."""
    return {**values, "color": "never"} if values["color"] == "auto" else values


def _read(log: str, options: Options, *, every: bool) -> list[Report]:
    """Return the report on one log; with `--run all`, one on each of its server starts."""
    report, runs = _report(log, options)
    if not every:
        return [report]
    if log == "-":
        raise InputError("--run all reads the log more than once: give it as a file")
    return [_report(log, options._replace(run=number))[0] for number in range(1, runs + 1)]


def _report(log: str, options: Options) -> tuple[Report, int]:
    diagnosis = _diagnosed(log, options)
    return diagnosis.finish(), diagnosis.run_count


def _diagnosed(log: str, options: Options) -> Diagnosis:
    """Return a diagnosis that has read the entire log."""
    if log == "-":
        return _diagnosed_stream(sys.stdin.buffer, log, options)
    with open_log(log) as file:
        return _diagnosed_stream(file, log, options)


def _diagnosed_stream(file: IO[bytes], log: str, options: Options, *, read_all: bool = False) -> Diagnosis:
    """Return a diagnosis that has read the stream.

    Earlier server starts may be skipped unless `read_all`. If they turn out to matter, the stream is read again.
    """
    diagnosis = Diagnosis(options, log)
    past = None if read_all or options.run is not None else _past(file)
    for chunk in chunks(file, _CHUNK, "standard input" if log == "-" else log):
        diagnosis.feed(chunk, past=past is not None and past.contains(len(chunk), diagnosis.run_count))
    if past and not past.has_enough_starts(diagnosis.run_count):
        file.seek(0)
        return _diagnosed_stream(file, log, options, read_all=True)
    return diagnosis


def _past(file: IO[bytes]) -> EarlierStarts | None:
    """Return the detector of earlier server starts in a file, which may be skipped; None for a short file or a pipe."""
    if not is_plain(file) or os.fstat(file.fileno()).st_size <= _CHUNK:
        return None

    return EarlierStarts(file, KEEP_RUNS)


def _why_line(log: str, options: Options, rule_id: str) -> str:
    """Return a line that says why a rule fired on a log, or why it did not."""
    diagnosis = _diagnosed(log, options)
    report = diagnosis.finish()
    finding = next((item for item in report.findings if item.id == rule_id), None)
    if finding is not None:
        place = f"fires: line {finding.evidence[0].line}: {finding.evidence[0].text}"
        cause = "" if report.primary == rule_id else f"; the cause is {report.primary}"
        return f"{log}: {rule_id} {place}{cause}\n"
    return f"{log}: {rule_id} does not fire: {why_not_fired(diagnosis, diagnosis.base.rules[rule_id])}\n"


def render(reports: list[Report], format_: str, values: dict[str, Any]) -> str:
    """Return the reports in a format, without secrets and with commands for CI runners escaped."""
    return finish(_written(reports, format_, values), format_, reports)


def _written(reports: list[Report], format_: str, values: dict[str, Any]) -> str:
    writer = WRITERS[format_]
    if format_ == "text":
        return inert_text(_texts(reports, values, writer.render))
    if format_ == "jsonl":
        return inert_json("".join(writer.render_line(report) for report in reports))
    if format_ in _WITH_FILE_PATHS:
        reports = [_with_relative_path(report) for report in reports]
    text: str = writer.render(reports[0]) if len(reports) == 1 else writer.render_many(reports)
    return inert_json(text) if format_ == "json" else text


def _texts(reports: list[Report], values: dict[str, Any], render: Callable[..., str]) -> str:
    color = colored(values["color"], sys.stdout)
    texts = []
    if len(reports) > 1:
        texts.append(summary.render(reports, columns(values["width"])))
    for report in reports:
        text = render(report, width=columns(values["width"]), color=color, verbose=values["verbose"])
        run = f", run {report.source.run}" if report.source.runs > 1 else ""
        texts.append(f"== {one_line(report.source.path)}{run}\n\n{text}" if len(reports) > 1 else text)
    return "\n".join(texts)


def _with_relative_path(report: Report) -> Report:
    """Return the report with the log's path relative to the working directory if it is below that."""
    path, here = report.source.path, os.getcwd()
    if not os.path.isabs(path) or not os.path.normpath(path).startswith(os.path.join(here, "")):
        return report
    return report._replace(source=report.source._replace(path=os.path.relpath(path, here)))


def _print(text: str) -> None:
    """Write to stdout as UTF-8; a closed pipe (`| head`) is not an error."""
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        sys.stderr.close()
