"""A text as a reader sees it: without escapes and invisible characters, with plain colons, quotes and blanks.

Secrets are looked for in it, so that nothing can be hidden by how it is written; what is found is masked in the
text itself.
"""

from __future__ import annotations

from bisect import bisect_right

from vllm_doctor.redact.spans import Span, compiled

# Escape sequences of a terminal, as bytes and as logs spell them; characters that take no room, also spelled.
_UNSEEN = r"""(?x)
  (?: \x1b | \\{1,8} (?: x1b | 033 | e | u001b ) | \^\[(?=\[) | <U\+001B> )
    (?: \[ [0-9;:?<=>]{0,40} [ -/]{0,4} [@-~] | \] [^\x07\x1b\n]{0,400} (?: \x07 | \x1b\\ ) )
| \x9b [0-9;:?]{0,40} [@-~]
| [\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e]
| [\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e01ef]
| <U\+ [0-9A-F]{4,6} >
| \\{1,8} (?: u (?: 200[b-fB-F] | 202[a-eA-E] | 2060 | feff | FEFF | 00ad | 00AD ) | xad )
| & (?: \#8203 | \#x200[bB] | ZeroWidthSpace | shy ) ;
"""
# Characters that mark-up and JSON spell: one each.
_SPELLED = {
    "&quot;": '"', "&#34;": '"', "&#x22;": '"', "u0022": '"',
    "&apos;": "'", "&#39;": "'", "&#x27;": "'", "u0027": "'",
    "&amp;": "&", "&#38;": "&", "u0026": "&",
    "&lt;": "<", "u003c": "<", "&gt;": ">", "u003e": ">",
    "&#61;": "=", "u003d": "=", "&#58;": ":", "u003a": ":", "&#32;": " ", "&nbsp;": " ",
    "*": "*", "_": "_",  # behind a backslash, as Markdown writes them
}  # fmt: skip
_SPELLING = r"(?i: & (?: quot | apos | amp | lt | gt | nbsp | \#x?[0-9a-f]{2} ) ; | \\{1,8} u00[23][0-9a-f] | \\[*_] )"
_MARKS = ("\x1b", "\x9b", "<U+", "&", "\\", "^[")
_LIKE = {
    **dict.fromkeys("\u2502\u2503\u2551\u2506\u250a", "|"),  # borders of tables
    "\0": " ",  # between the words of /proc/PID/cmdline and environ
    **dict.fromkeys("\ufe55\ufe13\u2236\ua789\u02d0", ":"),
    **dict.fromkeys("\ufe66\u207c\u208c\u2e40", "="),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033", '"'),
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
    **dict.fromkeys("\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a", " "),
    **dict.fromkeys("\u202f\u205f\u3000", " "),
    **{chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},  # full-width forms
}
_LIKE_TABLE = str.maketrans(_LIKE)


class PlainText:
    """The plain form of a text, and where each of its characters stands in the text itself."""

    def __init__(self, original: str) -> None:
        self.text = original
        self._at: list[int] = []  # where pieces begin in the plain text,
        self._from: list[int] = []  # and in the original
        self._width: list[int] = []  # characters of the original for the piece's first
        is_plain = original.isascii() and original.replace("\n", "").isprintable()
        if not is_plain or any(mark in original for mark in _MARKS):
            self._read(original)

    def _read(self, original: str) -> None:
        pieces: list[str] = []
        length = copied = 0
        for match in compiled(f"{_UNSEEN} | {_SPELLING}").finditer(original):
            char = _SPELLED.get(match[0].lower().lstrip("\\"), "")
            if not char and match[0].startswith(("&", "\\")) and not compiled(_UNSEEN).match(match[0]):
                continue
            if match.start() > copied:
                self._piece(length, copied)
                pieces.append(original[copied : match.start()])
                length += match.start() - copied
            if char:
                self._piece(length, match.start(), match.end() - match.start())
                pieces.append(char)
                length += 1
            copied = match.end()
        self._piece(length, copied)
        self.text = "".join([*pieces, original[copied:]])
        if not original.isascii() or "\0" in original:
            self.text = self.text.translate(_LIKE_TABLE)

    def _piece(self, at: int, original: int, width: int = 1) -> None:
        self._at.append(at)
        self._from.append(original)
        self._width.append(width)

    def original(self, span: Span) -> Span:
        """Return the span in the original text."""
        if not self._at:
            return span
        return span._replace(start=self._place(span.start)[0], end=self._place(span.end - 1)[1])

    def _place(self, at: int) -> tuple[int, int]:
        piece = bisect_right(self._at, at) - 1
        first = self._from[piece]
        if at == self._at[piece]:
            return first, first + self._width[piece]
        return first + at - self._at[piece], first + at - self._at[piece] + 1
