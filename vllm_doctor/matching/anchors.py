"""Search for many literals in a text at once.

Each pattern of a rule or a fact has an anchor, a literal that must be in its line. Only patterns whose anchor is in the
line are tried.
"""

from __future__ import annotations

from typing import Any

from vllm_doctor.logs.encoding import one_digit
from vllm_doctor.text.literal_search import PATIENCE, LiteralFinder
from vllm_doctor.text.patterns import lazy_pattern

_NO_DIGITS = str.maketrans("123456789", "000000000")
_DIGITS = lazy_pattern(r"\d+")
ID_EDGES = lazy_pattern(r"^[0-9a-f-]+(?!\w)|(?<!\w)[0-9a-f-]+$")
"""The hexadecimal characters at the ends of a word that may belong to an adjacent id."""
_HEAD = 4  # characters of an anchor by which it is looked up
_KEPT = 4096  # templates of texts that are remembered
_LONG = 1024  # maximal length of a text that is remembered


class Anchors:
    """A set of literals, each with the keys of the patterns that need it; case-sensitive.

    The first `patience` texts are searched for each literal, because the preparation costs as much and most logs are
    short. Messages repeat with other numbers, so the literals possible in a text are remembered by its template.
    """

    def __init__(self, patience: int = PATIENCE) -> None:
        self.patience = patience
        self._search_count = 0
        self._keys: dict[str, list[Any]] = {}
        self._finder: LiteralFinder | None = None
        self._by_head: dict[str, list[str]] = {}
        self._short: list[str] = []
        self._by_piece: dict[str, list[str]] = {}
        self._always: list[str] = []
        self._order: dict[str, int] = {}
        self._cores: dict[str, str] = {}  # of each anchor, the part that every template of a text with it contains
        self._remembered: dict[str, tuple[str, ...]] = {}

    def add(self, anchor: str, key: Any) -> None:
        """Register `key` for `anchor`; raise ValueError for an empty anchor."""
        if not anchor:
            raise ValueError("an anchor must not be empty")
        if anchor not in self._keys:
            self._order[anchor] = len(self._order)
            self._keys[anchor] = []
            (self._short if len(anchor) < _HEAD else self._by_head.setdefault(anchor[:_HEAD], [])).append(anchor)
        self._keys[anchor].append(key)
        self._finder = None

    def found_in(self, text: str) -> list[Any]:
        """Return the keys whose anchor is in `text`, in the order they were added."""
        if self._finder is None:
            self._search_count += 1
            if self._search_count <= self.patience:
                return self._found_without_index(text)
            self._prepare()
        template = _template(text) if len(text) < _LONG else ""
        anchors = self._remembered.get(template) if template else None
        if anchors is None:
            anchors = self._candidates(text)
            if template:
                if len(self._remembered) >= _KEPT:
                    self._remembered.clear()
                self._remembered[template] = anchors
        return [key for anchor in anchors if anchor in text for key in self._keys[anchor]]

    def possible_in(self, text: str) -> list[Any]:
        """Return the keys whose anchor may be in a text that differs from `text` only in numbers and long ids."""
        if len(self._cores) < len(self._keys):
            self._cores = {anchor: _template(ID_EDGES.sub("", anchor)) for anchor in self._keys}
        template = _template(text)
        return [key for anchor, core in self._cores.items() if core in template for key in self._keys[anchor]]

    def _found_without_index(self, text: str) -> list[Any]:
        """Return the result of `found_in` without preparation: look up anchors by their first characters."""
        heads = {text[at : at + _HEAD] for at in range(len(text) - _HEAD + 1)}
        matches = [anchor for head in heads & self._by_head.keys() for anchor in self._by_head[head] if anchor in text]
        matches += [anchor for anchor in self._short if anchor in text]
        return [key for anchor in sorted(matches, key=self._order.__getitem__) for key in self._keys[anchor]]

    def _candidates(self, text: str) -> tuple[str, ...]:
        """Return the anchors that may be in `text`, whatever its numbers are."""
        assert self._finder is not None  # noqa: S101 - `_prepare` set it
        anchors = {anchor for piece in self._finder.candidates(text) for anchor in self._by_piece[piece]}
        return tuple(sorted(anchors.union(self._always), key=self._order.__getitem__))

    def _prepare(self) -> None:
        self._by_piece = {}
        for anchor in self._keys:
            self._by_piece.setdefault(max(_DIGITS.split(anchor), key=len), []).append(anchor)
        self._always = self._by_piece.pop("", [])
        self._remembered = {}
        self._finder = LiteralFinder(self._by_piece)


def _template(text: str) -> str:
    """Return a text with its numbers replaced."""
    return one_digit(text.translate(_NO_DIGITS), "0")
