"""Finds which of many literals stand in a text, in one pass.

Each pattern of a rule or a fact has an anchor, a literal that must be in its line. All anchors together become one
regular expression in the shape of a trie; only patterns whose anchor was found are tried.
"""

from __future__ import annotations

import re
from typing import Any

_END = ""  # marks the end of an anchor in the trie


class Anchors:
    """A set of literals, each with the keys (patterns) that wait for it. Case counts.

    The first `patience` texts are searched literal by literal: compiling the trie costs as much as that, and most logs
    are short.
    """

    def __init__(self, patience: int = 1500) -> None:
        self.patience = patience
        self._looked = 0
        self._keys: dict[str, list[Any]] = {}
        self._scan: re.Pattern[str] | None = None
        self._within: dict[str, tuple[str, ...]] = {}
        self._order: dict[str, int] = {}

    def add(self, anchor: str, key: Any) -> None:
        """Let `key` wait for `anchor`. Raises ValueError for an empty anchor."""
        if not anchor:
            raise ValueError("an anchor must not be empty")
        self._keys.setdefault(anchor, []).append(key)
        self._scan = None

    def found_in(self, text: str) -> list[Any]:
        """The keys whose anchor stands in `text`, in the order they were added."""
        if self._scan is None:
            self._looked += 1
            if self._looked <= self.patience:
                return [key for anchor, keys in self._keys.items() if anchor in text for key in keys]
            self._compile()
        assert self._scan is not None  # noqa: S101 - `_compile` set it
        seen = set(self._scan.findall(text))
        if not seen:
            return []
        seen.update(short for anchor in tuple(seen) for short in self._within[anchor])
        return [key for anchor in sorted(seen, key=self._order.__getitem__) for key in self._keys[anchor]]

    def _compile(self) -> None:
        trie: dict[str, Any] = {}
        for anchor in self._keys:
            node = trie
            for character in anchor:
                node = node.setdefault(character, {})
            node[_END] = {}
        # A look-ahead consumes nothing, so anchors that overlap are all found. Of anchors that begin alike the
        # longest matches; the shorter ones are its prefixes and are added by `_within`.
        self._scan = re.compile(f"(?=({_branches(trie)}))" if trie else r"(?!)")
        self._order = {anchor: index for index, anchor in enumerate(self._keys)}
        self._within = {
            anchor: tuple(anchor[:end] for end in range(1, len(anchor)) if anchor[:end] in self._keys)
            for anchor in self._keys
        }


def _branches(node: dict[str, Any]) -> str:
    """The trie below `node` as a regular expression, longest first."""
    parts = [_run(character, child) for character, child in node.items() if character != _END]
    if not parts:
        return ""
    body = parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"
    return f"(?:{body})?" if _END in node else body


def _run(character: str, node: dict[str, Any]) -> str:
    """One character and all that follows it without a branch."""
    text = re.escape(character)
    while len(node) == 1 and _END not in node:
        ((character, node),) = node.items()
        text += re.escape(character)
    return text + _branches(node)
