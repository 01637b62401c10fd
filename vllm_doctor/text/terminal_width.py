"""Text in the columns of a terminal, where a Chinese character takes two: length, padding, cutting and wrapping.

Lines may break at blanks and beside wide characters, but never before closing punctuation or after opening. Words of
Latin letters, and so flags, stay whole unless they are longer than a line.
"""

from __future__ import annotations

from collections.abc import Iterator

from vllm_doctor.text.patterns import lazy_pattern

_WIDE = ("\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7a3"
         "\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6")
_CLOSING = "，。、：；？！）」』】》〉”’…％%),.:;?!\\]"
_OPENING = "（「『【《〈“‘(\\["
_HAS_WIDE = lazy_pattern(f"[{_WIDE}]")
# A piece that is never broken: a wide character or a run of others, with the punctuation that belongs to it.
_PIECE = lazy_pattern(f"[{_OPENING}]{{0,8}}(?:[{_WIDE}]|[^\\s{_WIDE}]+)[{_CLOSING}]{{0,8}}|\\s+|\\S")


def _has_wide(text: str) -> bool:
    """Return whether a text has wide characters.

    Compiling their set takes milliseconds, so texts without a character beyond the signs of a report are told first.
    """
    return (not text.isascii() and any("\u1100" <= character <= "\u115f" or character >= "\u2e80" for character in text)
            and _HAS_WIDE.search(text) is not None)


def columns(text: str) -> int:
    """Return how many columns a text takes."""
    if not _has_wide(text):
        return len(text)
    from wcwidth import wcwidth  # noqa: PLC0415 - English does without

    return sum(max(wcwidth(character), 0) for character in text)


def ljust(text: str, width: int) -> str:
    """Return the text filled up to a width."""
    return text + " " * (width - columns(text))


def rjust(text: str, width: int) -> str:
    """Return the text at the right of a width."""
    return " " * (width - columns(text)) + text


def cut(text: str, width: int) -> str:
    """Return the text, with an ellipsis in place of what exceeds a width."""
    if columns(text) <= width:
        return text
    return _head(text, width - 1) + "…"


def _head(text: str, width: int) -> str:
    taken = 0
    for place, character in enumerate(text):
        taken += columns(character)
        if taken > width:
            return text[:place]
    return text


def wrap(text: str, width: int, first: str = "", subsequent: str | None = None, *,
         break_long_words: bool = True) -> list[str]:
    """Return the lines of a text behind the indent of the first line and that of all others (default: the same)."""
    if not _has_wide(text):
        import textwrap  # noqa: PLC0415 - for English

        return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=first if subsequent is None
                             else subsequent, break_long_words=break_long_words, break_on_hyphens=False)
    indent = first if subsequent is None else subsequent
    lines, line, taken = [], first, columns(first)
    is_empty, blank = True, ""
    for found in _pieces(text):
        piece = found
        if piece.isspace():
            blank = " " * len(piece)
            continue
        size = columns(piece)
        if not is_empty and taken + len(blank) + size > width:
            lines.append(line)
            line, taken, is_empty, blank = indent, columns(indent), True, ""
        if is_empty:
            blank = ""
        while break_long_words and taken + len(blank) + columns(piece) > width:
            head = _head(piece, width - taken - len(blank)) or piece[:1]
            lines.append(line + blank + head)
            piece, line, taken, blank = piece[len(head):], indent, columns(indent), ""
        line += blank + piece
        taken += len(blank) + columns(piece)
        is_empty, blank = False, ""
    return [*lines, line] if not is_empty else lines


def _pieces(text: str) -> Iterator[str]:
    """Yield the unbreakable pieces of a text, and the blanks between them."""
    return (match[0] for match in _PIECE.finditer(text))
