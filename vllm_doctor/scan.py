"""Which lines of a block of bytes are worth reading: those with one of many literals that are not known as healthy."""

from __future__ import annotations

import re
from collections.abc import Iterable

from vllm_doctor.patterns import lazy
from vllm_doctor.windows import Trie, windows

# Escapes may change what a JSON string or an HTML page shows of these.
_ESCAPED = lazy(r"[\"\\<>&\x00-\x1f\x7f-\U0010ffff]")
# What the reader of lines takes off or reads otherwise, so that a literal may stand behind it: terminal escapes, spaces
# that do not break, UTF-16; and a shell's line that goes on. As Latin-1.
_ODD = ("\x1b[", "\x1b(", "\x1b]", "\xc2\x9b", "\xc2\xa0", "\xef\xbb\xbf", "\\\n", "^\n", "`\n")
_UTF_16 = r"\x00[ -~]\x00"


class Scanner:
    """Finds the lines worth reading. `healthy` is an expression for whole lines that are never worth it."""

    def __init__(self, literals: Iterable[str], healthy: str = "") -> None:
        plain = {max(_ESCAPED.split(literal), key=len) for literal in literals} - {""}
        words = Trie((*_ODD, *windows(plain).values()))
        self._telling = re.compile(f"{words.any()}|{_UTF_16}".encode("latin-1"))
        self._unhealthy = re.compile(rf"\n(?!(?:{healthy})\n)([^\n]*)".encode("latin-1")) if healthy else None

    def unhealthy(self, block: bytes, start: int, end: int) -> int:
        """Where the first line not known as healthy begins at or behind `start`; `end` when there is none.

        A line end stands before `start` and before `end`.
        """
        if self._unhealthy is None:
            return start
        line = self._unhealthy.search(block, start - 1, end)
        return line.start(1) if line else end

    def telling(self, block: bytes, start: int, end: int) -> int:
        """Where the first line worth reading begins, in the same way."""
        search = self._telling.search
        if self._unhealthy is None:
            found = search(block, start, end)
            return block.rfind(b"\n", 0, found.start()) + 1 if found else end
        for line in self._unhealthy.finditer(block, start - 1, end):
            begin, stop = line.span(1)
            if begin < end and search(block, begin, stop + 1):
                return begin
        return end
