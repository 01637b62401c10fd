"""The text of a page: HTML and JSON documents become lines, wrongly decoded UTF-8 is repaired.

Nothing in a page is executed, fetched or followed: tags are dropped, scripts with their content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any, NamedTuple

from vllm_doctor.text.patterns import lazy_pattern

_MOST = 1 << 19  # characters of a page's text; entities and JSON escapes only shrink
_DEPTH = 40
_LONG = 40  # characters; a shorter string of a JSON document is no text of the page
_TAGS = lazy_pattern(
    r"(?i)<(?:!doctype html|html|body|p|pre|code|div|span|h[1-6]|li|table|br|blockquote|article)\b[^<>]{0,400}>")
_CLOSED = lazy_pattern(r"(?i)</(?:p|pre|code|div|span|h[1-6]|li|table|td|article)>")
_FEW_TAGS = 3
_BLOCKS = frozenset((
    "p", "div", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "table", "tr", "pre", "blockquote", "section",
    "article", "header", "footer", "hr", "dl", "dt", "dd", "figure", "main", "nav", "aside", "form", "details",
    "summary"))
_HIDDEN = frozenset(("script", "style", "template", "noscript", "svg", "head", "nav"))
_RUN = lazy_pattern(r"[^\x00-\x7f]+(?: [^\x00-\x7f]+){0,8}")


class TextLine(NamedTuple):
    """A line of a page's text: its number in the input and whether the page marks it as code."""

    number: int
    text: str
    is_code: bool = False
    block: int = 0  # the number of the code block it is in


def lines_of(text: str) -> tuple[list[TextLine], bool]:
    """Return the lines of a page, and whether they were taken out of HTML or JSON."""
    text = text[:_MOST].replace("\r\n", "\n")
    found = _strings_of_json(text)
    if found is not None:
        lines = [line for string in found for line in _lines_of_text(string)]
        return [line._replace(number=number) for number, line in enumerate(lines, 1)], True
    if _is_html(text):
        return _numbered(_lines_of_html(text)), True
    return [TextLine(number, line) for number, line in enumerate(_split(text), 1)], False


def repaired(lines: Sequence[TextLine]) -> list[TextLine]:
    """Return the lines with UTF-8 that was decoded as another encoding decoded again."""
    return [line._replace(text=repair(line.text)) for line in lines]


def repair(text: str) -> str:
    """Return a text without mojibake as far as its bytes are still known."""
    if text.isascii():
        return text
    from ftfy import fix_encoding  # noqa: PLC0415 - a quarter of all imports' time, and few logs need it
    from ftfy.badness import is_bad  # noqa: PLC0415

    if not is_bad(text):
        return text
    fixed = fix_encoding(text)
    if is_bad(fixed):  # some of its bytes were lost: what is whole between spaces and ASCII is repaired
        fixed = _RUN.sub(lambda match: fix_encoding(match[0]), text)
    return fixed


def _split(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def _lines_of_text(text: str) -> list[TextLine]:
    if _is_html(text):
        return _lines_of_html(text)
    return [TextLine(0, line) for line in _split(text)]


def _is_html(text: str) -> bool:
    head = text[:2048].lstrip().lower()
    if head.startswith(("<!doctype html", "<html")):
        return True
    found = _TAGS.findall(text)
    return head.startswith("<") and len(found) >= _FEW_TAGS and _CLOSED.search(text) is not None


def _strings_of_json(text: str) -> list[str] | None:
    """Return the long texts of a JSON document (an API's answer, an exported chat), in order; None for other text."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    strings = list(_walk(document, 0))
    texts = [string for string in strings if string.count("\n") > 1 or _TAGS.search(string)]
    if not any(len(string) >= _LONG for string in texts):
        return None
    return [string for string in strings if len(string) >= _LONG or "\n" in string]


def _walk(value: Any, depth: int) -> Iterator[str]:
    if depth > _DEPTH:
        return
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _walk(item, depth + 1)
    elif isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        ends = [item.endswith("\n") for item in value]
        yield from ["".join(value)] if all(ends[:-1]) and len(value) > 1 else value  # a notebook's cell
    elif isinstance(value, list):
        for item in value:
            yield from _walk(item, depth + 1)


def _numbered(lines: list[TextLine]) -> list[TextLine]:
    """Return lines with the numbers of the source, or counted if several come from one line of it."""
    rising = all(later.number > earlier.number for earlier, later in pairwise(lines))
    return lines if rising else [line._replace(number=number) for number, line in enumerate(lines, 1)]


def _lines_of_html(text: str) -> list[TextLine]:
    reader = _HtmlText()
    reader.feed(text)
    reader.close()
    return reader.finish()


def _indented(data: str) -> str:
    """Return text on one line; its indentation stays where it is part of the text, not of the page's source."""
    text = data.lstrip()
    indent = data[:len(data) - len(text)]
    return ("" if "\n" in indent else indent.replace("\xa0", " ")) + text.replace("\n", " ")


class _HtmlText(HTMLParser):
    """The visible text of an HTML document, line by line."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[TextLine] = []
        self._text: list[str] = []
        self._hidden = 0
        self._code = 0
        self._blocks = 0
        self._line = 1

    def finish(self) -> list[TextLine]:
        """Return the lines, runs of empty ones as one."""
        self._end_line()
        lines: list[TextLine] = []
        for line in self.lines:
            if line.text.strip() or (lines and lines[-1].text.strip()) or line.is_code:
                lines.append(line)
        return lines

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a line at a block, code at `pre`."""
        del attrs
        if tag in _HIDDEN:
            self._hidden += 1
        elif tag == "body":
            self._hidden = 0  # `</head>` may be left out
        if tag == "pre":
            self._end_line()
            self._code += 1
            self._blocks += 1
        elif tag == "br" or (tag in _BLOCKS and not self._code) or (self._code and tag in {"li", "tr", "div", "p"}):
            self._end_line(always=tag == "br")
        elif tag in {"td", "th"}:
            self._text.append("\t" if self._text else "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Read `<br />` and empty elements."""
        if tag in {"br", "hr"}:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        """End a line at the end of a block."""
        if tag in _HIDDEN:
            self._hidden = max(0, self._hidden - 1)
        if tag == "pre":
            self._end_line()
            self._code = max(0, self._code - 1)
            self._add_empty()
        elif tag in _BLOCKS:
            self._end_line()
            if not self._code:
                self._add_empty()

    def handle_data(self, data: str) -> None:
        """Read text; only `pre` keeps its line ends."""
        if self._hidden:
            return
        if not self._text:
            self._line = self.getpos()[0]
        if not self._code:
            self._text.append(re.sub(r"\s+", " ", data) if any(self._text) else _indented(data))
            return
        first, *rest = data.split("\n")
        self._text.append(first)
        for offset, part in enumerate(rest, 1):
            self._end_line(always=True)
            self._line = self.getpos()[0] + offset
            self._text.append(part)

    def _end_line(self, *, always: bool = False) -> None:
        text = "".join(self._text).rstrip()
        self._text = []
        if text.strip() or (always and self._code):
            self.lines.append(TextLine(self._line, text, self._code > 0,
                                       self._blocks if self._code else 0))

    def _add_empty(self) -> None:
        if self.lines and self.lines[-1].text:
            self.lines.append(TextLine(self.getpos()[0], ""))
