"""The user's command: parse it, change it, write it back in the form the user gave it in.

`parse` reads a text that is a command, `CommandFinder` finds one in a log, `arguments` builds one from the
arguments vLLM prints. `change_flags.change` sets and removes flags, `render.render` writes the command back.
Nothing is ever executed.
"""

from __future__ import annotations

from vllm_doctor.command.command_in_line import find_command, parse_known_command
from vllm_doctor.command.finder import CommandFinder
from vllm_doctor.command.model import Command, Option, Word
from vllm_doctor.command.python import CALL, parse_call
from vllm_doctor.command.yaml_commands import key_of, parse_config_file, parse_document

__all__ = [
    "Command",
    "CommandFinder",
    "Option",
    "Word",
    "parse",
]


def parse(text: str) -> Command | None:
    """Parse a text that is a command in any form; return None when it starts no vLLM server.

    Forms: a shell line (with or without its prompt), an argument list, a Python call, a compose file, a Kubernetes
    manifest or the output of `kubectl describe`, the contents of a `--config` file.
    """
    if any(key_of(line) for line in text.splitlines()[:2000]):
        command = parse_document(text)
        if command is not None:
            return command
    if CALL.search(text):
        command = parse_call(text)
        if command is not None:
            return command
    command = find_command(text) or parse_known_command(text)
    return command or _script(text) or parse_config_file(text)


def _script(text: str) -> Command | None:
    """Return the command on one of the lines of a text."""
    finder = CommandFinder()
    for number, line in enumerate(text.splitlines()[:2000], 1):
        finder.feed(number, line)
    finder.finish()
    return finder.command
