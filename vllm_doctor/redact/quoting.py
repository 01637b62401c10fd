r"""One value as shells, JSON, YAML and Python write it: bare, quoted at any depth, or put together from several pieces.

`X`, `'X'`, `"X"`, `\"X\"` and `\\\"X\\\"` (a quote within quotes), `$'X'`, `b'X'`, `SecretStr('X')`, `"X"'Y'Z`, `X\ Y`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from vllm_doctor.redact.spans import compiled

_OPEN = r"""(?:[A-Za-z_.]{1,40}\(|\$(?=\\{0,15}["']))?[bBuUrRfF]{0,2}(\\{0,15})(["'`])"""
_REOPEN = r"""\$?(\\{0,15})(["'])(?![\s,;:)\]}>|&]|$)"""  # right behind a piece: one more piece
_QUOTED = {
    '"': r'[^"\\\n]*(?:\\.[^"\\\n]*)*',
    "'": r"[^'\\\n]*(?:\\.[^'\\\n]*)*",
    "`": r"[^`\\\n]*(?:\\.[^`\\\n]*)*",
}
# A bare value goes on over punctuation when a word character follows that does not begin the next name=value.
BARE = r"""(?x)
(?: [^\s,;&"'`<>|()\[\]{}\\]
  | [,;&] (?= [\w/+] ) (?! [\w.-]{1,64} \\*["']? [=:] )
  | \\{1,8} (?: [ ] (?= [^\s\\-] ) | [$&!#*~%^@?;|<>()={}\[\]] | (?= [\w/+=] ) )
  | [<>|()\[\]{}`] (?= [\w/+=] )
)+"""


class Value(NamedTuple):
    """A value: the secret part from `start` up to `end`, where the text goes on `after` it."""

    start: int
    end: int
    after: int
    is_quoted: bool


class ValueReader:
    """Reads values of one text, forward, in linear time."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line_end = -1
        self._unclosed: dict[str, int] = {}  # delimiter -> the end of a line in which none follows

    def read(self, at: int) -> Value | None:
        """Return the value that begins at `at`, None without one; an unclosed quote extends to the end of the line."""
        opened = compiled(_OPEN).match(self._text, at)
        if opened is None:
            end = self._pieces(at)
            return Value(at, end, end, is_quoted=False) if end > at else None
        start = opened.end()
        closed = self._close(opened[1], opened[2], start)
        if closed is None:
            end = self._line_end_from(start)
            return Value(start, start + len(self._text[start:end].rstrip()), end, is_quoted=True)
        after = closed + len(opened[1]) + 1
        more = self._pieces(after, behind_quote=True)
        if more == after:
            return Value(start, closed, after, is_quoted=True)
        return Value(start, more, more, is_quoted=True)

    def _pieces(self, at: int, *, behind_quote: bool = False) -> int:
        """Return the end of a value made of bare and quoted pieces that begins at `at`."""
        text = self._text
        while at < len(text):
            reopened = compiled(_REOPEN).match(text, at)
            if reopened is not None:
                closed = self._close(reopened[1], reopened[2], reopened.end())
                is_word = text[reopened.end()].isalnum()
                if closed is not None and (behind_quote or is_word):
                    at, behind_quote = closed + len(reopened[1]) + 1, True
                    continue
                if behind_quote or is_word:
                    at = reopened.end()
                    continue
            bare = compiled(BARE).match(text, at)
            if bare is None or (behind_quote and not (text[at].isalnum() or text[at] in "\\$_/+=-")):
                break
            if behind_quote and text[at] in "\\=-/+" and not compiled(r"\\{1,8}[ $\w]|[=/+-]\w").match(text, at):
                break
            at, behind_quote = bare.end(), False
        return at

    def _close(self, escapes: str, quote: str, start: int) -> int | None:
        """Return the position of a closing quote, its escapes included; None if this line has none."""
        text, delimiter = self._text, escapes + quote
        if start <= self._unclosed.get(delimiter, -1):
            return None
        limit = self._line_end_from(start)
        if not escapes:
            inner = compiled(_QUOTED[quote]).match(text, start, limit)
            end = inner.end() if inner else start
            if text[end : end + 1] == quote:
                return end
            self._unclosed[delimiter] = limit
            return None
        found = compiled(rf"(?<!\\){re.escape(delimiter)}").search(text, start, limit)
        if found is None:
            self._unclosed[delimiter] = limit
            return None
        return found.start()

    def _line_end_from(self, at: int) -> int:
        """Return the end of the line that contains `at`; cached, because values are read in order."""
        if at > self._line_end:
            newline = self._text.find("\n", at)
            self._line_end = newline if newline >= 0 else len(self._text)
        return self._line_end
