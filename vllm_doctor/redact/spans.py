"""Where secrets stand in a text, and what is written in their place."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from typing import NamedTuple

MASK = "***"
_SHORTEST = 8  # characters of what shows whether it is random
_LONG = 32  # that many of a random text may well spell a word


class Span(NamedTuple):
    """A secret in a text: from `start` up to `end`."""

    start: int
    end: int
    kind: str  # "" for what is masked in doubt and proves no secret
    repeats: bool = False  # whether the value is worth to be looked for elsewhere


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern; it is compiled on first use, because most texts need few patterns."""
    return re.compile(pattern)


def looks_random(value: str) -> bool:
    """Return whether a text looks like a generated value, not a word, a path or a number."""
    letters = re.search("[A-Za-z]", value) is not None
    digits = re.search("[0-9]", value) is not None
    mixed = value.lower() != value != value.upper()
    return letters and digits and (len(value) >= 16 or (len(value) >= 8 and mixed))


def looks_generated(value: str) -> bool:
    """Return whether letters and digits follow each other as in a random text, not as in names, symbols or numbers."""
    changes = sum(_kind(a) != _kind(b) for a, b in pairwise(value))
    has_word = len(value) < _LONG and re.search("[a-z]{5}", value) is not None
    return len(value) >= _SHORTEST and value.isalnum() and 2 * changes >= len(value) - 1 and not has_word


def _kind(letter: str) -> int:
    return 0 if letter.isdigit() else 1 if letter.islower() else 2


def masked(text: str, spans: list[Span], mask: str = MASK) -> str:
    """Replace each span in `text` with `mask`; spans may overlap; no newline is removed."""
    out: list[str] = []
    copied = start = end = 0
    for span in sorted(spans):
        if span.start >= end:
            out += [text[copied:start], _hidden(text[start:end], mask)]
            copied, start = end, span.start
        end = max(end, span.end)
    return "".join([*out, text[copied:start], _hidden(text[start:end], mask), text[end:]])


def _hidden(secret: str, mask: str) -> str:
    return "\n".join(mask if line.strip() else line for line in secret.split("\n"))
