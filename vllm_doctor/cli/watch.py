"""`vllm serve … 2>&1 | vllm-doctor watch`: a transparent pipe that reports a failure once its cause is certain."""

from __future__ import annotations

import sys
from typing import Any

import click

from vllm_doctor import pipe
from vllm_doctor.cli.error_output import print_error_line
from vllm_doctor.cli.live_reporter import LiveReporter
from vllm_doctor.cli.options import shared
from vllm_doctor.cli.values import check_ids, engine_options
from vllm_doctor.errors import InputError


@click.command("watch")
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True,
              help="json: one report per line, whenever the cause changes.")
@click.option("--output", metavar="FILE", help="Also write the last report to this file.")
@click.option("--stall-after", type=click.FloatRange(min=0), metavar="SECONDS",
              help="Seconds without output that are a stall (default: 180 to 900 by phase; 0: never).")
@click.option("--once", is_flag=True, help="End after the first certain cause, or when the server serves.")
@shared
def command(format_: str, output: str | None, once: bool, **values: Any) -> None:
    """Pass standard input on unchanged, at once, and report on stderr when the cause of a failure is certain."""
    if sys.stdin.isatty():
        raise InputError("nothing is piped in: vllm serve … 2>&1 | vllm-doctor watch")
    options = engine_options(values)
    check_ids(options)
    voice = LiveReporter(options, format_, output, once, values)
    result = pipe.pump(voice.follow, once=once, status_line=voice.status_line)
    if result.analyser_died:
        print_error_line("vllm-doctor: the analyser ended early; all bytes were passed on")
    sys.exit(result.status)
