"""The root command, and the reporting of user errors."""

from __future__ import annotations

import sys
from typing import Any

import click

from vllm_doctor.cli import completion, diagnose, explain, mcp, rules, run, size, watch, web
from vllm_doctor.cli.error_output import report_error
from vllm_doctor.cli.streams import discard, fill_closed, words
from vllm_doctor.errors import DoctorError
from vllm_doctor.exit_status import ExitStatus
from vllm_doctor.version import __version__


class _Group(click.Group):
    """A command group that reports our own errors on one line of stderr with exit status 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DoctorError as error:
            report_error(error)
            ctx.exit(ExitStatus.USAGE)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="vllm-doctor")
def cli() -> None:
    """Explain why a vLLM server failed or runs slowly, what to change and by how much."""


for module in (completion, diagnose, explain, mcp, rules, run, size, watch, web):
    cli.add_command(module.command)


def main() -> None:
    """Run `vllm-doctor`. If a standard stream fails, it still ends with an exit status and at most one error line."""
    fill_closed()
    try:
        cli(prog_name="vllm-doctor")
    except OSError as error:  # click lets what fails on a stream pass, but for a reader that has gone
        discard(1)
        report_error(DoctorError(words(error)))
        sys.exit(ExitStatus.USAGE)
