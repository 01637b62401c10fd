"""Where secrets stand in a text, and what is written in their place."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

MASK = "***"


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
