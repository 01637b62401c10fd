"""A second reading of pasted text: undo what a terminal, a web page, a chat or a scanner did to a log.

Each row keeps the number of its first line in the input. A log that can be read directly is not changed.
"""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from vllm_doctor.logs.line_prefix import LOG_HEAD
from vllm_doctor.text.patterns import lazy_pattern

LONGEST = 1 << 18
"""Maximal bytes of an input that is read a second time; people paste less."""
_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\u00ad"))
_STRAIGHT = str.maketrans({
    "\u201c": '"', "\u201d": '"', "\u201e": '"', "\u00ab": '"', "\u00bb": '"', "\u2018": "'", "\u2019": "'",
    "\u201a": "'", "\u2032": "'", "\u00b4": "'", "\u3000": " ", "\u00a0": " ", "\u3002": ".", "\u3001": ",",
    "\u2026": "...", "\u2212": "-", "\u2010": "-", "\u2011": "-", "\u2013": "-", "\u2014": "--",
})  # fmt: skip
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_TAG = lazy_pattern(r"</?(?:span|br|div|p|pre|code|b|i|em|strong|font|td|tr|li)\b[^<>]{0,200}>")
_QUOTE = lazy_pattern(r"(?:>|&gt;) ?")
_NUMBER = lazy_pattern(r"\s*(?:L|line )?(?P<number>\d{1,6})(?:[:|.)\]]\s?|\t|\s{1,4})")
_TRAILING_TIME = lazy_pattern(
    r"\s{1,8}[\[(]?(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\d{1,2}:\d\d:\d\d(?:[.,]\d{1,6})?(?: ?[AP]M)?"
    r"|[A-Z][a-z]{2} \d{1,2},? (?:\d{4},? )?\d\d:\d\d(?::\d\d)?(?: ?[AP]M)?)"
    r"[\])]?\s*$")
# A complete call of a traceback, which the next row does not continue.
_FRAME = lazy_pattern(r"\s{0,40}File \"[^\"]{1,400}\", line \d{1,7}, in [^\s]{1,200}\s{0,4}")
_MOST = 0.8  # share of the non-empty rows from which a mark is an artefact and no part of the log
_HALF = 0.5  # share of the non-empty rows that are numbered where a log is, and not a list within it
_NARROWEST, _WIDEST = 40, 220
_NEW_ROW = lazy_pattern(
    r"\s*(?:File \"|Traceback \(|\(\w+[^)]{0,40} pid=\d+\)|(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b|\[rank\d|\$ |>>> "
    r"|(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt): |\d{4}-\d\d-\d\d[ T]\d\d:|During handling|The above exc"
    r"|usage: |vllm serve |python3? )")
_GLUED = lazy_pattern(
    r" (?=(?:\([^()]{1,60} pid=\d+[^()]{0,40}\) )?"
    r"(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./]{1,80}:\d+\] )")
"""Before a record on a row that already has text, where a page replaced the ends of lines with spaces."""
_WORD = lazy_pattern(r"[A-Za-z0-9_]{4,}")
# Characters that a scanner takes for each other; the first of a class stands for all of them.
_CLASSES = ("lI1i|", "oO0cea", "S5s", "B8", "un", "gq9", "tf", "vy", "hb6", "zZ2")
_SHAPE = str.maketrans({character: same[0] for same in _CLASSES for character in same})
_DIGITS = str.maketrans("lIOoSBZ", "1100582")
_MISREAD_NUMBER = lazy_pattern(r"(?=\w*\d\w*\d)[\dlIOoSBZ]{3,}")
_SHAPED = "\0\0"  # before the shape of a known word, as a key that no word or form has
_SHORT_WORD = lazy_pattern(r"[A-Za-z0-9_]{2,}")
_SHORTEST = 3  # characters of a word that is corrected only by its shape
_LONGEST_WORD = 80  # characters; a word has as many forms, and a log can hold one of any length


class Row(NamedTuple):
    """A line of the original log: the number of its first line in the input, and how many lines it takes there."""

    number: int
    text: str
    lines: int = 1


def restored(data: bytes) -> list[Row]:
    """Return the rows of a pasted text with normalised characters, without copy artefacts, broken lines joined."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    rows = [_plain(line) for line in text.split("\n")]
    if rows and not rows[-1]:
        rows.pop()
    for peel in (_without_quotes, _without_numbers, _without_times, _without_indent):
        rows = peel(rows)
    return _apart(_joined(rows))


def rejoined(rows: Sequence[Row]) -> list[Row]:
    """Return rows with lines joined that were broken at one width; they keep the numbers of their first lines."""
    joined = _joined([row.text for row in rows])
    return [Row(rows[row.number - 1].number, row.text, row.lines) for row in joined]


def _apart(rows: Iterable[Row]) -> list[Row]:
    """Return rows with one record each, if several stand on one; they keep its number."""
    result: list[Row] = []
    for row in rows:
        parts = _GLUED.split(row.text)
        result += [Row(row.number, part) for part in parts] if len(parts) > 2 else [row]
    return result


def is_altered(data: bytes) -> bool:
    """Return whether a text is mostly different from what programs print: its punctuation, or numbers of its lines."""
    text = data.decode("utf-8", "replace")
    pairs = (("\uff1a", ":"), ("\uff08", "("), ("\u2019", "'"))
    if any(text.count(odd) > 2 * text.count(plain) for odd, plain in pairs):
        return True
    rows = text.splitlines()
    return _without_numbers(rows) is not rows


def _plain(line: str) -> str:
    """Normalise the characters of one line."""
    if "&" in line or "<" in line:
        line = html.unescape(_TAG.sub("", line))
    return line.translate(_INVISIBLE).translate(_FULL_WIDTH).translate(_STRAIGHT).replace("\t", "    ").rstrip()


def _mostly(found: Sequence[bool], rows: Sequence[str], share: float = _MOST) -> bool:
    filled = sum(bool(row.strip()) for row in rows)
    return filled > 0 and sum(found) >= share * filled


def _without_quotes(rows: list[str]) -> list[str]:
    while _mostly([_QUOTE.match(row) is not None for row in rows], rows):
        rows = [_QUOTE.sub("", row, count=1) if _QUOTE.match(row) else row for row in rows]
    return rows


def _without_numbers(rows: list[str]) -> list[str]:
    """Drop line numbers, which rise by one; text around the numbered rows has none."""
    matches = [_NUMBER.match(row) for row in rows]
    numbered = [(at, int(match["number"])) for at, match in enumerate(matches) if match]
    rising = [at for one, other in pairwise(numbered) if other[1] == one[1] + 1 for at in (one[0], other[0])]
    if not rising or len(rising) < 2 * _MOST * (len(numbered) - 1):
        return rows
    first, behind = rising[0], rising[-1] + 1
    block, found = rows[first:behind], matches[first:behind]
    is_numbered = [match is not None for match in found]
    if not _mostly(is_numbered, block) or not _mostly(is_numbered, rows, _HALF):
        return rows
    bare = [row[match.end():] if match else row for row, match in zip(block, found, strict=True)]
    return rows[:first] + _without_indent(bare) + rows[behind:]


def _without_times(rows: list[str]) -> list[str]:
    """Drop the times that a log viewer shows after each line."""
    if not _mostly([_TRAILING_TIME.search(row) is not None for row in rows], rows):
        return rows
    return [_TRAILING_TIME.sub("", row) for row in rows]


def _without_indent(rows: list[str]) -> list[str]:
    depth = min((len(row) - len(row.lstrip()) for row in rows if row.strip()), default=0)
    return [row[depth:] for row in rows]


def _joined(rows: list[str]) -> list[Row]:
    """Join the rows of lines that were broken at one width."""
    width = _width(rows)
    is_hard = width > 0 and _is_hard(rows, width)
    result: list[Row] = []
    last = ""  # the previous row, as in the input
    for number, row in enumerate(rows, 1):
        if result and width and row.strip() and _is_rest(last, row, width, is_hard=is_hard):
            before = result[-1]
            glue = "" if is_hard and len(last) >= width else " "
            text = before.text + glue + (row if is_hard else row.lstrip())
            result[-1] = Row(before.number, text, number - before.number + 1)
        else:
            result.append(Row(number, row))
        last = row
    return result


def _width(rows: Sequence[str]) -> int:
    """Return the width at which lines were broken; 0 without evidence of one."""
    longest = max((len(row) for row in rows), default=0)
    if not _NARROWEST <= longest <= _WIDEST:
        return 0
    return longest if len(rows) > 1 else 0


def _is_hard(rows: Sequence[str], width: int) -> bool:
    """Return whether lines were broken inside words at exactly that width."""
    near = [row for row in rows if len(row) > width - 12]
    return sum(len(row) >= width - 1 for row in near) > len(near) * 0.7 and len(near) > 1


def _is_rest(last: str, row: str, width: int, *, is_hard: bool) -> bool:
    """Return whether a row continues the previous one."""
    if not last.strip() or _NEW_ROW.match(row) or LOG_HEAD.match(row) or _FRAME.fullmatch(last):
        return False
    if is_hard:
        return len(last) >= width - 1
    first = row.split(maxsplit=1)[0]
    return len(last) + 1 + len(first) > width and len(last) > width * 0.5


def corrected(rows: Iterable[Row], words: Mapping[str, str]) -> list[Row]:
    """Return the rows with words corrected that differ from a known word in one character, or only in lookalikes.

    `words` maps the forms of known words with one open character (`open_forms`) to the words.
    """
    def right(match: re.Match[str]) -> str:
        word = match[0]
        if word in words or len(word) > _LONGEST_WORD or word.isdigit():
            return word
        if _MISREAD_NUMBER.fullmatch(word):
            return word.translate(_DIGITS)
        found = {words[form] for form in open_forms(word) if words.get(form)} if len(word) > _SHORTEST else set()
        return found.pop() if len(found) == 1 else words.get(_SHAPED + word.translate(_SHAPE)) or word

    return [Row(row.number, _SHORT_WORD.sub(right, row.text), row.lines) for row in rows]


def lookalikes(before: Iterable[Row], after: Iterable[Row]) -> int:
    """Return in how many words a character was replaced by one that a scanner takes it for."""
    count = 0
    for one, other in zip(before, after, strict=True):
        if one.text != other.text:
            pairs = zip(_WORD.findall(one.text), _WORD.findall(other.text), strict=True)
            count += sum(word != right and word.translate(_SHAPE) == right.translate(_SHAPE) for word, right in pairs)
    return count


def open_forms(word: str) -> list[str]:
    """Return the forms of a word with one open character each."""
    return [f"{word[:at]}\0{word[at + 1:]}" for at in range(len(word))]


def known_words(texts: Iterable[str]) -> dict[str, str]:
    """Return the words of some texts, by themselves and by their forms with one open character.

    A form that several words share leads to none of them.
    """
    known: dict[str, str] = {}
    shapes: defaultdict[str, list[str]] = defaultdict(list)
    texts = tuple(texts)
    for word in {word for text in texts for word in _SHORT_WORD.findall(text) if not word.isdigit()}:
        shapes[word.translate(_SHAPE)].append(word)
        known[word] = word
    for shape, words in shapes.items():
        plain = [word for word in words if word.isalpha() and word.islower()] or words  # prose before names
        known[_SHAPED + shape] = plain[0] if len(plain) == 1 else ""
    for word in {word for text in texts for word in _WORD.findall(text) if not word.isdigit()}:
        known[word] = word
        if len(word) > _LONGEST_WORD:
            continue
        for form in open_forms(word):
            known[form] = "" if form in known else word
    return known
