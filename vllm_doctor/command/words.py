"""Split a text into words as a POSIX shell would.

Only splitting and unquoting happen here. Expansions (`$MODEL`, `$(…)`) are kept as typed; their value is unknown.
"""

from __future__ import annotations

from typing import NamedTuple

from vllm_doctor.command.model import Word
from vllm_doctor.text.patterns import lazy_pattern

_PARENTHESIS = lazy_pattern(r"[()]")
_GAP = lazy_pattern(r"(?:[ \t\r]|\\\r?\n)+")
_OPERATOR = lazy_pattern(r"\n|\d*>&\d*-?|\d*<&\d*-?|&>>?|\d*>>|\d*>\||\d*>|<<<|<<-?|\d*<|&&|\|\||\|&|;;|[;|&()]")
_PLAIN = lazy_pattern(r"[^ \t\r\n\"'\\$`;|&()<>]+")
_SINGLE = lazy_pattern(r"'([^']*)('?)")
_DOUBLE_PLAIN = lazy_pattern(r"[^\"\\$`]+")
_EXPANSION = lazy_pattern(r"\$(?:\w+|[@*#?$!-]|\{[^}\n]*\}?)")


class Token(NamedTuple):
    """A word, an operator (`|`, `>`, `;`, a line end) or a comment."""

    word: Word
    operator: str = ""  # empty for a word


def split(text: str) -> tuple[list[Token], bool]:
    """Return the words and operators of a shell text, and whether its quotes are closed."""
    tokens: list[Token] = []
    pos, gap = 0, ""
    complete = True
    while pos < len(text):
        if match := _GAP.match(text, pos):
            gap, pos = match.group(), match.end()
            continue
        if text[pos] == "#":
            end = text.find("\n", pos)
            end = len(text) if end < 0 else end
            tokens.append(Token(Word(text[pos:end], None, gap), "#"))
            pos = end
        elif match := _OPERATOR.match(text, pos):
            tokens.append(Token(Word(match.group(), None, gap), match.group()))
            pos = match.end()
        else:
            word, pos, closed = _word(text, pos, gap)
            complete = complete and closed
            tokens.append(Token(word))
        gap = ""
    return tokens, complete


def _word(text: str, pos: int, gap: str) -> tuple[Word, int, bool]:
    start = pos
    pieces: list[str] = []
    known = closed = True
    while pos < len(text):
        char = text[pos]
        if match := _PLAIN.match(text, pos):
            pieces.append(match.group())
            pos = match.end()
        elif char == "'" and (match := _SINGLE.match(text, pos)):
            pieces.append(match.group(1))
            closed = bool(match.group(2))
            pos = match.end()
        elif char == '"':
            piece, pos, closed, plain = _double(text, pos + 1)
            pieces.append(piece)
            known = known and plain
        elif char == "\\":
            pair = text[pos + 1 : pos + 2]
            pieces.append("" if pair == "\n" else pair or "\\")
            pos += 2
        elif char in "$`":
            pos, plain = _expansion(text, pos)
            known = known and plain
            if plain:
                pieces.append(char)
        else:
            break
    pos = min(pos, len(text))
    value = "".join(pieces)
    raw = text[start:pos]
    if not closed and known:
        raw = Word.quoted(value).text  # the text was cut inside a quote: close it, so that the command is valid
    return Word(raw, value if known else None, gap), pos, closed


def _double(text: str, pos: int) -> tuple[str, int, bool, bool]:
    """Parse double quotes: return text, position after them, whether they close and whether nothing expands."""
    pieces: list[str] = []
    known = True
    while pos < len(text):
        char = text[pos]
        if match := _DOUBLE_PLAIN.match(text, pos):
            pieces.append(match.group())
            pos = match.end()
        elif char == '"':
            return "".join(pieces), pos + 1, True, known
        elif char == "\\":
            pair = text[pos + 1 : pos + 2]
            pieces.append(pair if pair in '\\"$`' else "" if pair == "\n" else "\\" + pair)
            pos += 2
        else:
            pos, plain = _expansion(text, pos)
            known = known and plain
            if plain:
                pieces.append(char)
    return "".join(pieces), len(text), False, known


def _expansion(text: str, pos: int) -> tuple[int, bool]:
    """Step over `$NAME`, `${…}`, `$(…)` or backquotes; a lone `$` is itself."""
    if text[pos] == "`":
        end = text.find("`", pos + 1)
        return (len(text) if end < 0 else end + 1), False
    if text.startswith("$(", pos):
        depth = 0
        for mark in _PARENTHESIS.finditer(text, pos):
            depth += 1 if mark.group() == "(" else -1
            if depth == 0:
                return mark.end(), False
        return len(text), False
    match = _EXPANSION.match(text, pos)
    return (match.end(), False) if match else (pos + 1, True)
