"""Secrets on lines below the one that announces them: columns of tables, `data` of a Kubernetes Secret.

A table is a line of cells of which one is a secret's name, and the lines below it with as many cells, whatever
separates them: `|`, tabs, commas, semicolons or at least two blanks. Lines are read one after the other, so that a
log of any length needs no memory.
"""

from __future__ import annotations

import base64
import binascii

from vllm_doctor.redact.named_values import HARMLESS, SHIPPED
from vllm_doctor.redact.secret_names import CUES, NAME, classify
from vllm_doctor.redact.spans import Span, compiled, looks_random

_SEPARATORS = (r"\|", r"\t", r",", r";", r"[ ]{2,40}")
_MOST_CELLS = 24
_LONGEST = 2000  # characters of a line
_MOST_ROWS = 200
_RULE = r"[-=+|:\s\u2500-\u257f]+"  # between head and rows
_HEADING = r"[^\W\d][\w .()/#-]{0,40}|#|"
_AHEAD = r"(?:.{0,200}(?:[:\]]|std(?:out|err)[ ][FP])[ ])?"  # of the first heading
_WORD = r"[A-Za-z_][\w.-]{0,40}"
_PREFIX = (r"(?:.{0,200}?(?:\[[\w./-]{1,80}\.\w{1,3}:\d{1,6}\]|[ ]std(?:out|err)[ ][FP])[ ]"  # of a log record
           rf"|{SHIPPED})?")
_IS_SECRET = r"""\bkind\\*["']?:[ \t]{0,8}\\*["']?Secret\b(?![.-])"""  # noqa: S105 - the kind of a document
_DATA = r"""(?:^|(?<=[ \t]))["']?(stringData|data)["']?:[ \t]{0,8}\{?[ \t\r]{0,8}$"""
_ENTRY = r"""([ \t]*)(?:["']?[\w./-]{1,100}["']?:[ \t]+)?["']?([^\s"'](?:[^"']*[^\s"',])?)"""
_OBJECT = r"""["'](?:stringData|data)\\{0,15}["']:[ \t]{0,8}\{([^{}]{1,8000})\}"""  # of JSON on one line
_MEMBER = r""":[ \t]{0,8}(\\{0,15}["'])([^"'\\]{1,4000})(\\{0,15}["'])"""


class Blocks:
    """Follows tables and Secrets from line to line."""

    def __init__(self) -> None:
        self._separator = ""  # of the table
        self._cells = 0
        self._columns: dict[int, bool] = {}  # with secrets: whether their name leaves no doubt
        self._rows = 0
        self._indent = -1  # of `data:`, -1 outside
        self._is_secret = False

    def line(self, line: str) -> list[tuple[int, int]]:
        """Return where the secrets in the next line are."""
        if len(line) > _LONGEST:
            self._separator, self._indent = "", -1
            return []
        return [*self._entry(line), *self._row(line)]

    def _entry(self, line: str) -> list[tuple[int, int]]:
        if line.startswith("---") or "apiVersion:" in line:
            self._is_secret = False
        if "kind" in line and compiled(_IS_SECRET).search(line):
            self._is_secret = True
        if "ata" in line and (data := compiled(_DATA).search(line)):
            self._indent = _indent(line, data.start())
            self._is_secret = self._is_secret or data[1] == "stringData"
            return []
        if self._indent < 0:
            return []
        begin = len(line) - len(without_prefix(line))
        entry = compiled(_ENTRY).match(line, begin)
        if entry is None or len(entry[1]) <= self._indent:
            self._indent = -1
            return []
        value = entry[2]
        if value in {"|", ">", "|-", ">-", "{", "}"} or (not self._is_secret and not _is_encoded(value)):
            return []
        return [entry.span(2)]

    def _row(self, line: str) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        if self._separator:
            cells = _cells(line, self._separator)
            self._rows += 1
            if len(cells) == self._cells and self._rows <= _MOST_ROWS:
                for column, is_sure in self._columns.items():
                    start, end = cells[column]
                    value = line[start:end]
                    if (is_sure or looks_random(value)) and not _is_no_value(value):
                        found.append((start, end))
                return found
            if compiled(_RULE).fullmatch(without_prefix(line)):
                return found
            self._separator = ""
        lower = line.lower()
        if any(cue in lower for cue in CUES) and compiled(NAME).search(lower):
            self._head(line)
        return found

    def _head(self, line: str) -> None:
        for separator in _SEPARATORS:
            cells = _cells(line, separator)
            if not 2 <= len(cells) <= _MOST_CELLS:
                continue
            names = [line[start:end].rpartition("] ")[2].strip("\"'*` ") for start, end in cells]
            is_list = separator in {",", ";"}  # a sentence has commas, too
            if not all(compiled(_WORD if is_list else _HEADING).fullmatch(name) for name in names[1:]):
                continue
            if is_list and not compiled(rf"{_AHEAD}{_WORD}").fullmatch(names[0]):
                continue
            columns = {}
            for column, name in enumerate(names):
                if compiled(rf"(?:[\w-]{{1,30}}[ _-])?(?:{NAME})").fullmatch(name[-60:].lower()):
                    what = classify(name.replace(" ", "_"))
                    if what is not None:
                        columns[column] = what.is_sure
            if columns:
                self._separator, self._cells, self._columns, self._rows = separator, len(cells), columns, 0
                return


def without_prefix(line: str) -> str:
    """Return a line without the prefix of a log record."""
    return line[len(compiled(_PREFIX).match(line)[0]) :]  # type: ignore[index]


def block_spans(text: str) -> list[Span]:
    """Return the secrets in the tables and Kubernetes Secrets of `text`."""
    found = object_spans(text)
    if "\n" not in text:
        return found
    blocks, at = Blocks(), 0
    if compiled(_IS_SECRET).search(text) is not None and "---" not in text:
        blocks._is_secret = True  # noqa: SLF001 - `kind` may stand below `data`
    for line in text.split("\n"):
        found += [Span(at + start, at + end, "password", repeats=True) for start, end in blocks.line(line)]
        at += len(line) + 1
    return found


def object_spans(text: str) -> list[Span]:
    """Return the values of a Secret that is written as JSON on one line."""
    if "Secret" not in text or compiled(_IS_SECRET).search(text) is None:
        return []
    return [Span(data.start(1) + member.start(2), data.start(1) + member.end(2), "password", repeats=True)
            for data in compiled(_OBJECT).finditer(text) for member in compiled(_MEMBER).finditer(data[1])]


def _cells(line: str, separator: str) -> list[tuple[int, int]]:
    """Return where the cells of a line are, without the blanks around them."""
    spans, at = [], 0
    line = line.rstrip()
    begin = len(line) - len(line.lstrip()) if separator.startswith("[ ]") else 0
    at = begin
    for match in compiled(separator).finditer(line, begin):
        spans.append((at, match.start()))
        at = match.end()
    spans.append((at, len(line)))
    return [(end - len(line[start:end].lstrip()), start + len(line[start:end].rstrip())) if line[start:end].strip()
            else (start, start) for start, end in spans]


def _indent(line: str, at: int) -> int:
    """Return the blanks between the prefix of a log record and `at`."""
    begin = len(line) - len(without_prefix(line))
    return at - begin if not line[begin:at].strip() else 0


def _is_no_value(value: str) -> bool:
    return (len(value) < 3 or " " in value or value.isdigit()
            or value.lower() in {"yes", "no", "set", "n/a", "unset"}
            or compiled(_RULE).fullmatch(value) is not None or compiled(HARMLESS).fullmatch(value[:120]) is not None)


def _is_encoded(value: str) -> bool:
    """Return whether it is base64 of a text, as all values of a Secret."""
    is_base64 = compiled("[A-Za-z0-9+/]+={0,2}").fullmatch(value)
    if len(value) < 12 or len(value) % 4 or is_base64 is None or not looks_random(value):
        return False
    try:
        return base64.b64decode(value).decode().isprintable()
    except (binascii.Error, UnicodeDecodeError):
        return False
