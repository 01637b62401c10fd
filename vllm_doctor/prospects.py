"""Which lines a pattern may match, told from their shape: most that hold a pattern's anchor lack its other words.

Of each word only a piece is looked for that stands in the bytes of a line however that is wrapped: without digits,
without what JSON or HTML may write otherwise, and without what may be a part of a long id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from vllm_doctor.patterns import lazy
from vllm_doctor.rules import Pattern
from vllm_doctor.scan import forms
from vllm_doctor.typed import NamedTuple
from vllm_doctor.windows import Trie, windows

_BREAK = lazy(r"[^A-Za-z _.,:;()\[\]=*#%|!?@$^~{}-]+|[0-9a-f-]{16,}")
_ID_EDGES = lazy(r"^[0-9a-f-]+(?!\w)|(?<!\w)[0-9a-f-]+$")  # of a piece
_LEAST = 3  # characters of a piece that is worth looking for


class _Needs(NamedTuple):
    """A pattern may match where one of the pieces `enough` stands, or one of each group."""

    enough: Sequence[bytes]
    groups: Sequence[Sequence[bytes]]

    def met(self, shape: bytes) -> bool:
        for piece in self.enough:
            if piece in shape:
                return True
        for pieces in self.groups:
            for piece in pieces:
                if piece in shape:
                    break
            else:
                return False
        return True


_NOTHING_MORE = _Needs((), ())


class Prospects:
    """What the lines may tell that hold one of the `others` or a pattern's anchor."""

    def __init__(self, patterns: Iterable[Pattern], others: Iterable[str]) -> None:
        self._given = patterns, others
        self._by_window: dict[bytes, dict[bytes, list[_Needs]]] = {}  # who waits for each piece with that window

    def may_tell(self, shape: bytes) -> bool:
        """Whether a line of a shape, which has zeros for digits and none for ids, may tell something."""
        for found in self._scan.finditer(shape):
            for piece, all_needs in self._by_window[found[0] + found[found.lastindex or 0]].items():
                if piece in shape and any(needs.met(shape) for needs in all_needs):
                    return True
        return False

    @cached_property
    def _scan(self) -> re.Pattern[bytes]:
        patterns, others = self._given
        waiting = {form: [_NOTHING_MORE] for form in forms(others)}
        for pattern in patterns:
            piece = _piece(pattern.anchor) or pattern.anchor[:_LEAST]
            waiting.setdefault(piece, []).append(_needs(pattern))
        chosen = windows(waiting)
        trie = Trie(chosen.values())
        self._by_window = {word.encode("latin-1"): {} for word in trie.words}
        for piece, needs in waiting.items():
            window = chosen[piece].encode("latin-1")
            starts = (window[:size] for size in range(1, len(window) + 1))
            those = self._by_window[next(start for start in starts if start in self._by_window)]
            those[piece.encode("latin-1")] = needs
        return re.compile(trie.every().encode("latin-1"))


def _needs(pattern: Pattern) -> _Needs:
    """What must stand in a line besides the anchor for a pattern to match; an empty piece stands everywhere."""
    enough = [_piece(word).encode() for word in pattern.needles.enough]
    groups = [[_piece(word).encode() for word in words] for words in pattern.needles.groups]
    return _Needs(enough, [group for group in groups if b"" not in group])


def _piece(word: str) -> str:
    """The longest piece of a word by which it can be told; empty where it cannot."""
    longest = max((_ID_EDGES.sub("", part) for part in _BREAK.split(word)), key=len)
    return longest if len(longest) >= _LEAST else ""
