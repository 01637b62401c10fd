"""`vllm-doctor run -- vllm serve …`: starts the command itself and reports on stderr."""

from __future__ import annotations

import shlex
import sys
from typing import Any

import click

from vllm_doctor import pipe
from vllm_doctor.cli.effective_options import check_ids, engine_options
from vllm_doctor.cli.live_reporter import LiveReporter
from vllm_doctor.cli.options import of_engine_and_display
from vllm_doctor.command import parse


@click.command("run", short_help="Run a command and report when it fails.",
               context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.argument("argv", nargs=-1, required=True, metavar="-- COMMAND…", type=click.UNPROCESSED)
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True,
              help="Format of the reports; json: one per line, whenever the cause changes.")
@click.option("--output", metavar="FILE", help="Also write the last report to this file.")
@click.option("--termination-log", metavar="FILE",
              help="Write the cause of a failure to this file, in a pod /dev/termination-log.")
@of_engine_and_display
def command(argv: tuple[str, ...], format_: str, output: str | None, termination_log: str | None,
            **values: Any) -> None:
    """Run COMMAND, pass its output on and report on stderr when it fails.

    Signals are forwarded to COMMAND; the exit status is that of COMMAND.
    """
    options = engine_options(values)
    check_ids(options)
    if not options.command:
        options = options._replace(command=_if_vllm(shlex.join(argv)))
    reporter = LiveReporter(options, format_, output, False, values, termination_log=termination_log)
    sys.exit(pipe.run_command(list(argv), reporter.follow, status_line=reporter.status_line))


def _if_vllm(text: str) -> str:
    """Return the command as text if it starts vLLM (not a wrapper script), else ""."""
    return text if parse(text) is not None else ""
