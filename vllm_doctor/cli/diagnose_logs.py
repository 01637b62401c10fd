"""What `diagnose` does: reads logs and writes the report on each."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import IO, Any

from vllm_doctor.authoring.rule_tests import explain_silence
from vllm_doctor.cli.error_output import tell
from vllm_doctor.cli.formats import WRITERS
from vllm_doctor.cli.terminal import colored, columns
from vllm_doctor.cli.values import check_ids, exit_status, gather
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

_CHUNK = 1 << 18
_WITH_PLACES = {"sarif", "github"}  # they name a file of the repository, so an absolute path below here is shortened


def diagnose(logs: tuple[str, ...], values: dict[str, Any], notes: tuple[str, ...]) -> ExitStatus:
    """Read the logs (none: standard input) as `values` say; `notes` go into each report. Raises DoctorError."""
    if not logs:
        if sys.stdin.isatty():
            raise InputError("no log given: name a file, or pipe one in")
        logs = ("-",)
    run_number, format_, why = values["run_number"], values["format_"], values["why"]
    options = gather(values, int(run_number) if run_number.isdigit() else None)
    check_ids(options, *([why] if why else []))
    if why:
        _print("".join(_why(log, options, why) for log in logs))
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
    """The reports, and how many logs could not be read: those are told on stderr when others could."""
    reports: list[Report] = []
    problems: list[InputError] = []
    for log in logs:
        try:
            reports += _read(log, options, every=every)
        except InputError as error:  # noqa: PERF203 - a log a turn
            problems.append(error)
    if problems and not reports:
        raise problems[0]
    for problem in problems:
        tell(problem)
    return reports, len(problems)


def _for_a_file(values: dict[str, Any]) -> dict[str, Any]:
    """No colours in a file because the terminal has them."""
    return {**values, "color": "never"} if values["color"] == "auto" else values


def _read(log: str, options: Options, *, every: bool) -> list[Report]:
    """The report on one log; on each of its runs with `--run all`."""
    report, runs = _report(log, options)
    if not every:
        return [report]
    if log == "-":
        raise InputError("--run all reads the log more than once: give it as a file")
    return [_report(log, options._replace(run=number))[0] for number in range(1, runs + 1)]


def _report(log: str, options: Options) -> tuple[Report, int]:
    diagnosis = _fed(log, options)
    return diagnosis.finish(), diagnosis.run_count


def _fed(log: str, options: Options) -> Diagnosis:
    """A diagnosis that has read the whole log."""
    if log == "-":
        return _fed_from(sys.stdin.buffer, log, options)
    with open_log(log) as file:
        return _fed_from(file, log, options)


def _fed_from(file: IO[bytes], log: str, options: Options, *, whole: bool = False) -> Diagnosis:
    """The diagnosis; `whole`: every start in the log is read as if the report were about it."""
    diagnosis = Diagnosis(options, log)
    past = None if whole or options.run is not None else _past(file)
    for chunk in chunks(file, _CHUNK, "standard input" if log == "-" else log):
        diagnosis.feed(chunk, past=past is not None and past.contains(len(chunk), diagnosis.run_count))
    if past and not past.has_enough_starts(diagnosis.run_count):
        file.seek(0)
        return _fed_from(file, log, options, whole=True)
    return diagnosis


def _past(file: IO[bytes]) -> EarlierStarts | None:
    """What tells which part of a file holds starts that the report is not about; the first piece never does."""
    if not is_plain(file) or os.fstat(file.fileno()).st_size <= _CHUNK:
        return None

    return EarlierStarts(file, KEEP_RUNS)


def _why(log: str, options: Options, rule_id: str) -> str:
    """Why a rule fired on a log or did not, in one line."""
    diagnosis = _fed(log, options)
    report = diagnosis.finish()
    finding = next((item for item in report.findings if item.id == rule_id), None)
    if finding is not None:
        place = f"fires: line {finding.evidence[0].line}: {finding.evidence[0].text}"
        cause = "" if report.primary == rule_id else f"; the cause is {report.primary}"
        return f"{log}: {rule_id} {place}{cause}\n"
    return f"{log}: {rule_id} does not fire: {explain_silence(diagnosis, diagnosis.base.rules[rule_id])}\n"


def render(reports: list[Report], format_: str, values: dict[str, Any]) -> str:
    """The reports in a format. Nothing in it is a command to the build runner that may read this output."""
    writer = WRITERS[format_]
    if format_ == "text":
        return inert_text(_texts(reports, values, writer.render))
    if format_ == "jsonl":
        return inert_json("".join(writer.render_line(report) for report in reports))
    if format_ in _WITH_PLACES:
        reports = [_from_here(report) for report in reports]
    text: str = writer.render(reports[0]) if len(reports) == 1 else writer.render_many(reports)
    return inert_json(text) if format_ == "json" else text


def _texts(reports: list[Report], values: dict[str, Any], render: Callable[..., str]) -> str:
    color = colored(values["color"], sys.stdout)
    made = []
    if len(reports) > 1:
        made.append(summary.render(reports, columns(values["width"])))
    for report in reports:
        text = render(report, width=columns(values["width"]), color=color, verbose=values["verbose"])
        run = f", run {report.source.run}" if report.source.runs > 1 else ""
        made.append(f"== {one_line(report.source.path)}{run}\n\n{text}" if len(reports) > 1 else text)
    return "\n".join(made)


def _from_here(report: Report) -> Report:
    """The report with the log's path relative to the working directory, where it lies below it."""
    path, here = report.source.path, os.getcwd()
    if not os.path.isabs(path) or not os.path.normpath(path).startswith(os.path.join(here, "")):
        return report
    return report._replace(source=report.source._replace(path=os.path.relpath(path, here)))


def _print(text: str) -> None:
    """Write to stdout as UTF-8; a reader that has gone (`| head`) is no error."""
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        sys.stderr.close()
