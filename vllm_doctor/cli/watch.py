"""`vllm serve … 2>&1 | vllm-doctor watch`: a transparent pipe that reports a failure once its cause is certain.

With `--file` it follows log files instead.
"""

from __future__ import annotations

import os
import sys
from datetime import datetime, timedelta
from typing import Any

import click

from vllm_doctor import pipe
from vllm_doctor.cli.effective_options import check_ids, engine_options
from vllm_doctor.cli.error_output import print_error_line, report_error
from vllm_doctor.cli.exit_status import ExitStatus
from vllm_doctor.cli.live_reporter import LiveReporter
from vllm_doctor.cli.options import of_engine_and_display
from vllm_doctor.errors import InputError
from vllm_doctor.messages import message
from vllm_doctor.reports.escape import one_line

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class Moment(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic only from click 8.4
    """A time (`2025-11-20T14:00`), or how long ago it was (`10m`)."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the time. Fails if the value is invalid."""
        text = str(value)
        try:
            if text[-1:] in _UNITS and text[:-1].isdecimal():
                return datetime.now().astimezone() - timedelta(**{_UNITS[text[-1]]: int(text[:-1])})
            return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone()
        except (ValueError, OverflowError):
            self.fail(f"{text!r} is neither a time such as 2025-11-20T14:00 nor an age such as 30s, 10m, 2h or 1d",
                      param, ctx)


@click.command("watch", short_help="Pass a log on and report when the cause of a failure is certain.")
@click.option("--file", "files", multiple=True, type=click.Path(), metavar="FILE",
              help="Follow this log file, through rotation, instead of standard input; repeatable.")
@click.option("--since", type=Moment(), metavar="TIME",
              help="With --file, report only on newer lines: 2025-11-20T14:00, or 10m for ten minutes ago.")
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True,
              help="Format of the reports; json: one per line, whenever the cause changes.")
@click.option("--output", metavar="FILE", help="Also write the last report to this file.")
@click.option("--stall-after", type=click.FloatRange(min=0), metavar="SECONDS",
              help="Seconds without output that count as a stall (default: 180 to 900 by phase; 0: never).")
@click.option("--once", is_flag=True, help="Exit after the first certain cause, or when the server is ready.")
@of_engine_and_display
def command(files: tuple[str, ...], since: datetime | None, format_: str, output: str | None, once: bool,
            **values: Any) -> None:
    """Pass standard input on unchanged and report on stderr when the cause of a failure is certain.

    With --file nothing is passed on; Ctrl-C ends it with the full report.
    """
    if since and not files:
        raise InputError(message("--since belongs to --file FILE"))
    if output and len(files) > 1:
        raise InputError(message("--output takes the report of one log"))
    if not files and sys.stdin.isatty():
        raise InputError(message("nothing is piped in: vllm serve … 2>&1 | vllm-doctor watch"))
    options = engine_options(values)
    check_ids(options)
    if files:
        followed = [_followed(path, since) for path in dict.fromkeys(files)]
        reporters = [LiveReporter(options, format_, output, once, values, name=file.path, silent_bytes=first,
                                  bar_name=one_line(file.path) if len(followed) > 1 else "")
                     for file, first in followed]
        sys.exit(_follow([file for file, _ in followed], reporters))
    reporter = LiveReporter(options, format_, output, once, values)
    result = pipe.pump(reporter.follow, once=once, status_line=reporter.status_line)
    if result.analyser_died:
        print_error_line("vllm-doctor: the analyser ended early; all bytes were passed on")
    sys.exit(result.status)


def _followed(path: str, since: datetime | None) -> tuple[pipe.FollowedFile, int]:
    """Return the file, and how many of its bytes are older than `since`. Raises InputError if it cannot be read."""
    first = pipe.offset_of(path, since) if since else 0
    file = pipe.FollowedFile(path, first)
    file.wait(0)
    if file.problem is not None:
        raise file.problem
    if not os.path.exists(path):
        print_error_line(f"vllm-doctor: {one_line(path)}: does not exist yet; waiting for it")
    return file, first


def _follow(files: list[pipe.FollowedFile], reporters: list[LiveReporter]) -> ExitStatus:
    """Follow the files to their end; return the worst exit status."""
    followers = [pipe.Follower(file, reporter.steps(file)) for file, reporter in zip(files, reporters, strict=True)]
    pipe.follow_files(followers, is_enough=lambda: any(reporter.has_cause for reporter in reporters))
    problems = [file.problem for file in files if file.problem is not None]
    for problem in problems:
        report_error(problem)
    return ExitStatus.USAGE if problems else max(reporter.exit_status for reporter in reporters)
