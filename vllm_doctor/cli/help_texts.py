"""The help of the commands, in the user's language.

click formats what a command and its options hold, so their texts are replaced by translations before it does; the
words of click itself (`Usage:`, `Options:`) are those of the formatter below.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from copy import copy
from typing import Any

import click

from vllm_doctor.language import Language
from vllm_doctor.messages import N_

_OF_CLICK = (N_("Usage: "), N_("Options"), N_("Commands"), N_("Show this message and exit."),
             N_("Show the version and exit."))


def texts(command: click.Command, name: str = "vllm-doctor") -> Iterator[tuple[str, str]]:
    """Yield (command, text) of the help of a command, its options and its subcommands."""
    for text in filter(None, (command.short_help, command.help)):
        for paragraph in _paragraphs(text):
            yield name, paragraph
    for option in command.params:
        if isinstance(option, click.Option) and option.help:
            yield f"{name} {option.opts[0]}", option.help
    if isinstance(command, click.Group):
        context = click.Context(command)
        for subcommand in command.list_commands(context):
            found = command.get_command(context, subcommand)
            if found is not None:
                yield from texts(found, f"{name} {subcommand}")


def translated(command: click.Command, language: Language) -> click.Command:
    """Return a copy of a command whose help is in a language, and that of its options and subcommands."""
    result = copy(command)
    for own in ("help", "short_help"):
        if text := getattr(command, own, None):
            setattr(result, own, "\n\n".join(language.gettext(part) for part in _paragraphs(text)))
    result.params = [copy(option) for option in command.params]
    for option in result.params:
        if isinstance(option, click.Option) and option.help:
            option.help = language.gettext(option.help)
    result.context_class = type("Context", (click.Context,), {"formatter_class": _formatter(language)})
    if isinstance(command, click.Group):
        def subcommand(context: click.Context, name: str) -> click.Command | None:
            found = command.get_command(context, name)
            return None if found is None else translated(found, language)

        result.get_command = subcommand  # type: ignore[attr-defined]
    return result


def _paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a help text; those that click does not rewrap keep their lines."""
    parts = inspect.cleandoc(text).split("\n\n")
    return [part if "\b" in part or "\\b" in part else " ".join(part.split()) for part in parts if part.strip()]


def _formatter(language: Language) -> type[click.HelpFormatter]:
    """Return click's formatter with its own words in a language."""

    class Formatter(click.HelpFormatter):
        def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
            super().write_usage(prog, args, prefix or language.gettext("Usage: "))

        def write_heading(self, heading: str) -> None:
            super().write_heading(language.gettext(heading))

        def write_dl(self, rows: Any, col_max: int = 30, col_spacing: int = 2) -> None:
            super().write_dl([(term, language.gettext(text)) for term, text in rows], col_max, col_spacing)

    return Formatter
