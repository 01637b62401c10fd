"""What `diagnose` does: reads logs and writes the report on each."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from vllm_doctor.authoring.rule_tests import explain_silence
from vllm_doctor.cli.error_output import tell
from vllm_doctor.cli.formats import WRITERS
from vllm_doctor.cli.streams import write
from vllm_doctor.cli.terminal import colored, columns
from vllm_doctor.cli.values import check_ids, exit_status, gather
from vllm_doctor.diagnosis.engine import Diagnosis
from vllm_doctor.diagnosis.log_session import KEEP_RUNS
from vllm_doctor.errors import InputError
from vllm_doctor.exit_status import ExitStatus
from vllm_doctor.fastpath.earlier_starts import Past
from vllm_doctor.logs.inputs import Log, Logs, logs_in, open_logs
from vllm_doctor.options import Options
from vllm_doctor.outputs import write_text
from vllm_doctor.reports import summary
from vllm_doctor.reports.escape import inert_json, inert_text, one_line
from vllm_doctor.reports.model import Report
from vllm_doctor.reports.output import finish

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
        write("".join(_why(log, options, why) for log in logs))
        return ExitStatus.OK
    reports, unreadable = _read_all(logs, options, every=run_number == "all")
    reports = [report.with_caveats(*notes) for report in reports]
    written = [_is_written(path, render(reports, other, _for_a_file(values))) for other, path in values["also"]]
    if values["output"]:
        written.append(_is_written(values["output"], render(reports, format_, _for_a_file(values))))
    elif not (values["quiet"] and format_ == "text" and all(report.worst() in {None, "info"} for report in reports)):
        write(render(reports, format_, values))
    return ExitStatus.USAGE if unreadable or not all(written) else exit_status(reports, values["fail_on"])


def _is_written(path: str, text: str) -> bool:
    """Write a report to a file; one that cannot be written is told and keeps no other from being written."""
    try:
        write_text(path, text)
    except InputError as error:
        tell(error)
        return False
    return True


def _read_all(logs: tuple[str, ...], options: Options, *, every: bool) -> tuple[list[Report], int]:
    """The reports, and how many logs could not be read: those are told on stderr when others could."""
    reports: list[Report] = []
    problems: list[InputError] = []
    for log in logs:
        try:
            reports += _read(log, options, problems, every=every)
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


def _read(path: str, options: Options, problems: list[InputError], *, every: bool) -> list[Report]:
    """The report on each log of a file; each of its runs with `--run all`. What cannot be read goes to `problems`."""
    if every and not (path != "-" and os.path.isfile(path)):
        raise InputError(f"--run all reads the log more than once: give it as a file, not {_name(path)}")
    made, counts = _read_once(path, options, problems)
    for number in range(1, max(counts, default=0) + 1 if every else 1):
        again, _ = _read_once(path, options._replace(run=number), [], [count >= number for count in counts])
        made = again if number == 1 else [*made, *again]
    places = {report.source.path: place for place, report in reversed(list(enumerate(made)))}
    return sorted(made, key=lambda report: places[report.source.path]) if every else made


def _read_once(path: str, options: Options, problems: list[InputError],
               wanted: list[bool] | None = None) -> tuple[list[Report], list[int]]:
    """(the report on each log that is wanted, by default all; how many starts each log holds)."""
    reports, counts = [], []
    with _opened(path) as logs:
        for place, log in enumerate(logs):
            try:
                if wanted is not None and not wanted[place]:
                    continue
                diagnosis = _fed(log, options)
            except InputError as error:
                counts.append(0)
                problems.append(error)
                continue
            counts.append(diagnosis.run_count)
            reports.append(diagnosis.finish())
        return [report.with_caveats(*logs.notes) for report in reports], counts


@contextmanager
def _opened(path: str) -> Iterator[Logs]:
    if path == "-":
        yield logs_in(sys.stdin.buffer, _name(path))
    else:
        with open_logs(path) as logs:
            yield logs


def _name(path: str) -> str:
    return "standard input" if path == "-" else path


def _fed(log: Log, options: Options, *, whole: bool = False) -> Diagnosis:
    """A diagnosis that has read the whole log; `whole`: every start in it as if the report were about it."""
    diagnosis = Diagnosis(options, "-" if log.name == _name("-") else log.name)
    past = None if whole or options.run is not None else _past(log.plain)
    for chunk in log.chunks(_CHUNK):
        diagnosis.feed(chunk, past=past is not None and past.holds(len(chunk), diagnosis.run_count))
    if past and not past.was_right(diagnosis.run_count) and log.plain:
        log.plain.seek(0)
        return _fed(log, options, whole=True)
    diagnosis.remark(*log.notes)
    return diagnosis


def _past(file: io.BufferedReader | None) -> Past | None:
    """What tells which part of a file holds starts that the report is not about; the first piece never does."""
    return Past(file, KEEP_RUNS) if file is not None and os.fstat(file.fileno()).st_size > _CHUNK else None


def _why(path: str, options: Options, rule_id: str) -> str:
    """Why a rule fired on the logs of a file or did not, in one line each."""
    with _opened(path) as logs:
        return "".join(_why_on(log, options, rule_id) for log in logs)


def _why_on(read: Log, options: Options, rule_id: str) -> str:
    diagnosis = _fed(read, options)
    log = diagnosis.path
    report = diagnosis.finish()
    finding = next((item for item in report.findings if item.id == rule_id), None)
    if finding is not None:
        place = f"fires: line {finding.evidence[0].line}: {finding.evidence[0].text}"
        cause = "" if report.primary == rule_id else f"; the cause is {report.primary}"
        return f"{log}: {rule_id} {place}{cause}\n"
    return f"{log}: {rule_id} does not fire: {explain_silence(diagnosis, diagnosis.base.rules[rule_id])}\n"


def render(reports: list[Report], format_: str, values: dict[str, Any]) -> str:
    """The reports in a format: no secrets, and nothing that the build runner that may read this takes for a command."""
    return finish(_written(reports, format_, values), format_, reports)


def _written(reports: list[Report], format_: str, values: dict[str, Any]) -> str:
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
