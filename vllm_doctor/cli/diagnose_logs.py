"""Diagnose logs and write their reports."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from vllm_doctor.authoring.rule_tests import why_not_fired
from vllm_doctor.cli.effective_options import check_ids, engine_options
from vllm_doctor.cli.error_output import report_error
from vllm_doctor.cli.exit_status import ExitStatus, exit_status
from vllm_doctor.cli.formats import writer
from vllm_doctor.cli.streams import write
from vllm_doctor.cli.terminal import colored, columns
from vllm_doctor.comparison import changes
from vllm_doctor.diagnosis.engine import Diagnosis
from vllm_doctor.diagnosis.log_session import KEEP_RUNS
from vllm_doctor.errors import InputError
from vllm_doctor.fastpath.earlier_starts import EarlierStarts
from vllm_doctor.incident import report_on_incident
from vllm_doctor.language import language
from vllm_doctor.logs.inputs import Log, Logs, logs_in, open_logs
from vllm_doctor.messages import message
from vllm_doctor.options import Options
from vllm_doctor.reports import summary
from vllm_doctor.reports.escape import inert_json, inert_text, one_line
from vllm_doctor.reports.model import Report
from vllm_doctor.reports.output import finish
from vllm_doctor.sizing.request_advice import advice
from vllm_doctor.sizing.request_lengths import read_requests
from vllm_doctor.text_files import write_text

_CHUNK = 1 << 18
# These refer to a file of the repository, so a path below the working directory is made relative.
_WITH_FILE_PATHS = {"sarif", "github", "gitlab"}


class HostLogs(NamedTuple):
    """Logs that another program keeps, such as those of a pod; `name` is how the user asked for them."""

    name: str
    read: Callable[[], Iterator[Log]]


Place = str | HostLogs
"""A path, `-` for standard input, or what a host keeps."""


def diagnose(logs: tuple[Place, ...], values: dict[str, Any], notes: tuple[str, ...]) -> ExitStatus:
    """Diagnose the logs (none: standard input) with the options in `values`; `notes` are added to each report.

    Returns the exit status. Raises DoctorError.
    """
    if not logs:
        if sys.stdin.isatty():
            raise InputError(message("no log given: name a file, or pipe one in"))
        logs = ("-",)
    run_number, format_, why = values["run_number"], values["format_"], values["why"]
    options = engine_options(values, int(run_number) if run_number.isdigit() else None)
    check_ids(options, *([why] if why else []))
    if why:
        if values["output"] or values["also"]:
            raise InputError(message("--why writes no report: --output and --report do not go with it"))
        write(inert_text("".join(_why_lines(log, options, why) for log in logs)))
        return ExitStatus.OK
    if values["together"] or values["against"]:
        reports, unreadable = [_joined_report(logs, options, values)], 0
    else:
        reports, unreadable = _read_all(logs, options, every=run_number == "all")
    reports = _with_requests([report.with_caveats(*notes) for report in reports], values)
    written = [_is_written(path, render(reports, other, _for_a_file(values))) for other, path in values["also"]]
    if values["output"]:
        written.append(_is_written(values["output"], render(reports, format_, _for_a_file(values))))
    elif not (values["quiet"] and format_ == "text" and all(report.worst() in {None, "info"} for report in reports)):
        write(render(reports, format_, values))
    return ExitStatus.USAGE if unreadable or not all(written) else exit_status(reports, values["fail_on"])


def _with_requests(reports: list[Report], values: dict[str, Any]) -> list[Report]:
    """Add what the requests of `--requests` need to each report on a server. Raises InputError."""
    path = values["requests_file"]
    if not path:
        if values["tokenizer"]:
            raise InputError(message("--tokenizer counts the text of --requests FILE, which is missing"))
        return reports
    requests = read_requests(path, values["tokenizer"])
    name = one_line(os.path.basename(path))
    return [report if report.status == "unknown" else
            report.with_caveats(advice(requests, name, report.facts, report.derived)) for report in reports]


def _joined_report(logs: tuple[Place, ...], options: Options, values: dict[str, Any]) -> Report:
    """Return the one report of `--together` or `--against`. Raises InputError."""
    if values["run_number"] == "all":
        raise InputError(message("--run all has a report for each start; --together and --against have one"))
    if values["against"] and (values["together"] or len(logs) > 1):
        raise InputError(message("--against compares one log with a good one"))
    if not values["against"]:
        read_together = [read for log in logs for read in _diagnosed(log, options)]
        return report_on_incident(read_together) if len(read_together) > 1 else read_together[0][1]
    bad = [read for log in logs for read in _diagnosed(log, options)]
    good = _diagnosed(values["against"], options._replace(run=None, command="", config=""))
    for path, read in ((logs[0], bad), (values["against"], good)):
        if len(read) > 1:
            raise InputError(message("{name}: holds several logs: name one of them", name=_name(path)))
    report = bad[0][1]
    found = changes(bad[0][0].reading.analysis(), report, good[0][0].reading.analysis(), good[0][1])
    return report._replace(changes=found, against=good[0][1].source.path)


def _diagnosed(path: Place, options: Options) -> list[tuple[Diagnosis, Report]]:
    """Return each log of a file, read, with its report."""
    with _opened(path) as logs:
        diagnosed = []
        for log in logs:
            diagnosis = _fed(log, options)
            diagnosed.append((diagnosis, diagnosis.finish()))
        return [(diagnosis, report.with_caveats(*logs.notes)) for diagnosis, report in diagnosed]


def _is_written(path: str, text: str) -> bool:
    """Write a report to a file; report an error and return False if that fails, so that others are still written."""
    try:
        write_text(path, text)
    except InputError as error:
        report_error(error)
        return False
    return True


def _read_all(logs: tuple[Place, ...], options: Options, *, every: bool) -> tuple[list[Report], int]:
    """Return the reports and the number of unreadable logs, which are reported on stderr if others were readable.

    Raises InputError if no log is readable.
    """
    reports: list[Report] = []
    problems: list[InputError] = []
    for log in logs:
        try:
            reports += _read(log, options, problems, every=every)
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


def _read(path: Place, options: Options, problems: list[InputError], *, every: bool) -> list[Report]:
    """Return the report on each log of a file, with `--run all` on each of its server starts.

    What cannot be read is added to `problems`.
    """
    if every and not (isinstance(path, str) and path != "-" and os.path.isfile(path)):
        raise InputError(message("--run all reads the log more than once: give it as a file, not {name}",
                                 name=_name(path)))
    reports, counts = _read_once(path, options, problems)
    for number in range(1, max(counts, default=0) + 1 if every else 1):
        again, _ = _read_once(path, options._replace(run=number), [], [count >= number for count in counts])
        reports = again if number == 1 else [*reports, *again]
    places = {report.source.path: place for place, report in reversed(list(enumerate(reports)))}
    return sorted(reports, key=lambda report: places[report.source.path]) if every else reports


def _read_once(path: Place, options: Options, problems: list[InputError],
               wanted: list[bool] | None = None) -> tuple[list[Report], list[int]]:
    """Return the report on each wanted log (default: all), and how many server starts each log holds."""
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
            reports.append(diagnosis.finish())
            counts.append(diagnosis.reading.run_count)  # of a page, known once it is read
        return [report.with_caveats(*logs.notes) for report in reports], counts


@contextmanager
def _opened(path: Place) -> Iterator[Logs]:
    if isinstance(path, HostLogs):
        yield Logs(path.read())
    elif path == "-":
        yield logs_in(sys.stdin.buffer, _name(path))
    else:
        with open_logs(path) as logs:
            yield logs


def _name(path: Place) -> str:
    if isinstance(path, HostLogs):
        return path.name
    return "standard input" if path == "-" else path


def _fed(log: Log, options: Options, *, whole: bool = False) -> Diagnosis:
    """Return a diagnosis that has read the log.

    Earlier server starts may be skipped unless `whole`. If they turn out to matter, the log is read again.
    """
    diagnosis = Diagnosis(options, "-" if log.name == _name("-") else log.name)
    earlier = None if whole or options.run is not None else _earlier_starts(log.plain)
    for chunk in log.chunks(_CHUNK):
        is_earlier = earlier is not None and earlier.contains(len(chunk), diagnosis.reading.run_count)
        diagnosis.feed(chunk, earlier_starts=is_earlier)
    if earlier and not earlier.has_enough_starts(diagnosis.reading.run_count) and log.plain:
        log.plain.seek(0)
        return _fed(log, options, whole=True)
    diagnosis.add_notes(*log.notes)
    return diagnosis


def _earlier_starts(file: io.BufferedReader | None) -> EarlierStarts | None:
    """Return the detector of earlier server starts in a file, which may be skipped; None for a short file or a pipe."""
    return EarlierStarts(file, KEEP_RUNS) if file is not None and os.fstat(file.fileno()).st_size > _CHUNK else None


def _why_lines(path: Place, options: Options, rule_id: str) -> str:
    """Return a line for each log of a file that says why a rule fired on it, or why it did not."""
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
    rule = diagnosis.reading.base.rules[rule_id]
    return f"{log}: {rule_id} does not fire: {why_not_fired(diagnosis.reading, rule)}\n"


def render(reports: list[Report], format_: str, values: dict[str, Any]) -> str:
    """Return the reports in a format, without secrets and with commands for CI runners escaped."""
    reports = [report.in_language(language(values["language"])) for report in reports]
    return finish(_written(reports, format_, values), format_, reports)


def _written(reports: list[Report], format_: str, values: dict[str, Any]) -> str:
    module = writer(format_)
    if format_ == "text":
        return inert_text(_texts(reports, values, module.render))
    if format_ == "jsonl":
        return inert_json("".join(module.render_line(report) for report in reports))
    if format_ in _WITH_FILE_PATHS:
        reports = [_with_relative_path(report) for report in reports]
    text: str = module.render(reports[0]) if len(reports) == 1 else module.render_many(reports)
    return inert_json(text) if format_ in {"json", "agent"} else text


def _texts(reports: list[Report], values: dict[str, Any], render: Callable[..., str]) -> str:
    color = colored(values["color"], sys.stdout)
    texts = []
    if len(reports) > 1:
        texts.append(summary.render(reports, columns(values["width"])))
    for report in reports:
        text = render(report, width=columns(values["width"]), color=color, verbose=values["verbose"],
                      timeline=values.get("timeline"))
        run = f", run {report.source.run}" if report.source.runs > 1 else ""
        texts.append(f"== {one_line(report.source.path)}{run}\n\n{text}" if len(reports) > 1 else text)
    return "\n".join(texts)


def _with_relative_path(report: Report) -> Report:
    """Return the report with the log's path relative to the working directory if it is below that."""
    path, here = report.source.path, os.getcwd()
    if not os.path.isabs(path) or not os.path.normpath(path).startswith(os.path.join(here, "")):
        return report
    return report._replace(source=report.source._replace(path=os.path.relpath(path, here)))
