"""Text that a client of the server or the model chose: where a log's lines contain it, and the lines without it.

Which records contain such text, and from which marker on, is data (`rules/untrusted_text.yaml`). It is hidden before
anything else reads the lines. A quote that is open at the end of a line continues in the next one, until a record
begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from vllm_doctor.logs.lines import Line
from vllm_doctor.text.literal_search import any_of
from vllm_doctor.text.patterns import lazy_pattern
from vllm_doctor.text.traceback_head import TRACEBACK

HIDDEN = "\u2026"
"""The character that replaces hidden text; no command, flag or pattern contains it."""

_MAX_OPEN_LINES = 200
_MAX_MARKERS = 32
_MAX_SOURCES = 256
_ACCESS = lazy_pattern(
    r'(?:\([^()\n]{1,80}\) )?INFO: {1,8}(?P<address>[^\n]*?):\d{1,5} - "(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS) ',
    cues=(' - "',))
_ADDRESS = lazy_pattern(r"[\w.:%\[\]-]{1,80}")
_NAME = lazy_pattern(r"[\[{\"']{0,3}[A-Za-z0-9_/~.][\w./:@+-]{0,199}[\]}\"']{0,3}", re.ASCII)
"""A name, also with the brackets and quotes of a list that was taken for a name."""
_PATH = lazy_pattern(r"/[a-z0-9_/.-]{0,120}", re.ASCII)
_FOLDERS = lazy_pattern(r"(?:/[a-z0-9_.-]{1,20}){1,4}/", re.ASCII)
_FAULT = lazy_pattern(r"Error|Exception|Exit|Interrupt|Abort|Killed")
_QUOTE = lazy_pattern(r"(?<![\w)\]])([\"'])|`")
_RECORD = lazy_pattern(
    r"(?:\(\w[^()]{0,80}\) {0,4}){0,3}"
    r"(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)(?: {1,8}(?:\d|\[)|: {1,6}\S)|Traceback \(most recent call last\))"
    r"|\[rank\d+\]:|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S{0,12} .{0,80}?\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b"
)
"""The beginning of a line that does not continue a client's text."""
_MESSAGE = lazy_pattern(
    r"(?:\(\w[^()]{0,80}\) {0,4}){0,3}(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) [^\]]{0,120}\] |"
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL): {1,6})?"
)


class Record(NamedTuple):
    """A line that contains untrusted text after `marker`."""

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


class VisibleLine(NamedTuple):
    """A line without its untrusted text, and what may continue after it: a quote, `lines`, or nothing.

    `refusal` marks vLLM's refusal of a request. `is_marked` says that the line has a record with untrusted text.
    """

    text: str
    opened: str
    refusal: bool
    is_marked: bool


class SingleLine(NamedTuple):
    """A line without its untrusted text, read on its own, and what it leaves open: `lines`, `request` or nothing.

    `hides` says that some of it is hidden.
    """

    line: Line
    opened: str = ""
    hides: bool = False


class UntrustedTable:
    """The contents of `rules/untrusted_text.yaml`."""

    def __init__(self, entries: Mapping[str, Any]) -> None:
        self.records = tuple(_record(entry) for entry in entries["records"])
        self.templates = tuple(Template(**entry) for entry in entries["templates"])
        self._within = tuple(entries["requests"]["within"])
        self.rules = frozenset(entries["requests"]["rules"])
        serving = entries["serving"]
        self.fault_facts = frozenset(serving["facts"])
        self._information = frozenset((rule, name) for rule, names in serving["information"].items() for name in names)
        self._system_line = lazy_pattern("|".join(f"(?:{form})" for form in serving["lines"]))
        self._modules = tuple(f"{module}:" for module in entries["requests"]["modules"])
        self._outside = tuple(entries["requests"]["outside"])
        self.record_markers = tuple(record.marker for record in self.records)
        self.markers = (*self.record_markers, *(entry.before for entry in self.templates))
        self.words = (*self.markers, *self._modules)

    def is_request(self, frames: str) -> bool:
        """Return whether the calls of a traceback handle a request and belong neither to the engine nor to a start."""
        return (any(part in frames for part in self._within)
                and not any(part in frames for part in self._outside))

    def is_information(self, rule: str, pattern: str) -> bool:
        """Return whether a pattern reads a fault from a message that vLLM prints as information."""
        return (rule, pattern) in self._information

    def is_of_system(self, text: str) -> bool:
        """Return whether a line without a level reads like one of the server, its libraries or the machine."""
        return self._system_line.match(text) is not None

    def is_of_handler(self, text: str) -> bool:
        """Return whether a line is a record of a module that handles requests."""
        if not any(module in text for module in self._modules):
            return False
        prefix = _prefix(text)
        return any(module in prefix for module in self._modules)

    def hide(self, text: str) -> VisibleLine:
        """Return a line without its untrusted text."""
        text = _without_forwarded_address(text)
        records = [record for record in self.records if record.marker in text]
        done, opened, refusal = 0, "", False
        for _ in range(_MAX_MARKERS):
            found = [(at, record) for record in records if (at := _marked(text, record, done)) >= 0]
            if not found:
                break
            at, record = min(found, key=lambda item: (item[0], -len(item[1].marker)))
            begin = at + len(record.marker)
            refusal = refusal or record.text == "request"
            shown, end, opened = self._hidden(text, begin, record)
            text, done = text[:begin] + shown + text[end:], begin + len(shown)
        else:
            text = text[:done] + HIDDEN
        return VisibleLine(self._hide_names(text) or text, opened, refusal, done > 0)

    def _hidden(self, text: str, begin: int, record: Record) -> tuple[str, int, str]:
        """Return the replacement of the text from `begin` on, its end, and what it leaves open."""
        if record.text == "until":
            end = text.rfind(record.until, begin)
            end = len(text) if end < 0 else end
            return self._keep_or_hide(text[begin:end], record.keep), end, ""
        if record.text == "request":
            return "", begin, record.open
        if record.text == "quoted":
            shown, left = self._without_quoted(text[begin:])
            return shown, len(text), left if record.open else ""
        rest = text[begin:]
        ending = next((end for end in record.ends if rest.find(_first_words(end)) == len(rest) - len(end) >= 0), "")
        if ending:
            return self._keep_or_hide(rest.removesuffix(ending), "name") + ending, len(text), ""
        left = "lines" if record.open == "lines" else _open_quote(rest) if record.open else ""
        numbers = "".join(f" {name}={value}" for name in record.numbers for value in _numbers(rest, name))
        shown = f"{HIDDEN}:{numbers}" if numbers else self._keep_or_hide(rest, record.keep)
        return shown, len(text), left

    def _without_quoted(self, text: str) -> tuple[str, str]:
        """Return a text with its quotations hidden, and the quote that is left open."""
        pieces: list[str] = []
        pos = 0
        while match := _QUOTE.search(text, pos):
            quote = match.group()
            end = _closing(text, quote, match.end())
            pieces.append(text[pos:match.end()])
            inside = text[match.end():end]
            if inside:
                named = self._hide_names(inside, whole=True)
                pieces.append(self._keep_or_hide(inside, "name") if named is None else named)
            if end == len(text):
                return "".join(pieces), quote
            pieces.append(quote)
            pos = end + 1
        pieces.append(text[pos:])
        return "".join(pieces), ""

    def _hide_names(self, text: str, *, whole: bool = False) -> str | None:
        """Hide the names in vLLM's own sentences; with `whole`, return None unless the text is such a sentence."""
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
            text, found = text[:begin] + self._keep_or_hide(text[begin:end], template.keep) + text[end:], True
        return text if found or not whole else None

    def _keep_or_hide(self, text: str, keep: str) -> str:
        """Return the text if it is of the kind to be kept, else HIDDEN."""
        if keep == "name" and _NAME.fullmatch(text) and not _FAULT.search(text):
            return text
        if keep == "path":
            path, mark, _ = text.partition("?")
            if _PATH.fullmatch(path):
                return path + mark + HIDDEN if mark else path
            folders = _FOLDERS.match(text)
            return folders[0] + HIDDEN if folders else HIDDEN
        return HIDDEN


def _without_forwarded_address(text: str) -> str:
    """Return an access line of uvicorn without an address that is none: behind a proxy it is what a header says."""
    access = _ACCESS.match(text)
    if access is None or _ADDRESS.fullmatch(access["address"]):
        return text
    return text[:access.start("address")] + HIDDEN + text[access.end("address"):]


class UntrustedText:
    """The removal of untrusted text from the lines of one log; remembers what each source left open."""

    def __init__(self, table: UntrustedTable) -> None:
        self._table = table
        self._open: dict[str, _OpenText] = {}  # by source
        self._records: dict[str, _OpenText] = {}  # by source: what the last record leaves open

    @property
    def is_idle(self) -> bool:
        """Return whether no untrusted text may continue in the next line."""
        return not self._open

    def quotes(self, text: str) -> bool:
        """Return whether a line has the marker of a record that contains untrusted text."""
        return (any_of(self._table.record_markers).search(text)
                and any(_marked(text, record, 0) >= 0 for record in self._table.records))

    def read(self, line: Line) -> Line:
        """Return a line without untrusted text."""
        text = line.text
        opened = self._records.pop(line.source, None) if self._records else None
        opened = (self._open.pop(line.source, None) if self._open else None) or opened
        marked = bool(any_of(self._table.words).search(text))  # it may be a continuation
        if marked and self._table.is_of_handler(text):
            line = line._replace(handler=True)
        if opened is not None:
            marked = marked and any(marker in text for marker in self._table.markers)
        if opened is not None and opened.continues(text, marked=marked):
            begin = min(len(opened.prefix), len(text)) if text.startswith(opened.prefix.rstrip()) else 0
            if text.startswith(TRACEBACK, begin) or opened.quote == "request":  # possibly the record's own
                self._open[line.source] = opened._replace(quote="request", left=opened.left - 1)
                return line._replace(text=self._table.hide(text).text if marked else text, refusal=True)
            end = len(text) if opened.quote == "lines" else _closing(text, opened.quote, begin)
            if end == len(text):
                self._open[line.source] = opened._replace(left=opened.left - 1)
            return line._replace(text=text[:begin] + HIDDEN + text[end:]) if text[begin:end].strip() else line
        if not marked:
            return line
        shown = self._table.hide(text)
        if shown.opened:
            self._open[line.source] = _OpenText(shown.opened, _prefix(text), _MAX_OPEN_LINES)
        else:
            self._follow(line, shown)
        return line._replace(text=shown.text, refusal=shown.refusal)

    def _follow(self, line: Line, shown: VisibleLine) -> None:
        """Note that the further lines of a record, which have its prefix too, belong to its untrusted text.

        A line of a traceback's source code begins none.
        """
        prefix = _prefix(line.text)
        if shown.is_marked and "] " in prefix and not line.text.startswith((" ", "\t"), len(prefix)):
            if len(self._records) >= _MAX_SOURCES:
                self._records.clear()
            self._records[line.source] = _OpenText("request" if shown.refusal else "lines", prefix, _MAX_OPEN_LINES)

    def may_continue(self, text: str, source: str) -> bool:
        """Return whether lines may continue an open text; if not, the open text of their source ends.

        A record's text goes on only behind the prefix of that record.
        """
        if any(opened.is_quote or opened.prefix.rstrip() in text for opened in self._open.values()):
            return True
        self._open.pop(source, None)
        return False

    def hide_in_single_line(self, line: Line) -> SingleLine | None:
        """Return a single line without untrusted text; None if a text without the line's prefix may continue it."""
        if not any_of(self._table.words).search(line.text):
            return SingleLine(line)
        shown = self._table.hide(line.text)
        opened = _OpenText(shown.opened, _prefix(line.text), _MAX_OPEN_LINES)
        if shown.opened and (opened.is_quote or "] " not in opened.prefix):
            return None
        if not shown.opened:
            self._follow(line, shown)
        visible = line._replace(text=shown.text, refusal=shown.refusal, handler=self._table.is_of_handler(line.text))
        return SingleLine(visible, shown.opened, shown.text != line.text)

    def hide_in_message(self, text: str) -> str:
        """Return the message of a single line without untrusted text."""
        return self._table.hide(text).text

    def open(self, source: str, prefix: str, what: str) -> None:
        """Note what a record that was read as a single line leaves open in the lines with its prefix."""
        self._open[source] = _OpenText(what, prefix, _MAX_OPEN_LINES)


class _OpenText(NamedTuple):
    """What a line leaves open: a quote or `lines`.

    It also has the prefix of the record, and the number of lines in which the text may still continue.
    """

    quote: str
    prefix: str
    left: int

    @property
    def is_quote(self) -> bool:
        """Return whether a quotation is open; else the further lines of a record."""
        return self.quote in {"'", '"', "`"}

    def continues(self, text: str, *, marked: bool) -> bool:
        """Return whether a line belongs to the same message."""
        repeats = text.startswith(self.prefix) or text == self.prefix.rstrip()  # of a blank line
        if not self.left or not (self.is_quote or repeats):
            return False
        if "] " in self.prefix and repeats:  # a record repeats its prefix on each of its lines
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
    """Return the text before the message of a line."""
    found = _MESSAGE.match(text)
    return found.group() if found else ""


def _marked(text: str, record: Record, begin: int) -> int:
    """Return the position of a record's marker in a line after `begin`; -1 without one."""
    if record.at:
        first = len(_prefix(text))
        return first if first >= begin and text.startswith(record.marker, first) else -1
    return text.find(record.marker, begin)


@lru_cache(maxsize=4)
def _quoted_text_pattern(quote: str) -> re.Pattern[str]:
    """Compile the expression for the inside of a quoted text, up to its closing quote."""
    mark = re.escape(quote)
    return re.compile(rf"[^{mark}\\]*(?:\\.[^{mark}\\]*)*{mark}", re.DOTALL)


def _closing(text: str, quote: str, begin: int) -> int:
    """Return where a quote opened before `begin` closes; the end of the text if it does not."""
    match = _quoted_text_pattern(quote).match(text, begin)
    return match.end() - 1 if match else len(text)


def _open_quote(text: str) -> str:
    """Return the quote that a text leaves open; empty if it closes all."""
    pos = 0
    while match := _QUOTE.search(text, pos):
        end = _closing(text, match.group(), match.end())
        if end == len(text):
            return match.group()
        pos = end + 1
    return ""
