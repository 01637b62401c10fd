"""Change a command: set and remove flags in place, and set environment variables.

All other words are kept. A flag keeps the spelling the user gave it (`-tp`, `--max_model_len=`); spellings
that would contradict the new value (`--no-x`, `--x.key`, an earlier repetition) are removed.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping

from vllm_doctor.command.flags import (
    MODEL,
    Spelling,
    is_typographic,
    keyword_of,
    parse_flag,
    read_json,
    read_typed,
    takes_several_values,
    with_plain_dashes,
)
from vllm_doctor.command.launchers import CLEARS_ENVIRONMENT
from vllm_doctor.command.model import Command, Option, Word, compact_json, with_key
from vllm_doctor.command.render import yaml_scalar

_IGNORES_ENVIRONMENT = frozenset({"-i", "-", "--ignore-environment"})  # options of env


def change(
    command: Command,
    wanted: Mapping[str, str],
    unset: Iterable[str] = (),
    env: Mapping[str, str] | None = None,
) -> Command:
    """Return the command with flags set ("" for one without a value) or removed, and variables set.

    A flag is replaced in place, in the spelling the user gave it; a flag that is missing is appended.
    Typographic dashes are replaced everywhere: no command works with them.
    """
    command = command._replace(options=tuple(map(_with_plain_dashes, command.options)))
    for flag in unset:
        command = _without(command, flag)
    for flag, value in wanted.items():
        command = _with(command, flag, value)
    for name, value in (env or {}).items():
        command = _with_variable(command, name, value)
    return command


# Flags


def _with_plain_dashes(option: Option) -> Option:
    """Return the option with the dashes that make its name a flag, in place of typographic ones."""
    if option.flag is None or not is_typographic(option.flag.value or ""):
        return option
    name = with_plain_dashes(option.flag.value or "")
    return option._replace(flag=option.flag._replace(text=name, value=name))


def _without(command: Command, flag: str) -> Command:
    gone = parse_flag(flag, command.lookup)
    options = list(command.options)
    for index, spelling in reversed(command.find(flag)):
        if gone.negated and not spelling.negated:
            continue
        if not gone.path or gone.path == spelling.path:
            del options[index]
        elif not spelling.path:
            shorter = _without_mapping_key(options[index], gone.path, command)
            if shorter is not None:
                options[index] = shorter
    return command._replace(options=tuple(options))


def _with(command: Command, flag: str, value: str) -> Command:
    wanted = parse_flag(flag, command.lookup)
    matches = command.find(flag)
    if wanted.path:
        return _with_mapping_key(command, flag, wanted, value, matches)
    options = list(command.options)
    if not matches:
        if wanted.name == MODEL and command.entry == "serve":  # 0.8.3 to 0.11.0 refuse `vllm serve --model`
            options.insert(0, Option(None, (Word.quoted(value),)))
        else:
            options.append(_new(command, flag, value))
        return command._replace(options=tuple(options))
    without_key = [(index, spelling) for index, spelling in matches if not spelling.path]
    positional = [(index, spelling) for index, spelling in matches if options[index].flag is None]
    keep, spelling = (positional or without_key or list(matches))[-1]
    if positional and options[keep].value == value and _is_only_serve(command):
        command = command._replace(before=command.before[:-1], entry="image")
    if spelling.path or spelling.negated != wanted.negated or (
            positional and _is_rejected(command, options[keep], value)):
        options[keep] = _in_place(_new(command, flag, value), options[keep])
    else:
        options[keep] = _with_value(options[keep], value, command, wanted)
    drop = {index for index, _ in matches if index != keep}
    return command._replace(options=tuple(o for i, o in enumerate(options) if i not in drop))


def _is_rejected(command: Command, word: Option, value: str) -> bool:
    """Return whether the parser rejected the model as a positional argument, so that it needs --model.

    `python -m vllm.entrypoints…` never accepts a positional model. An image does when its entrypoint is `vllm serve`;
    its word was rejected only if the fix asks for the value it already has.
    """
    return command.entry == "module" or (command.entry == "image" and word.value == value)


def _is_only_serve(command: Command) -> bool:
    """Return whether `serve` is the only word after the image: one too many when the model is rejected."""
    image = command.container
    if any(word.content.startswith("--entrypoint") for word in command.before):
        return False
    return command.entry == "serve" and image is not None and command.program == image + 1 == len(command.before) - 1


def _with_mapping_key(
    command: Command, flag: str, wanted: Spelling, value: str, matches: tuple[tuple[int, Spelling], ...]
) -> Command:
    """Set `--flag.key` in place, inside the JSON of `--flag`, or as a new option."""
    options = list(command.options)
    for index, spelling in reversed(matches):
        if spelling.path == wanted.path:
            options[index] = _with_value(options[index], value, command, wanted)
            return command._replace(options=tuple(options))
    for index, spelling in reversed(matches):
        mapping = None if spelling.path else read_json(options[index].value or "", None)
        if isinstance(mapping, dict):
            merged = compact_json(with_key(mapping, wanted.path, read_typed(value)))
            options[index] = _with_value(options[index], merged, command, wanted)
            return command._replace(options=tuple(options))
    if command.entry in {"call", "file"}:  # these forms have no syntax for one key of a mapping
        merged = compact_json(with_key({}, wanted.path, read_typed(value)))
        return command._replace(options=(*options, _new(command, wanted.name, merged)))
    return command._replace(options=(*options, _new(command, flag, value)))


def _without_mapping_key(option: Option, path: str, command: Command) -> Option | None:
    """Return the option without one key of its JSON; None when the key is missing."""
    mapping = read_json(option.value or "", None)
    outer, _, key = path.rpartition(".")
    inner: object = mapping
    for step in outer.split(".") if outer else ():
        inner = inner.get(step) if isinstance(inner, dict) else None
    if not isinstance(inner, dict) or key not in inner:
        return None
    del inner[key]
    return _with_value(option, compact_json(mapping), command, Spelling(option.flag.text if option.flag else MODEL))


def _in_place(new: Option, old: Option) -> Option:
    """Return the new option with the white space of the option it replaces."""
    if new.flag is None or old.flag is None:
        return new
    return new._replace(flag=new.flag._replace(gap=old.flag.gap))


def _new(command: Command, flag: str, value: str) -> Option:
    """Return an option for a flag that was missing, in the command's form."""
    gap = command.options[-1].words()[0].gap if command.options else " "
    if len(command.options) == 1:  # the first argument of a call follows its bracket
        gap = gap or " "
    word = Word(flag, flag, gap)
    if command.entry == "file":
        word = Word(flag.removeprefix("--"), flag, "")
    elif command.entry == "call":
        word = Word(keyword_of(parse_flag(flag).name, command.lookup), flag, gap)
    return _with_value(Option(word), value, command, parse_flag(flag))


def _with_value(option: Option, value: str, command: Command, wanted: Spelling) -> Option:
    """Return the option with another value, written as the command's form writes values."""
    is_list = option.flag is not None and takes_several_values(wanted.name, command.lookup)
    many = is_list and not value.startswith(("{", "["))
    parts = _split(value) if many else [value]
    if command.entry == "call":
        negated = option.flag is not None and (option.flag.value or "").startswith("--no-")
        kind = _kind(command, wanted.name)
        return option._replace(values=(_python_word(parts, negated=negated, kind=kind),))
    if command.entry == "file":
        text = yaml_scalar(value, numbers=True) if len(parts) == 1 else f"[{', '.join(map(json.dumps, parts))}]"
        return option._replace(values=(Word(" " + (text if value else "true"), value),))
    if value == "" and option.flag is not None:
        return option._replace(values=(), glue=" ")
    gap = option.values[0].gap if option.values else " "
    words = tuple(Word.quoted(part, gap if index == 0 else " ") for index, part in enumerate(parts))
    return option._replace(values=words)


def _split(value: str) -> list[str]:
    try:
        return shlex.split(value) or [value]
    except ValueError:  # an unclosed quote is part of the value
        return value.split() or [value]


def _kind(command: Command, name: str) -> str:
    flag = command.lookup(name)
    return flag.kind if flag is not None else ""


def _python_word(parts: list[str], *, negated: bool, kind: str) -> Word:
    """Return a value as a Python literal."""
    if parts == [""]:
        return Word(repr(not negated), "false" if negated else "")
    values = [read_typed(part, kind) for part in parts]
    return Word(repr(values[0] if len(values) == 1 else values), " ".join(parts))


# Environment


def _with_variable(command: Command, name: str, value: str) -> Command:
    environment = dict(command.environment)
    environment[name] = value
    command = command._replace(environment=tuple(environment.items()))
    if command.form != "shell":
        variables = dict.fromkeys((*command.document.variables, name))
        return command._replace(document=command.document._replace(variables=tuple(variables)))
    assignment = Word.quoted(f"{name}={value}")
    before = list(command.before)
    for index, word in enumerate(before[: max(command.program, command.container or 0)]):
        typed = word.content
        if typed.startswith(f"{name}=") and index >= command.start:
            before[index] = Word.assignment(name, value)._replace(gap=word.gap)
            return command._replace(before=tuple(before))
        if typed.startswith((f"--env={name}=", f"-e{name}=")):
            prefix = typed[: typed.index(name)]
            before[index] = Word(prefix + shlex.quote(f"{name}={value}"), f"{prefix}{name}={value}", word.gap)
            return command._replace(before=tuple(before))
    if command.container is not None:
        return _inserted(command, command.container, (Word("-e", "-e"), assignment))
    first = Word.assignment(name, value)
    wrappers = {word.program for word in before[command.start : command.program]}
    if wrappers & CLEARS_ENVIRONMENT or ("env" in wrappers and wrappers & _IGNORES_ENVIRONMENT):
        words = (first,) if "env" in wrappers else (Word("env", "env"), first)
        return _inserted(command, command.program, words)
    return _inserted(command, command.start, (first,))


def _inserted(command: Command, position: int, words: tuple[Word, ...]) -> Command:
    """Return the command with words inserted before `before[position]`."""
    before = list(command.before)
    if position < len(before):  # the new words take the white space of the word they displace
        words = (words[0]._replace(gap=before[position].gap), *words[1:])
        before[position] = before[position]._replace(gap=" ")
    before[position:position] = words
    count = len(words)
    container = command.container
    return command._replace(
        before=tuple(before),
        program=command.program + count,
        container=None if container is None else container + count,
    )
