"""The program that vLLM was started by, and its command in a log.

Nothing of a log is offered as it is printed: a command is parsed and rebuilt from its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from vllm_doctor.catalog.frontends import Frontend, anchors, frontends
from vllm_doctor.command.command_in_line import strip_prompt
from vllm_doctor.command.flags import FlagInfo
from vllm_doctor.command.known_parts import rebuild
from vllm_doctor.command.launchers import LAUNCHERS, PRIVILEGED, is_python
from vllm_doctor.command.model import ASSIGNED, Command, Option, Word, program_name
from vllm_doctor.command.shell import continued, read_options
from vllm_doctor.command.words import split
from vllm_doctor.text.literal_search import any_of
from vllm_doctor.text.patterns import lazy_pattern

_MAX_LINES = 200
_MAX_CHARACTERS = 32 * 1024
_LEADING = LAUNCHERS | PRIVILEGED | {"deepspeed", "run", "job", "submit", "--"}
"""Words that may stand in front of the program where no prompt shows that it is a command."""
FILE = lazy_pattern(r"[\w./-]+\.(?:ya?ml|json)", re.ASCII)


class Typed(NamedTuple):
    """A program's command, as typed by the user, and the line it begins on (0: it was given)."""

    frontend: Frontend
    command: Command
    line: int = 0


class Seen(NamedTuple):
    """The program that a log shows, its release if that is printed, and its command if that is shown."""

    frontend: Frontend
    release: str = ""
    typed: Command | None = None


class FrontendFinder:
    """The search for the program in a log that is fed line by line."""

    def __init__(self) -> None:
        self.typed: Typed | None = None
        self.lines: dict[str, int] = {}  # the first line that shows each program
        self.releases: dict[str, str] = {}
        self._pending: tuple[int, list[str]] | None = None

    def feed(self, number: int, text: str, source: str = "") -> None:
        """Read a line and the label in front of it."""
        if self._pending is not None:
            first, lines = self._pending
            lines.append(text)
            if not text.rstrip().endswith("\\") or len(lines) >= _MAX_LINES:
                self._pending = None
                self._read_command(first, "\n".join(lines))
            return
        if any_of(_program_words()).search(text):
            if text.rstrip().endswith("\\") and parse_frontend(text, partial=True) is not None:
                self._pending = number, [text]
                return
            self._read_command(number, text)
        both = f"{source} {text}" if source else text
        if any_of(anchors()).search(both):
            self._read_printed(number, both)

    def _read_command(self, number: int, text: str) -> None:
        typed = parse_frontend(text)
        if typed is not None:
            self.typed = typed._replace(line=number)

    def _read_printed(self, number: int, text: str) -> None:
        for frontend in frontends():
            if frontend.id not in self.lines and any(
                    item.anchor in text and item.pattern.search(text) for item in frontend.lines):
                self.lines[frontend.id] = number
            version = frontend.version
            if version is not None and version.anchor in text and (match := version.pattern.search(text)):
                self.releases[frontend.id] = match["version"]
                self.lines.setdefault(frontend.id, number)

    def seen(self, calls: Iterable[tuple[str, str]], *, is_vllm_command: bool,
             is_own_code: bool) -> Seen | None:
        """Return the program, given the calls of the failure's traceback (file from its package on, function).

        `is_vllm_command`: the log shows a command of vLLM's own, which then was typed in place of a program's, unless
        the program starts vLLM by such a command. `is_own_code`: the user's own code, of which the log shows no line,
        called vLLM.
        """
        if self.typed is not None:
            return self._seen(self.typed.frontend, self.typed.command)
        calls = tuple(calls)
        for frontend in frontends():
            if (is_vllm_command and not frontend.is_over_vllm) or (frontend.has_own_caller and not is_own_code):
                continue
            if frontend.id in self.lines or any(frontend.runs(file, function) for file, function in calls):
                return self._seen(frontend, None)
        return None

    def _seen(self, frontend: Frontend, typed: Command | None) -> Seen:
        return Seen(frontend, self.releases.get(frontend.id, ""), typed)


@lru_cache(maxsize=1)
def _program_words() -> tuple[str, ...]:
    """Return literals of which every command of a program holds one: its name, or the module that Python runs."""
    programs = (words for frontend in frontends() for words in frontend.programs)
    return tuple(dict.fromkeys(words[-1] if words[0] == "python" else words[0] for words in programs))


def parse_frontend(text: str, *, partial: bool = False) -> Typed | None:
    """Parse the command of such a program in one logical line; None for another text."""
    bare = strip_prompt(text)
    if len(bare) > _MAX_CHARACTERS:
        return None
    is_prompted = bare != text
    tokens, _ = split(continued(bare))
    words: list[Word] = []
    for token in tokens:
        if token.operator in {"&&", ";", "\n", "(", "||"}:
            found = _located(words, is_prompted=is_prompted)
            if found is not None:
                break
            words = []
        elif token.operator:
            break
        else:
            words.append(token.word)
    found = _located(words, is_prompted=is_prompted)
    if found is None:
        return None
    frontend, begin, end = found
    options = read_options(words[end:], no_flag)
    if not partial and not _is_plausible(options, is_prompted=is_prompted):
        return None
    command = Command(form="shell", entry="frontend", options=options, before=tuple(words[:end]),
                      environment=_environment(words[:begin]), program=begin, lookup=no_flag)
    return Typed(frontend, rebuild(command)[0])


def no_flag(_: str) -> FlagInfo | None:
    """Look up a flag among vLLM's: the options of other programs are none of them."""
    return None


def _environment(words: Sequence[Word]) -> tuple[tuple[str, str | None], ...]:
    found = ((match[1], None if word.value is None else match[2]) for word in words
             if (match := ASSIGNED.fullmatch(word.content)))
    return tuple(found)


def _located(words: Sequence[Word], *, is_prompted: bool) -> tuple[Frontend, int, int] | None:
    """Return the program that words start, and the indexes of its first word and of its first argument."""
    values = [word.content for word in words]
    for frontend in frontends():
        for program in frontend.programs:
            for begin in range(len(values) - len(program) + 1):
                end = begin + len(program)
                if all(map(_is_word, values[begin:end], program)) and (is_prompted or _may_lead(values[:begin])):
                    return frontend, begin, end
    return None


def _is_word(value: str, wanted: str) -> bool:
    """Return whether a word of a command is a word of a program: `/usr/bin/python3` is `python`."""
    if "/" in wanted:
        return value == wanted or value.endswith(f"/{wanted}")
    name = program_name(value)
    return is_python(name) if wanted == "python" else name == wanted


def _may_lead(values: Sequence[str]) -> bool:
    """Return whether words in front of a program belong to a command: assignments and launchers with their options."""
    launched = False
    for value in values:
        name = program_name(value)
        if name in _LEADING:
            launched = True
        elif not (ASSIGNED.fullmatch(value) or launched):
            return False
    return True


def _is_plausible(options: Sequence[Option], *, is_prompted: bool) -> bool:
    """Return whether the words behind a program are arguments and not the rest of a sentence."""
    if any(option.flag is not None and option.flag.value in {"--help", "-h"} for option in options):
        return False
    if is_prompted or any(option.flag is not None for option in options):
        return True
    positional = [option.value or "" for option in options]
    return all("=" in value or FILE.fullmatch(value) for value in positional)
