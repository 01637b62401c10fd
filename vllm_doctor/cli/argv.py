"""Reads an ordinary command line by the table of the options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vllm_doctor.cli.option_table import Option


def read(words: Iterable[str], options: Iterable[Option]) -> tuple[tuple[str, ...], dict[str, Any]] | None:
    """The arguments and the values typed; None where click must say more: help, a mistake, a rare way of writing."""
    known = {name: option for option in options for name in option.names}
    arguments: list[str] = []
    typed: dict[str, Any] = {}
    waiting = iter(words)
    for word in waiting:
        if word == "-" or not word.startswith("-"):
            arguments.append(word)
            continue
        name, told, value = word.partition("=")
        option = known.get(name)
        if option is None or (told and (option.kind is None or not name.startswith("--"))):
            return None
        if option.kind is None:
            typed[option.key] = True
            continue
        if not told:
            value = next(waiting, "-")
            if value.startswith("-"):
                return None
        try:
            read = option.kind.read(value)
        except ValueError:
            return None
        typed[option.key] = (*typed.get(option.key, ()), read) if option.many else read
    return tuple(arguments), typed
