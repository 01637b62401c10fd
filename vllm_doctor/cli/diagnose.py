"""`vllm-doctor diagnose LOG…`: the report on one log or several."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import click

from vllm_doctor.cli.options import RuleId, RunNumber, check_ids, colored, columns, exit_status, gather, shared
from vllm_doctor.diagnosis import Diagnosis
from vllm_doctor.errors import InputError
from vllm_doctor.exit_status import ExitStatus
from vllm_doctor.inputs import chunks
from vllm_doctor.options import Options
from vllm_doctor.outputs import write_text
from vllm_doctor.report.escape import inert_json, inert_text, one_line
from vllm_doctor.report.model import Report

_CHUNK = 1 << 18
_WRITERS = {  # --format: the module of vllm_doctor.report, imported when asked for
    "text": "to_text",
    "json": "to_json",
    "jsonl": "to_json",
    "markdown": "to_markdown",
    "html": "to_html",
    "sarif": "to_sarif",
    "junit": "to_junit",
    "github": "to_github",
}
_Also = tuple[str, str]  # a format and a file
_WITH_PLACES = {"sarif", "github"}  # they name a file of the repository, so an absolute path below here is shortened


class ReportFile(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic only from click 8.4
    """`FORMAT=FILE`."""

    name = "FORMAT=FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> _Also:
        """The format and the file."""
        format_, _, path = str(value).partition("=")
        if format_ not in _WRITERS or not path:
            self.fail(f"{value!r} is not FORMAT=FILE with one of {', '.join(_WRITERS)}", param, ctx)
        return format_, path


@click.command("diagnose")
@click.argument("logs", nargs=-1, metavar="LOG…", type=click.Path(allow_dash=True))
@click.option("--format", "format_", type=click.Choice(tuple(_WRITERS)), default="text", show_default=True)
@click.option("--output", metavar="FILE", help="Write the report there instead of to stdout.")
@click.option("--report", "also", multiple=True, type=ReportFile(),
              help="Write the report in another format as well; repeatable, the log is read once.")
@click.option("--run", "run_number", type=RunNumber(), default="last", show_default=True,
              help="Which start of the server in the log.")
@click.option("--why", type=RuleId(), metavar="ID", help="Say why this rule fired, or why it did not.")
@shared
def command(
    *, logs: tuple[str, ...], format_: str, output: str | None, also: tuple[_Also, ...], run_number: str,
    why: str | None, notes: tuple[str, ...], **values: Any,
) -> None:
    """Diagnose logs: files (also .gz .xz .bz2 .zst), or standard input (`-`, or nothing with a pipe).

    Of several logs a summary comes first, which causes and how often, then the report on each.
    """
    if not logs:
        if sys.stdin.isatty():
            raise InputError("no log given: name a file, or pipe one in")
        logs = ("-",)
    options = gather(values, int(run_number) if run_number.isdigit() else None)
    check_ids(options, *([why] if why else []))
    if why:
        _print("".join(_why(log, options, why) for log in logs))
        return
    reports, unreadable = _read_all(logs, options, every=run_number == "all")
    reports = [report._replace(notes=(*report.notes, *notes)) for report in reports]
    for other, path in also:
        write_text(path, _render(reports, other, _for_a_file(values)))
    if output:
        write_text(output, _render(reports, format_, _for_a_file(values)))
    elif not (values["quiet"] and format_ == "text" and all(report.worst() in {None, "info"} for report in reports)):
        _print(_render(reports, format_, values))
    sys.exit(ExitStatus.USAGE if unreadable else exit_status(reports, values["fail_on"]))


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
        click.echo(f"vllm-doctor: {inert_text(one_line(str(problem)))}", err=True)
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
    diagnosis = Diagnosis(options, log)
    for chunk in chunks(sys.stdin.buffer if log == "-" else log, _CHUNK):
        diagnosis.feed(chunk)
    return diagnosis


def _why(log: str, options: Options, rule_id: str) -> str:
    """Why a rule fired on a log or did not, in one line."""
    from vllm_doctor.rule_tests import explain_silence  # noqa: PLC0415 - only when asked

    diagnosis = _fed(log, options)
    report = diagnosis.finish()
    finding = next((item for item in report.findings if item.id == rule_id), None)
    if finding is not None:
        place = f"fires: line {finding.evidence[0].line}: {finding.evidence[0].text}"
        cause = "" if report.primary == rule_id else f"; the cause is {report.primary}"
        return f"{log}: {rule_id} {place}{cause}\n"
    return f"{log}: {rule_id} does not fire: {explain_silence(diagnosis, diagnosis.base.rules[rule_id])}\n"


def _render(reports: list[Report], format_: str, values: dict[str, Any]) -> str:
    """The reports in a format. Nothing in it is a command to the build runner that may read this output."""
    writer = importlib.import_module(f"vllm_doctor.report.{_WRITERS[format_]}")
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
        from vllm_doctor.report import summary  # noqa: PLC0415 - one log needs none

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
