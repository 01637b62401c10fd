"""Find regular expressions that take more than linear time on some text, with that text as the proof.

Those of slow_regex_texts.py are tried up to the length of the longest text in which the expression is ever searched. An
expression is slow when one of them takes longer than a linear scan can.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from time import thread_time
from types import FrameType
from typing import NamedTuple

import regex

from vllm_doctor.events.code_paths import LONGEST_FRAME
from vllm_doctor.events.reader import MAX_FRAMES
from vllm_doctor.rulebase.model import LONGEST_TEXT
from vllm_doctor.rulebase.slow_regex_texts import AttackText, attack_texts

BUDGET = 0.02
"""Seconds for one search of LONGEST_TEXT characters, on a machine that takes `_PACE` for the search of `_pace`."""
_FIRST = 2_048  # characters that are tried first: most expressions are linear, which shows there
_SHARE = 5  # a text of the first length may take one part in so many of what a quadratic search that is too slow takes
_GROWTH = 2.6  # times as long that twice the length may take before it counts as more than linear
_QUADRATIC = 3.2  # times as long that twice the length takes for sure where the time is more than linear
_REMEASURED = 4  # a search that takes more than one part in so many of the budget is measured again
_PACE = 0.00013  # seconds
_LINEAR = 3  # times the budget that a search may take that is linear
_REPEATS = 5  # of a search that seems slow
_GIVE_UP = 0.5  # seconds; a search that takes longer is stopped

Search = Callable[[str], object]


class Slow(NamedTuple):
    """The proof that an expression is slow: the texts, and the seconds that some of them took by their length."""

    attack: AttackText
    times: tuple[tuple[int, float], ...]

    def __str__(self) -> str:
        """Return the proof in one line."""
        took = ", ".join(f"{seconds * 1000:.1f} ms for {length} characters" for length, seconds in self.times)
        return f"{self.attack} takes {took}"


def slow_pattern(source: str, samples: Iterable[str] = ()) -> Slow | None:
    """Return the proof that a rule's `pattern` is slow, None where none is found. Raises re.error, regex.error."""
    compiled = regex.compile(source)

    def search(text: str) -> object:
        return compiled.search(text, timeout=_GIVE_UP)

    return _slow(search, attack_texts(source, samples=samples), LONGEST_TEXT, BUDGET)


def slow_frames(source: str) -> Slow | None:
    """Return the proof that a rule's `frames` or `not_frames` is slow. Raises re.error, regex.error."""
    if not source:
        return None
    compiled = regex.compile(source)

    def search(text: str) -> object:
        return compiled.search(_as_frames(text), timeout=_GIVE_UP)

    tried = (each for attack in attack_texts(source) for each in (attack, *_in_lines(attack)))
    return _slow(search, tried, MAX_FRAMES * LONGEST_FRAME, BUDGET * 2)


def _in_lines(attack: AttackText) -> Iterator[AttackText]:
    """Yield the same with as many units in each line as a call has room for."""
    if len(attack.units) == 1 and 4 <= len(attack.units[0]) <= LONGEST_FRAME // 2:
        unit = attack.units[0].rstrip("\n")
        line = unit * (LONGEST_FRAME // 2 // len(unit)) if unit else ""
        yield AttackText(attack.start, (line + "\n",), attack.end)


def _as_frames(text: str) -> str:
    """Return a text with its lines cut as calls are."""
    pieces = (line[at : at + LONGEST_FRAME] for line in text.split("\n")
              for at in range(0, max(1, len(line)), LONGEST_FRAME))
    return "\n".join(islice(pieces, MAX_FRAMES))


def slow_code(search: Search, source: str | bytes, flags: int = 0, longest: int = 4 * LONGEST_TEXT) -> Slow | None:
    """Return the proof that an expression of the program is slow, None where none is found.

    `search` is its method that is used. A search is only stopped in the main thread, where there are signals.
    """
    def stopped(text: str) -> object:
        with _time_limit(_GIVE_UP):
            return search(text)

    return _slow(stopped, attack_texts(source, flags), longest, BUDGET * max(longest / LONGEST_TEXT, 1 / _REMEASURED))


def _slow(search: Search, tried: Iterable[AttackText], longest: int, budget: float) -> Slow | None:
    budget *= _pace()
    begin = min(_FIRST, longest // 4)
    suspicious = budget * (begin / longest) ** 2 / _SHARE + budget / 200
    for attack in tried:
        text = attack.text(begin)
        first = _seconds(search, text)
        if first <= suspicious or (first := min(first, _seconds(search, text))) <= suspicious:
            continue
        times = [(begin, first)]
        for length in (2 * begin, longest // 2, longest):
            times.append((length, _seconds(search, attack.text(length))))
            if times[-1][1] > budget * 5 or _is_linear(times, longest, budget):
                break
        _settle(search, attack, times, longest, budget)
        if _is_slow(times, longest, budget):
            return Slow(attack, tuple((len(attack.text(length)), took) for length, took in times))
    return None


def _settle(search: Search, attack: AttackText, times: list[tuple[int, float]], longest: int, budget: float) -> None:
    """Measure again what decides whether a search is slow: another process may have been in the way.

    The two lengths are measured one after the other, so that what disturbs one disturbs the other as well. Either the
    pair whose growth is the median counts or the quickest search of each length, whichever grows less: a disturbance
    that begins between the two lengths spoils one of these, hardly both.
    """
    (half, before), (length, took) = times[-2:]
    if not budget / _REMEASURED < took < budget * 5:
        return
    if before > budget / 2 or _is_slow(times, longest, budget):
        pairs = [(_seconds(search, attack.text(half)), _seconds(search, attack.text(length))) for _ in range(_REPEATS)]
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
    return longest > LONGEST_TEXT // 4 and took > budget / _REMEASURED and took > before * _QUADRATIC


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
