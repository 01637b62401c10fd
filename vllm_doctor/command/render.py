"""Write a command back in the form the user gave it in.

Forms: a shell line, a config file, a Python call, a compose file, a Kubernetes manifest.
"""

from __future__ import annotations

import json
import re

from vllm_doctor.command.flags import is_flag
from vllm_doctor.command.model import Command, Word, join
from vllm_doctor.text.patterns import lazy_pattern

_PLAIN = lazy_pattern(r"-{0,2}[A-Za-z_/][\w./@%+=,-]*", re.ASCII)
_NUMBER = lazy_pattern(r"[-+]?(?:0|[1-9]\d*)(?:\.\d+)?", re.ASCII)
_RESERVED = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null", "none"})


def render(command: Command, *, multiline: bool = False) -> str:
    """Return the command in the user's own form; a shell command fits on one line unless `multiline`.

    A config file is returned in full, a Python call as the call, a manifest as the keys that hold the arguments.
    """
    if command.form == "shell":
        return command.to_shell(multiline=multiline)
    if command.form == "yaml":
        return _render_file(command)
    if command.form == "python":
        return _render_call(command)
    return _render_keys(command)


def render_patch(command: Command) -> dict[str, str] | None:
    """Return `{"kind": …, "text": …}` for a form other than the shell's; None for a shell command."""
    return None if command.form == "shell" else {"kind": command.form, "text": render(command)}


def yaml_scalar(text: str, *, numbers: bool = False) -> str:
    """Return a string as a YAML scalar; text that YAML would read as a number is quoted unless `numbers`."""
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    if numbers and _NUMBER.fullmatch(text):
        return text
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    import yaml  # noqa: PLC0415 - as in `documents`

    return str(yaml.safe_dump(text, default_style='"', width=1 << 30)).strip()


def _render_file(command: Command) -> str:
    lines = [f"# in the environment: {name}={value}" for name, value in _changed(command)]
    for option in command.options:
        if option.flag is not None:
            value = "".join(word.text for word in option.values)
            lines.append(f"{option.flag.gap}{option.flag.text}:{value}")
    return "\n".join(lines) + command.document.tail


def _render_call(command: Command) -> str:
    document = command.document
    lines = [f"os.environ[{json.dumps(name)}] = {json.dumps(value)}" for name, value in _changed(command)]
    if lines:
        lines.insert(0, "import os  # before vLLM is imported")
    pieces: list[str] = []
    for option in command.options:
        words = option.words()
        gap = words[0].gap if option.flag is None else option.flag.gap
        value = "".join(word.text for word in option.values)
        text = value if option.flag is None else f"{option.flag.text}={value}"
        if not pieces and "\n" not in gap:
            gap = ""
        pieces.append(gap + text)
    lines.append(f"{document.lead}{document.callee}({','.join(pieces)}{document.tail}")
    return "\n".join(lines)


def _render_keys(command: Command) -> str:
    """Render the keys `command` or `args`, and `environment` or `env` when a change set variables."""
    document = command.document
    words = list(command.words())
    if command.outer is not None:
        inner = Word.quoted(join(words))
        words = [*command.outer.before, inner, *command.outer.after]
    values = [word.content for word in words]
    lines: list[str] = []
    if document.program_key:
        program = list(document.program)
        if values[: len(program)] != program:  # arguments followed the program: put all of them under the other key
            program = [word.content for word in command.before]
            lines += _block(document.program_key, program, words, "flow")
        values, words = values[len(program) :], words[len(program) :]
    lines += _block(document.key, values, words, document.style)
    changed = _changed(command)
    if changed and command.form == "kubernetes":
        lines.append("env:")
        for name, value in changed:
            lines += [f"  - name: {name}", f"    value: {yaml_scalar(value)}"]
    elif changed:
        lines.append("environment:")
        as_map = document.environment_style == "map"
        lines += [f"  {n}: {yaml_scalar(v)}" if as_map else f"  - {yaml_scalar(f'{n}={v}')}" for n, v in changed]
    return "\n".join(lines)


def _block(key: str, values: list[str], words: list[Word], style: str) -> list[str]:
    if style in {"block", "string"} and not any("\n" in word.text for word in words):
        if style == "string":
            return [f"{key}: {yaml_scalar(join(words))}"]
        lines: list[str] = []
        for word in words:  # a line for each flag with its values
            if lines and not is_flag(word.text):
                lines[-1] += " " + word.text
            else:
                lines.append("  " + word.text)
        return [f"{key}: >", *lines]
    if style == "flow":
        return [f"{key}: {json.dumps(values, ensure_ascii=False)}"]
    return [f"{key}:", *(f"  - {yaml_scalar(value)}" for value in values)]


def _changed(command: Command) -> list[tuple[str, str]]:
    environment = dict(command.environment)
    return [(name, environment[name] or "") for name in command.document.variables]
