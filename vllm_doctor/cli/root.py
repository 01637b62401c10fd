"""The group of commands, and how problems are told."""

from __future__ import annotations

import importlib
from typing import Any

import click

from vllm_doctor.cli.error_output import tell
from vllm_doctor.errors import DoctorError
from vllm_doctor.exit_status import ExitStatus
from vllm_doctor.version import __version__

_COMMANDS = {
    "completion": "vllm_doctor.cli.completion",
    "diagnose": "vllm_doctor.cli.diagnose",
    "explain": "vllm_doctor.cli.explain",
    "rules": "vllm_doctor.cli.rules",
    "run": "vllm_doctor.cli.run",
    "size": "vllm_doctor.cli.size",
    "watch": "vllm_doctor.cli.watch",
    "web": "vllm_doctor.cli.web",
}


class _Group(click.Group):
    """Loads a command's module when it is used, and turns our errors into one line and status 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        holder = _COMMANDS.get(cmd_name)
        if holder is None:
            return None
        command: click.Command = importlib.import_module(holder).command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DoctorError as error:
            tell(error)
            ctx.exit(ExitStatus.USAGE)


@click.command(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="vllm-doctor")
def cli() -> None:
    """Read a vLLM server's log and say why it failed, what to change and by how much."""
