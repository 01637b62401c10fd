"""A quick search for any of many literals.

Python's `re` skips quickly over characters that can begin no match, and slows down at those that can. So of each
literal a short piece is searched, its window, that begins with a character rare in such logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

_LEAST = 4  # characters of a window, where the literal has as many
_MOST = 24  # more make nothing rarer
PATIENCE = 1500
"""Texts that are searched word by word: an expression costs as much to make, and most logs are short."""
# The characters of a serving log, the commonest first; what is missing here is rare.
_COMMON = " 0123456789:-.,et\nosraniplcd/TOhmgu_v[]IFNqPAf()Sk=xwCEbLM\"'yRUzGVjDWKBHX"
_ANY = 1500  # what each first character costs, be it ever so rare
_COST = {character: (len(_COMMON) - rank) ** 2 for rank, character in enumerate(_COMMON)}


def windows(literals: Iterable[str]) -> dict[str, str]:
    """A window of each literal."""
    options = {literal: set(literal[:max(len(literal) - _LEAST, 0) + 1]) for literal in literals}
    waiting: dict[str, list[str]] = {}  # the literals by what their windows may begin with
    for literal, starts in options.items():
        for character in starts:
            waiting.setdefault(character, []).append(literal)
    counts = {character: len(those) for character, those in waiting.items()}
    first: set[str] = set()
    covered: set[str] = set()
    while len(covered) < len(options):
        best = max(counts, key=lambda character: (counts[character] / (_ANY + _COST.get(character, 0)), character))
        first.add(best)
        for literal in waiting[best]:
            if literal not in covered:
                covered.add(literal)
                for character in options[literal]:
                    counts[character] -= 1
    chosen = {}
    for literal, starts in options.items():
        at = literal.index(min(starts & first, key=lambda character: (_COST.get(character, 0), character)))
        chosen[literal] = literal[at:at + _MOST]
    return chosen


class Finder:
    """Finds which of many literals may stand in a text, all at once."""

    def __init__(self, literals: Iterable[str]) -> None:
        chosen = windows(literals)
        trie = Trie(chosen.values())
        self._by_word: dict[str, list[str]] = {word: [] for word in trie.words}
        for literal, window in chosen.items():
            starts = (window[:size] for size in range(1, len(window) + 1))
            self._by_word[next(start for start in starts if start in self._by_word)].append(literal)
        self._scan = re.compile(trie.every())

    def candidates(self, text: str) -> Iterator[str]:
        """The literals of which a window stands in the text, those of each place where one does."""
        for found in self._scan.finditer(text):
            yield from self._by_word[found[0] + found[found.lastindex or 0]]


class _Words:
    """Finds any of some words: in the first texts one by one, for most logs are short, then by an expression."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self._words = words
        self._patience = PATIENCE
        self._expression: re.Pattern[str] | None = None

    def search(self, text: str) -> bool:
        """Whether the text may hold one of the words: certain where it is False."""
        if self._expression is not None:
            return self._expression.search(text) is not None
        self._patience -= 1
        if not self._patience:
            self._expression = re.compile(Trie(windows(self._words).values()).any())
        for word in self._words:  # noqa: SIM110 - a generator would cost more than the search
            if word in text:
                return True
        return False


@lru_cache(maxsize=16)
def any_of(words: tuple[str, ...]) -> _Words:
    """What finds texts that hold one of the words; it may find others too, but few."""
    return _Words(words)


def shortest(words: Iterable[str]) -> list[str]:
    """Words without those that begin with another one: where such a one stands the other does."""
    kept: list[str] = []
    for word in sorted(words):
        if not kept or not word.startswith(kept[-1]):
            kept.append(word)
    return kept


class Trie:
    """Words as one expression. A word that begins with another one is left out: where it stands the other one does."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = shortest(words)
        self._root: dict[str, Any] = {}
        for word in self.words:
            node = self._root
            for character in word:
                node = node.setdefault(character, {})
            node[""] = {}

    def any(self) -> str:
        """Matches one of the words."""
        return "|".join(_run(character, node) for character, node in self._root.items()) or "(?!)"

    def every(self) -> str:
        """Matches the first character of each word, also of words that overlap; the last group is what follows it."""
        return "|".join(f"{re.escape(character)}(?=({_branches(node)}))"
                        for character, node in self._root.items()) or "(?!)"


def _branches(node: dict[str, Any]) -> str:
    if "" in node:
        return ""
    parts = [_run(character, child) for character, child in node.items()]
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


def _run(character: str, node: dict[str, Any]) -> str:
    """One character and all that may follow it."""
    return re.escape(character) + _branches(node)
