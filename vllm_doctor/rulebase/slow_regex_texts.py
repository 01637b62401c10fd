"""Texts on which a regular expression may take more than linear time, made from its parse tree.

Each makes a backtracking engine try much and match nothing: the start of a match, then a unit that one of the
expression's repeats accepts, or that lets the search begin again at each place, repeated.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

_REPEATED = 8  # times a part may repeat before it counts as a repeat
_PATHS = 24  # alternatives of one expression that are tried
_SEGMENTS = 7
_ALPHABET = (
    "xa0 _-./:,'\"()[]{}<>=|+*#%&@;!?\\\n\tXAbcdefghijklmnopqrstuvwyzBCDEFGHIJKLMNOPQRSTUVWYZ123456789~^$`\xa0é中"
)
_ALL = frozenset(_ALPHABET)
_CATEGORIES: dict[str, Callable[[str], bool]] = {
    "CATEGORY_DIGIT": lambda character: character.isdecimal(),
    "CATEGORY_SPACE": lambda character: character.isspace(),
    "CATEGORY_WORD": lambda character: character.isalnum() or character == "_",
}

if sys.version_info >= (3, 11):
    from re import _parser as sre_parse  # type: ignore[attr-defined]  # the parser is not public
else:
    import sre_parse


class AttackText(NamedTuple):
    """A family of texts: a start, units that are repeated one after the other, an end."""

    start: str
    units: tuple[str, ...]
    end: str

    def text(self, length: int) -> str:
        """Return the member of about that many characters."""
        room = max(0, length - len(self.start) - len(self.end)) // len(self.units)
        return self.start + "".join(unit * (room // len(unit)) for unit in self.units) + self.end

    def __str__(self) -> str:
        """Return the family as an expression in Python."""
        units = " + ".join(f"{unit!r} * n" for unit in self.units)
        return " + ".join([*([repr(self.start)] if self.start else ()), units, *([repr(self.end)] if self.end else ())])


class _Repeat(NamedTuple):
    """A part that repeats: the characters it accepts, or where its body is longer, texts that the body matches."""

    characters: frozenset[str]
    samples: tuple[str, ...]
    least: int

    def sample(self, *, shortest: bool) -> str:
        """Return a text that the repeat matches."""
        times = self.least if shortest else max(1, self.least)
        return (_one_of(self.characters) if self.characters else self.samples[0]) * min(times, 64)

    def units(self, distinguishing: Sequence[frozenset[str]]) -> Iterator[str]:
        """Yield texts of which the repeat accepts any number, one of each kind of character."""
        yield from (sample for sample in self.samples if sample)
        seen = set()
        for character in _ALPHABET:
            kind = tuple(character in characters for characters in distinguishing)
            if character in self.characters and kind not in seen:
                seen.add(kind)
                yield character


_Atom = str | _Repeat


def parsed(source: str | bytes, flags: int = 0) -> Any:
    """Return the tree of an expression: items, each the name of an operation and its arguments."""
    read: Any = sre_parse.parse  # takes bytes as well
    return read(source, flags)


def attack_texts(source: str | bytes, flags: int = 0, samples: Iterable[str] = ()) -> Iterator[AttackText]:
    """Yield the texts that an expression is tried with. `samples` are texts that it matches."""
    tree = parsed(source, flags)
    seen: set[AttackText] = set()
    for attack in (*_of_samples(source, flags, samples), *_of_tree(tree)):
        if all(attack.units) and attack not in seen:
            seen.add(attack)
            yield attack


def _of_samples(source: str | bytes, flags: int, samples: Iterable[str]) -> Iterator[AttackText]:
    if isinstance(source, bytes):
        return
    for sample in samples:
        match = re.compile(source, flags).search(sample)
        text = match[0] if match else sample
        for near in (text[:-1], text[: len(text) // 2]):
            yield AttackText("", (near,), "")
            yield AttackText("", (near + "\n",), "")


def _of_tree(tree: Any) -> Iterator[AttackText]:
    distinguishing = list(dict.fromkeys(_character_sets(tree)))
    for path in _paths(tree):
        yield from _of_path(path, distinguishing)


def _of_path(path: list[_Atom], distinguishing: Sequence[frozenset[str]]) -> Iterator[AttackText]:
    whole = _sample(path, shortest=False)
    ends = dict.fromkeys(["", "\n" + _last_text(path), "\0"])
    places = [place for place, atom in enumerate(path) if isinstance(atom, _Repeat)]
    for shortest in (True, False):
        starts = [_sample(path[:place], shortest=shortest) for place in places]
        for place, start in zip(places, starts, strict=True):
            behind = _sample(path[place + 1 : place + 2], shortest=True)
            near = [*distinguishing, frozenset(behind[:1]), frozenset(whole[:1])]
            for unit in _units(path[place], near):
                for end in ends:
                    yield AttackText(start, (unit,), end)
                if start:  # the search begins again at each start
                    yield AttackText("", (start + unit,), "")
        segments = _segments(path, places, shortest=shortest)
        for first in range(min(len(segments), _SEGMENTS)):
            before = "".join(segments[:first])
            for last in range(first, min(len(segments), _SEGMENTS)):
                unit = "".join(segments[first : last + 1])
                if last == len(segments) - 1:
                    unit = unit[:-1]
                for end in ends:
                    yield AttackText(before, (unit,), end)
        parts = tuple(segment for segment in segments[:_SEGMENTS] if segment)
        if len(parts) > 1:
            yield AttackText("", parts[:-1], "")
            yield AttackText("", (*parts[:-1], parts[-1][:-1] or "x"), "")
    if whole:
        yield AttackText("", (whole[:-1],), "")


def _units(atom: _Atom, distinguishing: Sequence[frozenset[str]]) -> Iterator[str]:
    if isinstance(atom, _Repeat):
        yield from atom.units(distinguishing)


def _segments(path: list[_Atom], places: list[int], *, shortest: bool) -> list[str]:
    """Return the texts between the repeats, each with the repeat that follows it."""
    cuts = [0, *(place + 1 for place in places), len(path)]
    segments = [_sample(path[start:stop], shortest=shortest) for start, stop in pairwise(cuts)]
    return [segment for segment in segments if segment]


def _last_text(path: list[_Atom]) -> str:
    last = ""
    for atom in path:
        last = "" if isinstance(atom, _Repeat) else last + atom
    return last


def _sample(path: Iterable[_Atom], *, shortest: bool) -> str:
    return "".join(atom.sample(shortest=shortest) if isinstance(atom, _Repeat) else atom for atom in path)


def _paths(tree: Iterable[Any]) -> list[list[_Atom]]:
    """Return the sequences that a tree may match: each alternative once, with the first of the others."""
    paths: list[list[_Atom]] = [[]]
    for operation, given in tree:
        options = _options(str(operation), given)
        paths = [*([*path, *options[0]] for path in paths), *([*paths[0], *option] for option in options[1:])][:_PATHS]
    return paths


def _options(operation: str, given: Any) -> list[list[_Atom]]:
    """Return the sequences that an item may match, the likeliest first."""
    characters = _characters(operation, given)
    if characters is not None:
        return [[_one_of(characters)]] if characters else [[]]
    if operation == "SUBPATTERN":
        return _paths(given[3])
    if operation == "ATOMIC_GROUP":
        return _paths(given)
    if operation == "BRANCH":
        return [path for branch in given[1] for path in _paths(branch)]
    if operation in {"ASSERT", "ASSERT_NOT"}:
        inner = _paths(given[1]) if given[0] > 0 else []
        return [[], *(path for path in inner if any(isinstance(atom, _Repeat) for atom in path))]
    if operation == "GROUPREF_EXISTS":
        return [path for branch in given[1:] if branch for path in _paths(branch)] or [[]]
    if operation.endswith("REPEAT"):
        return _repeat_options(*given)
    return [[]]


def _repeat_options(least: int, most: int, body: Any) -> list[list[_Atom]]:
    inner = _paths(body)
    absent: list[list[_Atom]] = [[]] if least == 0 else []
    if most < _REPEATED:
        return [*(path * max(1, least) for path in inner), *absent]
    single = _characters(str(body[0][0]), body[0][1]) if len(body) == 1 else None
    if single is not None:
        return [[_Repeat(single, (), least)]]
    if len(body) == 1 and str(body[0][0]) == "SUBPATTERN" and len(body[0][1][3]) == 1:
        item = body[0][1][3][0]
        single = _characters(str(item[0]), item[1])
        if single is not None:
            return [[_Repeat(single, (), least)]]
    samples = tuple(dict.fromkeys(_sample(path, shortest=False) for path in inner))
    return [[_Repeat(frozenset(), samples, least)], *inner] if any(samples) else inner


def _characters(operation: str, given: Any) -> frozenset[str] | None:
    """Return the characters of the alphabet that a one-character item matches; None for other items."""
    if operation == "LITERAL":
        return frozenset(chr(given))
    if operation == "NOT_LITERAL":
        return _ALL - {chr(given)}
    if operation == "ANY":
        return _ALL - {"\n"}
    if operation == "IN":
        negated = str(given[0][0]) == "NEGATE"
        found = frozenset().union(*(_of_class(str(kind), value) for kind, value in given[negated:]))
        return _ALL - found if negated else found
    return None


def _of_class(kind: str, value: Any) -> frozenset[str]:
    if kind == "LITERAL":
        return frozenset(chr(value))
    if kind == "RANGE":
        return frozenset(c for c in _ALL if value[0] <= ord(c) <= value[1]) or frozenset(chr(value[0]))
    name = str(value)
    negated = name.replace("_NOT_", "_", 1)
    holds = _CATEGORIES[negated]
    return frozenset(c for c in _ALL if holds(c) is (negated == name))


def _character_sets(tree: Any) -> Iterator[frozenset[str]]:
    """Return all sets of more than one character in a tree."""
    if isinstance(tree, tuple) and len(tree) == 2 and str(tree[0]) in {"IN", "NOT_LITERAL", "ANY"}:
        yield _characters(str(tree[0]), tree[1]) or frozenset()
    elif hasattr(tree, "__iter__") and not isinstance(tree, str):
        for item in tree:
            yield from _character_sets(item)


def _one_of(characters: frozenset[str]) -> str:
    return next((character for character in _ALPHABET if character in characters), min(characters, default=""))
