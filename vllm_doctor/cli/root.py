"""The root command, and the reporting of user errors."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

from vllm_doctor.cli.error_output import report_error
from vllm_doctor.cli.exit_status import ExitStatus
from vllm_doctor.cli.options import in_language
from vllm_doctor.cli.streams import discard, error_text, fill_closed
from vllm_doctor.errors import DoctorError
from vllm_doctor.language import language as language_of
from vllm_doctor.language import typed_language, wanted_language
from vllm_doctor.redact import redact
from vllm_doctor.version import __version__

COMMANDS = ("bundle", "completion", "diagnose", "explain", "fleet", "kubectl", "mcp", "rules", "run", "size", "watch",
            "web")
"""The commands; each is the `command` of the module with its name."""


class _Group(click.Group):
    """A group that imports only the command in use, and reports our own errors on one line with exit status 2.

    See "Lazily Loading Subcommands" in click's documentation.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"vllm_doctor.cli.{cmd_name}").command
        gc.freeze()  # what the imports made stays: the collector looks at it no more
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DoctorError as error:
            report_error(error)
            ctx.exit(ExitStatus.USAGE)
        except click.ClickException as error:
            raise _masked(error) from None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.ClickException as error:
            raise _masked(error) from None


def _masked(error: click.ClickException) -> click.ClickException:
    """Mask the secrets in a message of click, which quotes what was typed."""
    text = error.format_message()
    clean = redact(text)
    if clean == text:
        return error
    return click.UsageError(clean, error.ctx) if isinstance(error, click.UsageError) else click.ClickException(clean)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="vllm-doctor")
@in_language
def cli(language: str) -> None:
    """Find out from its log why a vLLM server failed or runs slowly, and what to change."""
    del language  # the options of the commands ask for it


def _in_language(code: str) -> click.Command:
    """Return the command with its help in a language."""
    if code == "en":
        return cli
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # as `write` does: what is asked for in Chinese cannot be said in ASCII
            stream.reconfigure(encoding="utf-8")
    from vllm_doctor.cli.help_texts import translated  # noqa: PLC0415 - English does not need it

    return translated(cli, language_of(code))


def main(argv: list[str] | None = None) -> None:
    """Run `vllm-doctor`. If a standard stream fails, it still ends with an exit status and at most one error line."""
    fill_closed()
    gc.set_threshold(50_000)  # a start makes many objects and drops few: garbage is looked for later
    try:
        arguments = sys.argv[1:] if argv is None else argv
        _in_language(typed_language(arguments) or wanted_language(os.environ))(argv, prog_name="vllm-doctor")
    except OSError as error:  # click lets what fails on a stream pass, but for a reader that has gone
        discard(1)
        report_error(DoctorError(error_text(error)))
        sys.exit(ExitStatus.USAGE)
