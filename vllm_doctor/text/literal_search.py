"""A fast search for any of many literals.

Python's `re` is fast at characters that cannot begin a match and slow at those that can. So instead of each literal, a
short piece of it is searched that begins with a character rare in server logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

_MIN_PIECE = 4  # characters of a piece, if the literal has as many
_MAX_PIECE = 24  # longer pieces are not rarer
PATIENCE = 1500
"""Number of texts that are searched word by word before an expression is compiled, which costs as much."""
# The characters of a serving log, the most frequent first; characters missing here are rare.
_COMMON = " 0123456789:-.,et\nosraniplcd/TOhmgu_v[]IFNqPAf()Sk=xwCEbLM\"'yRUzGVjDWKBHX"
_BASE_COST = 1500  # of each additional first character, however rare
_COST = {character: (len(_COMMON) - rank) ** 2 for rank, character in enumerate(_COMMON)}


def rare_pieces(literals: Iterable[str]) -> dict[str, str]:
    """Return a piece of each literal, chosen so that all pieces begin with few and rare characters."""
    options = {literal: set(literal[:max(len(literal) - _MIN_PIECE, 0) + 1]) for literal in literals}
    waiting: dict[str, list[str]] = {}  # the literals by the first characters that their pieces can have
    for literal, starts in options.items():
        for character in starts:
            waiting.setdefault(character, []).append(literal)
    counts = {character: len(literals_with_it) for character, literals_with_it in waiting.items()}
    first: set[str] = set()
    covered: set[str] = set()
    while len(covered) < len(options):
        best = max(counts, key=lambda char: (counts[char] / (_BASE_COST + _COST.get(char, 0)), char))
        first.add(best)
        for literal in waiting[best]:
            if literal not in covered:
                covered.add(literal)
                for character in options[literal]:
                    counts[character] -= 1
    chosen = {}
    for literal, starts in options.items():
        at = literal.index(min(starts & first, key=lambda character: (_COST.get(character, 0), character)))
        chosen[literal] = literal[at:at + _MAX_PIECE]
    return chosen


class LiteralFinder:
    """Search for many literals in one pass."""

    def __init__(self, literals: Iterable[str]) -> None:
        chosen = rare_pieces(literals)
        trie = Trie(chosen.values())
        self._by_word: dict[str, list[str]] = {word: [] for word in trie.words}
        for literal, piece in chosen.items():
            starts = (piece[:size] for size in range(1, len(piece) + 1))
            self._by_word[next(start for start in starts if start in self._by_word)].append(literal)
        self._scan = re.compile(trie.overlapping_pattern())

    def candidates(self, text: str) -> Iterator[str]:
        """Yield the literals whose piece occurs in the text, for each occurrence."""
        for found in self._scan.finditer(text):
            yield from self._by_word[found[0] + found[found.lastindex or 0]]


class _Words:
    """Test of texts for any of several words: first word by word, after PATIENCE texts by an expression."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self._words = words
        self._patience = PATIENCE
        self._expression: re.Pattern[str] | None = None

    def search(self, text: str) -> bool:
        """Return whether the text contains one of the words."""
        if self._expression is not None:
            if self._expression.search(text) is None:
                return False
        else:
            self._patience -= 1
            if not self._patience:
                self._expression = re.compile(Trie(rare_pieces(self._words).values()).pattern())
        for word in self._words:  # noqa: SIM110 - a generator would take longer than the search
            if word in text:
                return True
        return False


@lru_cache(maxsize=16)
def any_of(words: tuple[str, ...]) -> _Words:
    """Return what finds texts that hold one of the words."""
    return _Words(words)


def without_extensions(words: Iterable[str]) -> list[str]:
    """Return the words without those that start with another of the words, which matches wherever they do."""
    kept: list[str] = []
    for word in sorted(words):
        if not kept or not word.startswith(kept[-1]):
            kept.append(word)
    return kept


class Trie:
    """A prefix tree of words, written as one expression. Words that start with another of the words are left out."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = without_extensions(words)
        self._root: dict[str, Any] = {}
        for word in self.words:
            node = self._root
            for character in word:
                node = node.setdefault(character, {})
            node[""] = {}

    def pattern(self) -> str:
        """Return an expression that matches one of the words."""
        return "|".join(_run(character, node) for character, node in self._root.items()) or "(?!)"

    def overlapping_pattern(self) -> str:
        """Return an expression that finds overlapping words too.

        It matches the first character of a word; its last group is the rest of the word.
        """
        return "|".join(f"{re.escape(character)}(?=({_branches(node)}))"
                        for character, node in self._root.items()) or "(?!)"


def _branches(node: dict[str, Any]) -> str:
    if "" in node:
        return ""
    parts = [_run(character, child) for character, child in node.items()]
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


def _run(character: str, node: dict[str, Any]) -> str:
    """Return the expression for a character and everything that may follow it."""
    return re.escape(character) + _branches(node)
