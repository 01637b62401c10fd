"""Text that a client of the server or the model chose: where it stands in a log's lines, and the lines without it.

Which records hold such text, and from where on, is data (`rules/foreign_text.yaml`). It is hidden before anything else
reads the lines. A quote that is open at the end of a line goes on in the next one, until a record begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from vllm_doctor.literal_search import any_of
from vllm_doctor.logs.lines import Line
from vllm_doctor.patterns import lazy

HIDDEN = "\u2026"
"""Stands where text was hidden: a character that no command, flag or pattern holds."""

_MAX_OPEN_LINES = 200
_MAX_MARKERS = 32
_NAME = lazy(r"[A-Za-z0-9_/~.][\w./:@+-]{0,199}", re.ASCII)
_PATH = lazy(r"/[a-z0-9_/.-]{0,120}", re.ASCII)
_FAULT = lazy(r"Error|Exception|Exit|Interrupt|Abort|Killed")
_QUOTE = lazy(r"(?<![\w)\]])([\"'])|`")
_TRACEBACK = "Traceback (most recent call last)"
_RECORD = lazy(
    r"(?:\(\w[^()]{0,80}\) {0,4}){0,3}"
    r"(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)(?: {1,8}(?:\d|\[)|: {1,6}\S)|Traceback \(most recent call last\))"
    r"|\[rank\d+\]:"
)
"""How a line begins that is no part of what a client wrote before it."""
_MESSAGE = lazy(
    r"(?:\(\w[^()]{0,80}\) {0,4}){0,3}(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) [^\]]{0,120}\] |"
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL): {1,6})?"
)


class Record(NamedTuple):
    """A line that holds foreign text behind `marker`."""

    id: str
    marker: str
    text: str = "rest"
    until: str = ""
    keep: str = ""
    at: str = ""
    numbers: tuple[str, ...] = ()
    open: str = ""
    ends: tuple[str, ...] = ()


class Template(NamedTuple):
    """A sentence around a name that a client sent."""

    before: str
    after: str
    keep: str


class Shown(NamedTuple):
    """A line without its foreign text; what may go on behind it: a quote, `lines`, or nothing.

    `refusal`: it is vLLM's refusal of a request.
    """

    text: str
    opened: str
    refusal: bool


class ForeignTable:
    """What stands in `rules/foreign_text.yaml`."""

    def __init__(self, entries: Mapping[str, Any]) -> None:
        self.records = tuple(_record(entry) for entry in entries["records"])
        self.templates = tuple(Template(**entry) for entry in entries["templates"])
        self._within = tuple(entries["requests"]["within"])
        self.rules = frozenset(entries["requests"]["rules"])
        self._outside = tuple(entries["requests"]["outside"])
        self.markers = (*(record.marker for record in self.records), *(entry.before for entry in self.templates))

    def is_request(self, frames: str) -> bool:
        """Whether the calls of a traceback handle a request and are not those of the engine or of a start."""
        return (any(part in frames for part in self._within)
                and not any(part in frames for part in self._outside))

    def hide(self, text: str) -> Shown:
        """A line without its foreign text."""
        records = [record for record in self.records if record.marker in text]
        done, opened, refusal = 0, "", False
        for _ in range(_MAX_MARKERS):
            found = [(at, record) for record in records if (at := _marked(text, record, done)) >= 0]
            if not found:
                break
            at, record = min(found)
            begin = at + len(record.marker)
            refusal = refusal or record.text == "request"
            shown, end, opened = self._hidden(text, begin, record)
            text, done = text[:begin] + shown + text[end:], begin + len(shown)
        else:
            text = text[:done] + HIDDEN
        return Shown(self._named(text) or text, opened, refusal)

    def _hidden(self, text: str, begin: int, record: Record) -> tuple[str, int, str]:
        """What is shown in place of the text from `begin` on, where that ends, and what it leaves open."""
        if record.text == "until":
            end = text.rfind(record.until, begin)
            end = len(text) if end < 0 else end
            return self._kept(text[begin:end], record.keep), end, ""
        if record.text == "request":
            rest = text[begin:]
            return "", begin, record.open
        if record.text == "quoted":
            shown, left = self._without_quoted(text[begin:])
            return shown, len(text), left if record.open else ""
        rest = text[begin:]
        ending = next((end for end in record.ends if rest.find(_first_words(end)) == len(rest) - len(end) >= 0), "")
        if ending:
            return self._kept(rest.removesuffix(ending), "name") + ending, len(text), ""
        left = "lines" if record.open == "lines" else _open_quote(rest) if record.open else ""
        numbers = "".join(f" {name}={value}" for name in record.numbers for value in _numbers(rest, name))
        shown = f"{HIDDEN}:{numbers}" if numbers else self._kept(rest, record.keep)
        return shown, len(text), left

    def _without_quoted(self, text: str) -> tuple[str, str]:
        """A text with what stands in quotes hidden, and the quote that is not closed."""
        pieces: list[str] = []
        pos = 0
        while match := _QUOTE.search(text, pos):
            quote = match.group()
            end = _closing(text, quote, match.end())
            pieces.append(text[pos:match.end()])
            inside = text[match.end():end]
            if inside:
                named = self._named(inside, whole=True)
                pieces.append(self._kept(inside, "name") if named is None else named)
            if end == len(text):
                return "".join(pieces), quote
            pieces.append(quote)
            pos = end + 1
        pieces.append(text[pos:])
        return "".join(pieces), ""

    def _named(self, text: str, *, whole: bool = False) -> str | None:
        """A text with the names in vLLM's own sentences hidden. `whole`: None for a text that is no such sentence."""
        found = False
        for template in self.templates:
            begin = text.find(template.before)
            if begin < 0 or (whole and begin > 0):
                continue
            begin += len(template.before)
            end = text.rfind(template.after, begin) if template.after else len(text)
            is_quoted = template.before.endswith(("`", "'"))
            if (end < 0 and not is_quoted) or (not is_quoted and text.startswith(("`", "'"), begin)):
                continue
            end = len(text) if end < 0 else end
            text, found = text[:begin] + self._kept(text[begin:end], template.keep) + text[end:], True
        return text if found or not whole else None

    def _kept(self, text: str, keep: str) -> str:
        """The text, where it is of the kind to be kept."""
        if keep == "name" and _NAME.fullmatch(text) and not _FAULT.search(text):
            return text
        if keep == "path":
            path, mark, _ = text.partition("?")
            if _PATH.fullmatch(path):
                return path + mark + HIDDEN if mark else path
        return HIDDEN


class ForeignText:
    """Hides foreign text in the lines of one log, in order. Keeps what the last line of each source left open."""

    def __init__(self, table: ForeignTable) -> None:
        self._table = table
        self._open: dict[str, _Open] = {}  # by source

    @property
    def is_idle(self) -> bool:
        """Whether no text goes on in the next line."""
        return not self._open

    def read(self, line: Line) -> Line:
        """A line without foreign text."""
        text = line.text
        opened = self._open.pop(line.source, None) if self._open else None
        marked = bool(any_of(self._table.markers).search(text))  # it may be
        if opened is not None:
            marked = marked and any(marker in text for marker in self._table.markers)
        if opened is not None and opened.goes_on(text, marked=marked):
            begin = len(opened.prefix)
            if text.startswith(_TRACEBACK, begin) or opened.quote == "request":  # the record's own, or what seems so
                self._open[line.source] = opened._replace(quote="request", left=opened.left - 1)
                return line._replace(text=self._table.hide(text).text if marked else text, refusal=True)
            end = len(text) if opened.quote == "lines" else _closing(text, opened.quote, begin)
            if end == len(text):
                self._open[line.source] = opened._replace(left=opened.left - 1)
            return line._replace(text=text[:begin] + HIDDEN + text[end:])
        if not marked:
            return line
        shown = self._table.hide(text)
        if shown.opened:
            self._open[line.source] = _Open(shown.opened, _prefix(text), _MAX_OPEN_LINES)
        return line._replace(text=shown.text, refusal=shown.refusal)

    def alone(self, line: Line) -> Line | None:
        """The same for a line by itself; None where the next lines may go on with it."""
        if not any_of(self._table.markers).search(line.text):
            return line
        shown = self._table.hide(line.text)
        return None if shown.opened else line._replace(text=shown.text, refusal=shown.refusal)


class _Open(NamedTuple):
    """What a line leaves open: a quote or `lines`, behind which prefix, for how many lines more."""

    quote: str
    prefix: str
    left: int

    def goes_on(self, text: str, *, marked: bool) -> bool:
        """Whether a line is more of the same message."""
        if not (self.left and text.startswith(self.prefix)):
            return False
        if "] " in self.prefix:  # of a record, which has its prefix on each of its lines
            return not marked or self.quote == "request"
        return not _RECORD.match(text)


@lru_cache(maxsize=1024)
def _number_of(name: str) -> re.Pattern[str]:
    return re.compile(rf"\b{re.escape(name)}=(\d{{1,9}})\b")


def _numbers(text: str, name: str) -> Iterator[str]:
    return (match[1] for match in _number_of(name).finditer(text)) if name in text else iter(())


def _record(entry: Mapping[str, Any]) -> Record:
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
    return Record(**fields)


def _first_words(ending: str) -> str:
    return ending.partition(" (")[0].rstrip(".")


def _prefix(text: str) -> str:
    """What stands before the message of a line."""
    found = _MESSAGE.match(text)
    return found.group() if found else ""


def _marked(text: str, record: Record, begin: int) -> int:
    """Where a record's marker stands in a line behind `begin`; -1 where it does not."""
    if record.at:
        first = len(_prefix(text))
        return first if first >= begin and text.startswith(record.marker, first) else -1
    return text.find(record.marker, begin)


@lru_cache(maxsize=4)
def _inside(quote: str) -> re.Pattern[str]:
    """The inside of a quoted text, up to its closing quote."""
    mark = re.escape(quote)
    return re.compile(rf"[^{mark}\\]*(?:\\.[^{mark}\\]*)*{mark}", re.DOTALL)


def _closing(text: str, quote: str, begin: int) -> int:
    """Where a quote is closed that was opened before `begin`; the end of the text where it is not."""
    match = _inside(quote).match(text, begin)
    return match.end() - 1 if match else len(text)


def _open_quote(text: str) -> str:
    """The quote of a text that is not closed; empty where all are."""
    pos = 0
    while match := _QUOTE.search(text, pos):
        end = _closing(text, match.group(), match.end())
        if end == len(text):
            return match.group()
        pos = end + 1
    return ""
