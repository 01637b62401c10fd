"""The change of a command, one changed flag per line: what stays, what goes (-), what comes (+)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import NamedTuple

from vllm_doctor.text.patterns import lazy_pattern

# A word of a shell line: plain characters, quoted parts and escapes, as they are written.
_WORD = lazy_pattern(r"""(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+""", re.DOTALL)
_MOST = 16_384  # characters of a command that are compared


class Row(NamedTuple):
    """One line of a changed command; `mark` is a blank, `-` or `+`."""

    mark: str
    text: str


def rows(before: str | None, after: str, width: int) -> list[Row]:
    """Return the rows of a corrected command at a width, given the command as it was, if that is known.

    Unchanged words share rows; each changed flag has its own. A command of several lines (a file, a call) is compared
    line by line.
    """
    if before is None or len(before) + len(after) > _MOST:
        return [Row(" ", line) for line in after.split("\n")]
    if "\n" in after:
        return list(_compared(before.split("\n"), after.split("\n")))
    return list(_wrapped(_compared(_groups(before), _groups(after)), width))


def _groups(command: str) -> list[str]:
    """Return a command in parts: the program with its positional arguments, then each flag with its values."""
    groups: list[list[str]] = [[]]
    for match in _WORD.finditer(command):
        word = match[0]
        if word.startswith("-") and not word[1:2].isdigit():
            groups.append([])
        groups[-1].append(word)
    return [" ".join(group) for group in groups if group]


def _compared(before: list[str], after: list[str]) -> Iterator[Row]:
    matcher = difflib.SequenceMatcher(a=before, b=after, autojunk=False)
    for tag, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        if tag == "equal":
            yield from (Row(" ", text) for text in before[a_from:a_to])
            continue
        yield from (Row("-", text) for text in before[a_from:a_to])
        yield from (Row("+", text) for text in after[b_from:b_to])


def _wrapped(parts: Iterator[Row], width: int) -> Iterator[Row]:
    """Yield rows of at most `width` characters, with neighbouring unchanged parts joined."""
    row = ""
    for mark, text in parts:
        if mark == " " and (not row or len(row) + 1 + len(text) <= width):
            row = f"{row} {text}".strip()
            continue
        if row:
            yield Row(" ", row)
        row = text if mark == " " else ""
        if mark != " ":
            yield Row(mark, text)
    if row:
        yield Row(" ", row)
