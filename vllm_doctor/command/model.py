"""The user's command as a value, word by word as it was typed.

A `Command` keeps every word as the user typed it (quotes, order, redirections), so that it can be written
back with only the requested changes. Nothing here is executed.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from vllm_doctor.command.flags import (
    MODEL,
    Lookup,
    Spelling,
    is_same_flag,
    is_typographic,
    keyword_of,
    known_flag,
    parse_flag,
    read_json,
    read_typed,
    takes_several_values,
)
from vllm_doctor.text.patterns import lazy_pattern

Form = Literal["shell", "yaml", "python", "compose", "kubernetes"]
Entry = Literal["serve", "module", "image", "call", "file", "frontend"]
"""What receives the arguments: `vllm serve`, `python -m`, an image's entrypoint, a Python call, a YAML file, a program
around vLLM."""


ASSIGNED = lazy_pattern(r"([A-Za-z_]\w{0,80})=(?!=)(.*)", re.DOTALL)
"""A word that sets a variable; `vllm==0.11.0` sets none."""


def program_name(path: str) -> str:
    """Return the name of a program without its directory, and without Windows' ending."""
    return re.split(r"[/\\]", path)[-1].removesuffix(".exe")


class Word(NamedTuple):
    """One word: the text as typed, and the value vLLM receives.

    The value is None when only the shell or Python knows it (`$MODEL`, `args.model`).
    `gap` is the white space before it.
    """

    text: str
    value: str | None
    gap: str = " "

    @classmethod
    def quoted(cls, value: str, gap: str = " ") -> Word:
        """Return a word that a shell reads as `value`."""
        return cls(shlex.quote(value), value, gap)

    @classmethod
    def assignment(cls, name: str, value: str) -> Word:
        """Return a word that sets a variable: `NAME=value`."""
        return cls(f"{name}={shlex.quote(value)}", f"{name}={value}")

    @property
    def content(self) -> str:
        """Return the value, or the text where only the shell or Python knows the value."""
        return self.text if self.value is None else self.value

    @property
    def program(self) -> str:
        """Return the name of the program that the word is the path of: `/bin/bash` and `bash.exe` are bash."""
        return program_name(self.content)


class Option(NamedTuple):
    """A flag with its values or, without a flag, a positional argument.

    `glue` joins flag and value: a space, `=`, or nothing (`-O3`).
    """

    flag: Word | None
    values: tuple[Word, ...] = ()
    glue: str = " "

    @property
    def value(self) -> str | None:
        """Return the value as typed on a command line (several joined by spaces); None when it is unknown."""
        known = [word.value for word in self.values if word.value is not None]
        return " ".join(known) if len(known) == len(self.values) else None

    def words(self) -> tuple[Word, ...]:
        """Return the option as words of a command line."""
        if self.flag is None:
            return self.values
        if self.glue == " " or not self.values:
            return (self.flag, *self.values)
        first = self.values[0]
        value = None if first.value is None else f"{self.flag.value}{self.glue}{first.value}"
        joined = Word(self.flag.text + self.glue + first.text, value, self.flag.gap)
        return (joined, *self.values[1:])


class Outer(NamedTuple):
    """The words around a command that is itself one quoted word: `bash -c '…'`."""

    before: tuple[Word, ...]
    after: tuple[Word, ...]
    quote: str  # the quote character, or "" to quote as needed
    gap: str = " "

    def wrap(self, words: Iterable[Word], *, multiline: bool = False) -> Word:
        """Return the inner command as one word, in the quotes the user chose."""
        if self.quote != '"':
            return Word.quoted(join(words, multiline=multiline), self.gap)
        inner = (word._replace(text=_in_double_quotes(word)) for word in words)
        return Word(f'"{join(inner, multiline=multiline)}"', None, self.gap)


class Document(NamedTuple):
    """The parts of a config file, a Python call or a manifest that are not options.

    `key` is the key that holds the arguments (`command`, `args`), `style` the way they are written (`list`, `flow`,
    `block`, `string`); `program_key` and `program` are set when the program has a key of its own. For a Python call,
    `callee` is the called name, `lead` the text before it and `tail` the text after the last option. `variables` names
    the environment variables that a change has set.
    """

    key: str = "command"
    style: str = "list"
    program_key: str = ""
    program: tuple[str, ...] = ()
    environment_style: str = "list"
    callee: str = ""
    lead: str = ""
    tail: str = ""
    variables: tuple[str, ...] = ()


class Command(NamedTuple):
    """A command that starts vLLM.

    `before` holds the words up to vLLM's arguments, `after` the words behind them. `start`, `program` and `container`
    are indexes into `before`: of the simple command, of vLLM's program and of the container image (None without one).
    `environment` holds the variables the command sets.
    """

    form: Form
    entry: Entry
    options: tuple[Option, ...] = ()
    before: tuple[Word, ...] = ()
    after: tuple[Word, ...] = ()
    environment: tuple[tuple[str, str | None], ...] = ()
    start: int = 0
    program: int = 0
    container: int | None = None
    outer: Outer | None = None
    document: Document = Document()
    complete: bool = True
    lookup: Lookup = known_flag

    # Reading it

    @property
    def is_bare(self) -> bool:
        """Return whether the command is only flags, without the program they belong to."""
        return self.form == "shell" and not self.before and self.outer is None

    @property
    def model(self) -> str | None:
        """Return the model, positional or `--model`; None when it is missing or unknown."""
        return self.value(MODEL)

    @property
    def image(self) -> str | None:
        """Return the container image, if one is named."""
        if self.container is None or any(word.text == "exec" for word in self.before[: self.container]):
            return None
        return self.before[self.container].value

    @property
    def image_version(self) -> str | None:
        """Return the vLLM release of an image `vllm/vllm-openai:v0.8.5`; None for `latest` and other images."""
        match = re.search(r"vllm/vllm-openai(?:-[a-z]+)?:v?(\d+\.\d+[\w.]*)", self.image or "")
        return match.group(1) if match else None

    @property
    def typographic_flags(self) -> tuple[str, ...]:
        """Return the flags with a typographic dash, each with its values, which reach vLLM as positional arguments."""
        return tuple(" ".join(word.text for word in option.words()) for option in self.options
                     if option.flag is not None and is_typographic(option.flag.value or ""))

    def find(self, flag: str) -> tuple[tuple[int, Spelling], ...]:
        """Return the indexes in `options` at which a flag is given, in any spelling, each with its meaning."""
        wanted = parse_flag(flag, self.lookup)
        matches = []
        positional = wanted.name == MODEL and self.entry != "file"
        for index, option in enumerate(self.options):
            if option.flag is None:
                if positional and not option.values[0].text.startswith("*"):  # **kwargs of a Python call
                    matches.append((index, Spelling(MODEL)))
                    positional = False
                continue
            spelling = parse_flag(option.flag.value or option.flag.text, self.lookup)
            if is_same_flag(spelling, wanted):
                matches.append((index, spelling))
        return tuple(matches)

    def value(self, flag: str) -> str | None:
        """Return the value of a flag as typed; "" for a flag without one, "false" for `--no-flag`.

        The last occurrence counts. None means that the flag is missing or its value unknown. `--flag.key` asks for one
        key of a mapping.
        """
        wanted = parse_flag(flag, self.lookup)
        answer: str | None = None
        for index, spelling in self.find(flag):
            value = self.options[index].value
            if wanted.path:
                answer = _key_of(spelling, value, wanted.path, answer)
            elif wanted.negated:
                answer = "" if spelling.negated else None
            elif not spelling.path:
                answer = "false" if spelling.negated else value
        return answer

    def arguments(self) -> dict[str, object]:
        """Return all known arguments by Python keyword, parsed; the keys of a mapping are merged.

        Flags with typographic dashes are none.
        """
        result: dict[str, object] = {}
        for option in self.options:
            if option.flag is None or option.value is None or is_typographic(option.flag.value or ""):
                continue
            spelling = parse_flag(option.flag.value or option.flag.text, self.lookup)
            keyword = keyword_of(spelling.name, self.lookup)
            if spelling.path:
                current = result.get(keyword)
                result[keyword] = with_key(
                    current if isinstance(current, dict) else {}, spelling.path, read_typed(option.value)
                )
            else:
                result[keyword] = self._parsed(option, spelling)
        if self.model is not None:
            result["model"] = self.model
        return result

    def _parsed(self, option: Option, spelling: Spelling) -> object:
        if spelling.negated:
            return False
        if not option.values or (option.value == "" and self.form in {"python", "yaml"}):
            return True
        flag = self.lookup(spelling.name)
        kind = flag.kind if flag is not None else ""
        text = option.value or ""
        if takes_several_values(spelling.name, self.lookup) and not text.startswith(("[", "{")):
            return [read_typed(word.value or "") for word in option.values]
        return read_typed(text, kind)

    # Writing it

    def masked(self, mask: Callable[[str], str]) -> Command:
        """Return the command with its values masked; quotes are added afterwards, so they cannot hide a secret."""
        return self._replace(options=tuple(
            option._replace(values=tuple(_masked(word, mask, quotes=self.form != "yaml") for word in option.values))
            for option in self.options))

    def words(self) -> tuple[Word, ...]:
        """Return all words of the command line (of the inner one if the command is one quoted word)."""
        arguments = tuple(word for option in self.options for word in option.words())
        return (*self.before, *arguments, *self.after)

    def to_shell(self, *, multiline: bool = False) -> str:
        """Return the command as a shell line."""
        words = self.words()
        if self.outer is not None:
            words = (*self.outer.before, self.outer.wrap(words, multiline=multiline), *self.outer.after)
        return join(words, multiline=multiline)


def _masked(word: Word, mask: Callable[[str], str], *, quotes: bool) -> Word:
    if word.value is None:
        return word
    value = mask(word.value)
    if not quotes:  # YAML: the first word's text holds the whole list
        return word._replace(text=mask(word.text), value=value)
    return word if value == word.value else Word.quoted(value, word.gap)


def join(words: Iterable[Word], *, multiline: bool = False) -> str:
    """Join words to one line of shell, or with the user's own line breaks."""
    pieces: list[str] = []
    for word in words:
        gap = word.gap if multiline or not ("\n" in word.gap or "\r" in word.gap) else " "
        pieces.append((gap if pieces else "") + word.text)
    return "".join(pieces)


def _in_double_quotes(word: Word) -> str:
    """Escape a word's text for double quotes; a known value contains no `$` that a shell should expand."""
    marks = r'([\\"`])' if word.value is None else r'([\\"`$])'
    return re.sub(marks, r"\\\1", word.text)


def with_key(mapping: Mapping[str, object], path: str, value: object) -> dict[str, object]:
    """Return a copy of a mapping with the value at `a.b.c` set."""
    key, _, rest = path.partition(".")
    result = dict(mapping)
    if rest:
        inner = result.get(key)
        value = with_key(inner if isinstance(inner, dict) else {}, rest, value)
    result[key] = value
    return result


def compact_json(value: object) -> str:
    """Return compact JSON, as typed on a command line."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)


def _key_of(spelling: Spelling, value: str | None, path: str, answer: str | None) -> str | None:
    """Return the value of one key, from `--flag.key value` or from the JSON of `--flag '{…}'`."""
    if spelling.path:
        return value if spelling.path == path else answer
    matches: object = read_json(value or "", None)
    for key in path.split("."):
        matches = matches.get(key) if isinstance(matches, dict) else None
    if matches is None:
        return answer
    return matches if isinstance(matches, str) else compact_json(matches)
