"""What the user gives beside a log: the command that started vLLM, and the state of the GPUs."""

from __future__ import annotations

from typing import NamedTuple

from vllm_doctor.command import Command, parse
from vllm_doctor.command.frontend_finder import Typed, parse_frontend
from vllm_doctor.errors import InputError
from vllm_doctor.gpu_status import Card, cards_in
from vllm_doctor.messages import message
from vllm_doctor.options import Options


class UserInput(NamedTuple):
    """At most one of `command`, which starts vLLM itself, and `typed`, which starts a program around it."""

    command: Command | None
    typed: Typed | None
    cards: tuple[Card, ...]

    @classmethod
    def of(cls, options: Options) -> UserInput:
        """Read the options. Raises InputError if the command given is none that starts vLLM."""
        cards = tuple(card._replace(line=0) for card in cards_in(options.gpu_status))
        text = options.command or options.config
        if not text:
            return cls(None, None, cards)
        command = parse_frontend(text) or parse(text)
        if command is None:
            raise InputError(message("the command given is not one that starts vLLM"))
        return cls(None, command, cards) if isinstance(command, Typed) else cls(command, None, cards)
