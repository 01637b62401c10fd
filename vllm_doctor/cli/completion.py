"""The `vllm-doctor completion SHELL` command: print the script that completes commands, options and rule ids."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from vllm_doctor.errors import InputError

_SHELLS = ("bash", "zsh", "fish")
_HELP = """Print the shell script that completes commands, options and rule ids.

\b
bash   add to ~/.bashrc:                 eval "$(vllm-doctor completion bash)"
zsh    add to ~/.zshrc, after compinit:  eval "$(vllm-doctor completion zsh)"
fish   vllm-doctor completion fish > ~/.config/fish/completions/vllm-doctor.fish
"""


@click.command("completion", help=_HELP, short_help="Print the completion script for a shell.")
@click.argument("shell", type=click.Choice(_SHELLS))
def command(shell: str) -> None:
    """Print the completion script for a shell."""
    completer = get_completion_class(shell)
    if completer is None:
        raise InputError(f"this click knows no completion for {shell}")
    cli = click.get_current_context().find_root().command
    click.echo(completer(cli, {}, "vllm-doctor", "_VLLM_DOCTOR_COMPLETE").source(), nl=False)
