"""Which lines a pattern may match, told from their shape: most that hold a pattern's anchor lack its other words.

Of each word only a piece is looked for that stands in the bytes of a line however that is wrapped: without digits,
without what JSON or HTML may write otherwise, and without what may be a part of a long id.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from vllm_doctor.fastpath.line_scanner import forms
from vllm_doctor.literal_search import Finder
from vllm_doctor.matching.anchors import ID_EDGES
from vllm_doctor.patterns import lazy
from vllm_doctor.rulebase.model import Needles, Pattern

_BREAK = lazy(r"[^A-Za-z _.,:;()\[\]=*#%|!?@$^~{}-]+|[0-9a-f-]{16,}")
_LEAST = 3  # characters of a piece that is worth looking for


class Prospects:
    """What the lines may tell that hold one of the `others` or a pattern's anchor."""

    def __init__(self, patterns: Iterable[Pattern], others: Iterable[str]) -> None:
        self._given = patterns, others

    def may_tell(self, shape: bytes) -> bool:
        """Whether a line of a shape, which has zeros for digits and none for ids, may tell something."""
        text = shape.decode("latin-1")
        finder, waiting = self._prepared
        return any(piece in text and any(needles.tell(text) is not False for needles in waiting[piece])
                   for piece in finder.candidates(text))

    @cached_property
    def _prepared(self) -> tuple[Finder, dict[str, list[Needles]]]:
        """What finds the others and the pieces of anchors, and what else must stand in a line with each."""
        patterns, others = self._given
        waiting = {form: [Needles()] for form in forms(others)}
        for pattern in patterns:
            piece = _piece(pattern.anchor) or pattern.anchor[:_LEAST]
            waiting.setdefault(piece, []).append(pieces(pattern.needles))
        return Finder(waiting), waiting


def pieces(needles: Needles) -> Needles:
    """Pieces of the words that stand in all lines of a shape or in none; an empty one stands everywhere."""
    groups = [[_piece(word) for word in words] for words in needles.groups]
    return Needles(groups, [_piece(word) for word in needles.enough])


def _piece(word: str) -> str:
    """The longest piece of a word by which it can be told; empty where it cannot."""
    longest = max((ID_EDGES.sub("", part) for part in _BREAK.split(word)), key=len)
    return longest if len(longest) >= _LEAST else ""
