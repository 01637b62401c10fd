"""The user's command as a value: what was typed, word by word, and what it says.

A `Command` keeps every word as the user typed it (quotes, order, redirections), so that it can be written
back with only what was asked for changed. Nothing here runs anything.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from vllm_doctor.command.flags import (
    MODEL,
    Canonical,
    Lookup,
    Spelling,
    canonical_by,
    keyword_of,
    known_flag,
    read_json,
    read_typed,
    same,
    several,
    spell,
)

Form = Literal["shell", "yaml", "python", "compose", "kubernetes"]
Entry = Literal["serve", "module", "image", "call", "file"]
"""What takes the arguments: `vllm serve`, `python -m`, an image's entrypoint, a Python call, a YAML file."""


class Word(NamedTuple):
    """One word: the text as typed, and the value vLLM gets.

    The value is None when only the shell or Python knows it (`$MODEL`, `args.model`).
    `gap` is the white space before it.
    """

    text: str
    value: str | None
    gap: str = " "

    @classmethod
    def quoted(cls, value: str, gap: str = " ") -> Word:
        """A word that a shell reads as `value`."""
        return cls(shlex.quote(value), value, gap)


class Option(NamedTuple):
    """A flag with its values, or (without a flag) a positional word.

    `glue` stands between flag and value: a space, `=`, or nothing (`-O3`).
    """

    flag: Word | None
    values: tuple[Word, ...] = ()
    glue: str = " "

    @property
    def value(self) -> str | None:
        """The value as typed on a command line (several joined by spaces); None when it cannot be known."""
        known = [word.value for word in self.values if word.value is not None]
        return " ".join(known) if len(known) == len(self.values) else None

    def words(self) -> tuple[Word, ...]:
        """The option as words of a command line."""
        if self.flag is None:
            return self.values
        if self.glue == " " or not self.values:
            return (self.flag, *self.values)
        first = self.values[0]
        value = None if first.value is None else f"{self.flag.value}{self.glue}{first.value}"
        joined = Word(self.flag.text + self.glue + first.text, value, self.flag.gap)
        return (joined, *self.values[1:])


class Outer(NamedTuple):
    """What stands around a command that is itself one quoted word: `bash -c '…'`."""

    before: tuple[Word, ...]
    after: tuple[Word, ...]
    quote: str  # the quote character, or "" for one that is quoted as needed
    gap: str = " "

    def wrap(self, words: Iterable[Word], *, multiline: bool = False) -> Word:
        """The inner command as one word, in the quotes the user chose."""
        if self.quote != '"':
            return Word.quoted(join(words, multiline=multiline), self.gap)
        inner = (word._replace(text=_in_double_quotes(word)) for word in words)
        return Word(f'"{join(inner, multiline=multiline)}"', None, self.gap)


class Document(NamedTuple):
    """What a form other than a shell's keeps beside the options.

    `key` is where the arguments stand (`command`, `args`), `style` how (`list`, `flow`, `block`, `string`);
    `program_key` and `program` are the program where that stands under a key of its own. `callee` is what a
    Python call calls, `lead` what stands before it, `tail` what stands behind the last option.
    `variables` are the names of those that a change set.
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

    `before` are the words up to vLLM's arguments, `after` those behind them. In `before`, `start` is where
    the simple command begins, `program` where vLLM's program stands and `container` where the image does (None
    without one). `environment` holds the variables it sets; `reconstructed` says that nobody typed it: it was
    put together from what vLLM prints.
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
    reconstructed: bool = False
    lookup: Lookup = known_flag

    # What it says

    @property
    def bare(self) -> bool:
        """Whether these are flags by themselves, without the program that took them."""
        return self.form == "shell" and not self.before and self.outer is None

    @property
    def model(self) -> str | None:
        """The model, positional or `--model`; None when it is not given or cannot be known."""
        return self.value(MODEL)

    @property
    def image(self) -> str | None:
        """The container image, if one is named."""
        if self.container is None or any(word.text == "exec" for word in self.before[: self.container]):
            return None
        return self.before[self.container].value

    @property
    def image_version(self) -> str | None:
        """The vLLM release of an image `vllm/vllm-openai:v0.8.5`; None for `latest` and images of others."""
        match = re.search(r"vllm/vllm-openai(?:-[a-z]+)?:v?(\d+\.\d+[\w.]*)", self.image or "")
        return match.group(1) if match else None

    @property
    def repeats_entrypoint(self) -> bool:
        """Whether the server's program stands again behind an image whose entrypoint it already is."""
        official = re.search(r"(?:^|/)vllm/vllm-openai(?:[:@-]|$)", self.image or "")
        overridden = any((word.value or "").startswith("--entrypoint") for word in self.before)
        repeated = self.entry in {"serve", "module"} and not self.document.program_key
        return bool(official) and repeated and not overridden

    def find(self, flag: str, canonical: Canonical | None = None) -> tuple[tuple[int, Spelling], ...]:
        """Where a flag stands, in any spelling: indexes into `options`, with what each spelling means."""
        known = canonical or canonical_by(self.lookup)
        wanted = spell(flag, known)
        found = []
        positional = wanted.name == MODEL and self.entry != "file"
        for index, option in enumerate(self.options):
            if option.flag is None:
                if positional and not option.values[0].text.startswith("*"):  # **kwargs of a Python call
                    found.append((index, Spelling(MODEL)))
                    positional = False
                continue
            spelling = spell(option.flag.value or option.flag.text, known)
            if same(spelling, wanted):
                found.append((index, spelling))
        return tuple(found)

    def value(self, flag: str) -> str | None:
        """The value of a flag as typed (the last one counts); "" for a bare flag, "false" for `--no-flag`.

        None when the flag is not there or its value cannot be known. A key of a mapping is `--flag.key`.
        """
        known = canonical_by(self.lookup)
        wanted = spell(flag, known)
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
        """All that can be known, by Python keyword, with parsed values; keys of mappings are put together."""
        known = canonical_by(self.lookup)
        made: dict[str, object] = {}
        for option in self.options:
            if option.flag is None or option.value is None:
                continue
            spelling = spell(option.flag.value or option.flag.text, known)
            keyword = keyword_of(spelling.name, self.lookup)
            if spelling.path:
                current = made.get(keyword)
                made[keyword] = with_key(
                    current if isinstance(current, dict) else {}, spelling.path, read_typed(option.value)
                )
            else:
                made[keyword] = self._parsed(option, spelling)
        if self.model is not None:
            made["model"] = self.model
        return made

    def _parsed(self, option: Option, spelling: Spelling) -> object:
        if spelling.negated:
            return False
        if not option.values or (option.value == "" and self.form in {"python", "yaml"}):
            return True
        flag = self.lookup(spelling.name)
        kind = flag.kind if flag is not None else ""
        text = option.value or ""
        if several(spelling.name, self.lookup) and not text.startswith(("[", "{")):
            return [read_typed(word.value or "") for word in option.values]
        return read_typed(text, kind)

    # Writing it

    def masked(self, mask: Callable[[str], str]) -> Command:
        """The same command with what `mask` hides in its values hidden, before any quoting stands in its way."""
        return self._replace(options=tuple(
            option._replace(values=tuple(_masked(word, mask) for word in option.values)) for option in self.options))

    def words(self) -> tuple[Word, ...]:
        """All words of the command line (of the inner one, where it is quoted as a whole)."""
        arguments = tuple(word for option in self.options for word in option.words())
        return (*self.before, *arguments, *self.after)

    def to_shell(self, *, multiline: bool = False) -> str:
        """The words joined as for a shell."""
        words = self.words()
        if self.outer is not None:
            words = (*self.outer.before, self.outer.wrap(words, multiline=multiline), *self.outer.after)
        return join(words, multiline=multiline)


def _masked(word: Word, mask: Callable[[str], str]) -> Word:
    if word.value is None:
        return word
    value = mask(word.value)
    return word if value == word.value else Word.quoted(value, word.gap)


def join(words: Iterable[Word], *, multiline: bool = False) -> str:
    """Words as one line of shell, or with the user's own line breaks."""
    pieces: list[str] = []
    for word in words:
        gap = word.gap if multiline or not ("\n" in word.gap or "\r" in word.gap) else " "
        pieces.append((gap if pieces else "") + word.text)
    return "".join(pieces)


def _in_double_quotes(word: Word) -> str:
    """A word's text as part of a double-quoted one; what is known holds no `$` that a shell should expand."""
    marks = r'([\\"`])' if word.value is None else r'([\\"`$])'
    return re.sub(marks, r"\\\1", word.text)


def with_key(mapping: Mapping[str, object], path: str, value: object) -> dict[str, object]:
    """A copy of a mapping with the value at `a.b.c` set."""
    key, _, rest = path.partition(".")
    made = dict(mapping)
    if rest:
        inner = made.get(key)
        value = with_key(inner if isinstance(inner, dict) else {}, rest, value)
    made[key] = value
    return made


def compact(value: object) -> str:
    """JSON as one types it on a command line."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)


def _key_of(spelling: Spelling, value: str | None, path: str, answer: str | None) -> str | None:
    """The value of one key, from `--flag.key value` or from the JSON of `--flag '{…}'`."""
    if spelling.path:
        return value if spelling.path == path else answer
    found: object = read_json(value or "", None)
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    if found is None:
        return answer
    return found if isinstance(found, str) else compact(found)
