"""Find regular expressions that take more than linear time on some text, with that text as the proof.

From the parse tree of an expression texts are generated that make a backtracking engine try much and match nothing:
the start of a match, then a unit that one of its repeats accepts, or that lets the search begin again at each place,
repeated up to the length of the longest text the expression is ever searched in. An expression is slow when one of
them takes longer than a linear scan can.
"""

from __future__ import annotations

import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise
from time import thread_time
from types import FrameType
from typing import Any, NamedTuple

import regex

from vllm_doctor.events.code_paths import LONGEST_FRAME
from vllm_doctor.events.reader import MAX_FRAMES

LONGEST = 16_384
"""Characters of the longest text in which a pattern of a rule is searched."""
BUDGET = 0.02
"""Seconds for one search of a text of that length, on a machine that takes `_PACE` for the search of `_pace`."""
_FIRST = 2_048  # characters that are tried first: most expressions are linear, which shows there
_SHARE = 5  # a text of the first length may take one part in so many of what a quadratic search that is too slow takes
_GROWTH = 2.6  # times as long that twice the length may take before it counts as more than linear
_QUADRATIC = 3.2  # times as long that twice the length takes for sure where the time is more than linear
_TELLING = 4  # that is measured where a search takes more than one part in so many of the budget
_PACE = 0.00013  # seconds
_LINEAR = 3  # times the budget that a search may take that is linear
_REPEATS = 5  # of a search that seems slow
_REPEATED = 8  # times a part may repeat before it counts as a repeat
_PATHS = 24  # alternatives of one expression that are tried
_SEGMENTS = 7
_GIVE_UP = 0.5  # seconds; a search that takes longer is stopped
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

Search = Callable[[str], object]


class Pump(NamedTuple):
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


class Slow(NamedTuple):
    """The proof that an expression is slow: the texts, and the seconds that some of them took by their length."""

    pump: Pump
    times: tuple[tuple[int, float], ...]

    def __str__(self) -> str:
        """Return the proof in one line."""
        took = ", ".join(f"{seconds * 1000:.1f} ms for {length} characters" for length, seconds in self.times)
        return f"{self.pump} takes {took}"


class _Repeat(NamedTuple):
    """A part that repeats: the characters it accepts, or where its body is longer, texts that the body matches."""

    characters: frozenset[str]
    samples: tuple[str, ...]
    least: int

    def sample(self, *, shortest: bool) -> str:
        """Return a text that the repeat matches."""
        times = self.least if shortest else max(1, self.least)
        return (_one_of(self.characters) if self.characters else self.samples[0]) * min(times, 64)

    def units(self, telling: Sequence[frozenset[str]]) -> Iterator[str]:
        """Yield texts of which the repeat accepts any number, one of each kind of character."""
        yield from (sample for sample in self.samples if sample)
        seen = set()
        for character in _ALPHABET:
            kind = tuple(character in characters for characters in telling)
            if character in self.characters and kind not in seen:
                seen.add(kind)
                yield character


_Atom = str | _Repeat


def parsed(source: str | bytes, flags: int = 0) -> Any:
    """Return the tree of an expression: items, each the name of an operation and its arguments."""
    read: Any = sre_parse.parse  # takes bytes as well
    return read(source, flags)


def pumps(source: str | bytes, flags: int = 0, samples: Iterable[str] = ()) -> Iterator[Pump]:
    """Yield the texts that an expression is tried with. `samples` are texts that it matches."""
    tree = parsed(source, flags)
    seen: set[Pump] = set()
    for pump in (*_of_samples(source, flags, samples), *_of_tree(tree)):
        if all(pump.units) and pump not in seen:
            seen.add(pump)
            yield pump


def _of_samples(source: str | bytes, flags: int, samples: Iterable[str]) -> Iterator[Pump]:
    if isinstance(source, bytes):
        return
    for sample in samples:
        match = re.compile(source, flags).search(sample)
        text = match[0] if match else sample
        for near in (text[:-1], text[: len(text) // 2]):
            yield Pump("", (near,), "")
            yield Pump("", (near + "\n",), "")


def _of_tree(tree: Any) -> Iterator[Pump]:
    telling = list(dict.fromkeys(_character_sets(tree)))
    for path in _paths(tree):
        yield from _of_path(path, telling)


def _of_path(path: list[_Atom], telling: Sequence[frozenset[str]]) -> Iterator[Pump]:
    whole = _sample(path, shortest=False)
    ends = dict.fromkeys(["", "\n" + _last_text(path), "\0"])
    places = [place for place, atom in enumerate(path) if isinstance(atom, _Repeat)]
    for shortest in (True, False):
        starts = [_sample(path[:place], shortest=shortest) for place in places]
        for place, start in zip(places, starts, strict=True):
            near = [*telling, frozenset(_sample(path[place + 1 : place + 2], shortest=True)[:1]), frozenset(whole[:1])]
            for unit in _units(path[place], near):
                for end in ends:
                    yield Pump(start, (unit,), end)
                if start:  # the search begins again at each start
                    yield Pump("", (start + unit,), "")
        segments = _segments(path, places, shortest=shortest)
        for first in range(min(len(segments), _SEGMENTS)):
            before = "".join(segments[:first])
            for last in range(first, min(len(segments), _SEGMENTS)):
                unit = "".join(segments[first : last + 1])
                if last == len(segments) - 1:
                    unit = unit[:-1]
                for end in ends:
                    yield Pump(before, (unit,), end)
        parts = tuple(segment for segment in segments[:_SEGMENTS] if segment)
        if len(parts) > 1:
            yield Pump("", parts[:-1], "")
            yield Pump("", (*parts[:-1], parts[-1][:-1] or "x"), "")
    if whole:
        yield Pump("", (whole[:-1],), "")


def _units(atom: _Atom, telling: Sequence[frozenset[str]]) -> Iterator[str]:
    if isinstance(atom, _Repeat):
        yield from atom.units(telling)


def _segments(path: list[_Atom], places: list[int], *, shortest: bool) -> list[str]:
    """Return the texts between the repeats, each with the repeat that follows it."""
    cuts = [0, *(place + 1 for place in places), len(path)]
    made = [_sample(path[start:stop], shortest=shortest) for start, stop in pairwise(cuts)]
    return [segment for segment in made if segment]


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


def slow_pattern(source: str, samples: Iterable[str] = ()) -> Slow | None:
    """Return the proof that a rule's `pattern` is slow, None where none is found. Raises re.error, regex.error."""
    compiled = regex.compile(source)

    def search(text: str) -> object:
        return compiled.search(text, timeout=_GIVE_UP)

    return _slow(search, pumps(source, samples=samples), LONGEST, BUDGET)


def slow_frames(source: str) -> Slow | None:
    """Return the proof that a rule's `frames` or `not_frames` is slow. Raises re.error, regex.error."""
    if not source:
        return None
    compiled = regex.compile(source)

    def search(text: str) -> object:
        return compiled.search(_as_frames(text), timeout=_GIVE_UP)

    tried = (each for pump in pumps(source) for each in (pump, *_in_lines(pump)))
    return _slow(search, tried, MAX_FRAMES * LONGEST_FRAME, BUDGET * 2)


def _in_lines(pump: Pump) -> Iterator[Pump]:
    """Yield the same with as many units in each line as a call has room for."""
    if len(pump.units) == 1 and 4 <= len(pump.units[0]) <= LONGEST_FRAME // 2:
        unit = pump.units[0].rstrip("\n")
        yield Pump(pump.start, (unit * (LONGEST_FRAME // 2 // len(unit)) + "\n",) if unit else ("\n",), pump.end)


def _as_frames(text: str) -> str:
    """Return a text with its lines cut as calls are."""
    pieces = (line[at : at + LONGEST_FRAME] for line in text.split("\n")
              for at in range(0, max(1, len(line)), LONGEST_FRAME))
    return "\n".join(islice(pieces, MAX_FRAMES))


def slow_code(search: Search, source: str | bytes, flags: int = 0, longest: int = 4 * LONGEST) -> Slow | None:
    """Return the proof that an expression of the program is slow, None where none is found.

    `search` is its method that is used. A search is only stopped in the main thread, where there are signals.
    """
    def stopped(text: str) -> object:
        with _time_limit(_GIVE_UP):
            return search(text)

    return _slow(stopped, pumps(source, flags), longest, BUDGET * max(longest / LONGEST, 1 / _TELLING))


def _slow(search: Search, tried: Iterable[Pump], longest: int, budget: float) -> Slow | None:
    budget *= _pace()
    begin = min(_FIRST, longest // 4)
    suspicious = budget * (begin / longest) ** 2 / _SHARE + budget / 200
    for pump in tried:
        text = pump.text(begin)
        first = _seconds(search, text)
        if first <= suspicious or (first := min(first, _seconds(search, text))) <= suspicious:
            continue
        times = [(begin, first)]
        for length in (2 * begin, longest // 2, longest):
            times.append((length, _seconds(search, pump.text(length))))
            if times[-1][1] > budget * 5 or _is_linear(times, longest, budget):
                break
        _settle(search, pump, times, longest, budget)
        if _is_slow(times, longest, budget):
            return Slow(pump, tuple((len(pump.text(length)), took) for length, took in times))
    return None


def _settle(search: Search, pump: Pump, times: list[tuple[int, float]], longest: int, budget: float) -> None:
    """Measure again what decides whether a search is slow: another process may have been in the way.

    The two lengths are measured one after the other, so that what disturbs one disturbs the other as well. Either the
    pair whose growth is the median counts or the quickest search of each length, whichever grows less: a disturbance
    that begins between the two lengths spoils one of these, hardly both.
    """
    (half, before), (length, took) = times[-2:]
    if not budget / _TELLING < took < budget * 5:
        return
    if before > budget / 2 or _is_slow(times, longest, budget):
        pairs = [(_seconds(search, pump.text(half)), _seconds(search, pump.text(length))) for _ in range(_REPEATS)]
        median = sorted(pairs, key=_growth)[_REPEATS // 2]
        quickest = (min(pair[0] for pair in pairs), min(pair[1] for pair in pairs))
        before, took = min(median, quickest, key=_growth)
        times[-2:] = [(half, before), (length, took)]


def _growth(pair: tuple[float, float]) -> float:
    return pair[1] / pair[0]


def _pace() -> float:
    """Return how many times as long as the machine the budget was set on this one takes now, at least 1."""
    fixed = regex.compile("a[b-d]{2,8}x")
    return max(1.0, min(_seconds(fixed.search, "abcdbcdb" * 2_048) for _ in range(_REPEATS)) / _PACE)


def _is_slow(times: Sequence[tuple[int, float]], longest: int, budget: float) -> bool:
    """Return whether the time for the longest text is over the budget, or grows as a quadratic one does."""
    (_, before), (_, took) = times[-2:]
    if took > budget:
        return took > before * _GROWTH or took > budget * _LINEAR
    return longest > LONGEST // 4 and took > budget / _TELLING and took > before * _QUADRATIC


def _is_linear(times: Sequence[tuple[int, float]], longest: int, budget: float) -> bool:
    """Return whether twice the length took about twice the time, far below the limit for the longest text."""
    (_, before), (length, took) = times[-2:]
    return took < before * _GROWTH and took * longest / length < budget / 2


def _seconds(search: Search, text: str) -> float:
    started = thread_time()
    try:
        search(text)
    except TimeoutError:
        return max(_GIVE_UP, thread_time() - started)
    return thread_time() - started


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
