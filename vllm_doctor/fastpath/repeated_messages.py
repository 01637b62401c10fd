"""Messages that come again and again, read in short: few of each shape are read for what they say.

Two messages have one shape when they differ in numbers and long ids alone. Where the same patterns match them, all but
the first and the last tell nothing more than how many there were, unless a fact is larger or smaller than before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from vllm_doctor.events.reader import Event
from vllm_doctor.facts.store import FactName, FactStore
from vllm_doctor.fastpath.line_scanner import Shape
from vllm_doctor.fastpath.retained_lines import FIRST, Kept, Series
from vllm_doctor.fastpath.tracebacks import Traceback
from vllm_doctor.logs.encoding import one_digit
from vllm_doctor.logs.wrappers.byte_patterns import Front
from vllm_doctor.matching.matcher import Matcher, compiled

_LONG = 512  # bytes of a line that is not kept
_RECORD_END = b"] "  # of the prefix of a record
_PREFIX = 120  # bytes in which prefixes stand
_MOST = 4096  # shapes with a plan
_MOST_SEEN = 1 << 14  # texts of which the shape is known
_MOST_RARE = 4096  # shapes without one
_WORTH_A_PLAN = 3  # lines of a shape: most shapes never have as many
_ALWAYS_READ = {"vllm_version", "running_requests"}  # facts that change more than themselves
_SETTINGS = ("args: ", "with config: ")


class Check(NamedTuple):
    """A pattern that may match the messages of a shape, and whether it does.

    `extremes` are those of its facts of which the largest or the smallest value counts.
    """

    search: Callable[[str], re.Match[str] | None]
    told: bool
    extremes: Sequence[str]


class Plan(NamedTuple):
    """How the messages of a shape are read in short. They stand behind so many characters.

    `then` is what else such a line does, given its number and its message; `tells`: some pattern matches. `frames` are
    the calls of the traceback that such a line ends.
    """

    start: int
    checks: Sequence[Check]
    then: Callable[[int, str], None] | None
    tells: bool
    frames: str = ""

    def message(self, raw: bytes, front: Front) -> str:
        """The message of a line."""
        return printed(raw, front)[self.start:]


def printed(raw: bytes, front: Front) -> str:
    """A line without what stands behind its message."""
    return raw[:len(raw) - front.rest].decode().rstrip()


class _Shape(Series):
    """The lines of one shape that are as its plan says; `like_this` was the last."""

    __slots__ = ("like_this", "plan")

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
        self.like_this = b""


_Seen = tuple[bytes, bytes, bytes, bytes]  # a line's source and process, its shape's text, the calls before it


class Repeats:
    """The messages of one run that stand alone, or that end a traceback.

    `make` makes the plan of such a line, None for one to be read in full.
    """

    def __init__(self, make: Callable[[bytes, Front, Traceback | None], Plan | None], facts: FactStore) -> None:
        self.kept = 0  # lines so far
        self._make = make
        self._facts = facts
        self._shapes: dict[bytes, _Shape | None] = {}  # None: its lines are to be read in full
        self._seen: dict[_Seen, _Shape | None] = {}
        self._same: dict[bytes, _Shape] = {}  # the last line of each shape
        self._rare: dict[bytes, int] = {}  # shapes that few lines had so far

    def take(self, raw: bytes, number: int, like: Shape, *, serves: bool, traceback: Traceback | None = None) -> bool:
        """Keep a line back, or know that it says nothing; False for one to be read in full at once.

        `like` is what the scanner knows of such lines; `traceback` stands before the line. While the server starts,
        what a line tells depends on how far it has come: then none is kept back.
        """
        shape = None if traceback else self._same.get(raw)
        if shape is None and (shape := self._as_planned(raw, like, traceback)) is None:
            return False
        plan = shape.plan
        if plan.tells:
            shape.lines += 1
            if shape.lines <= FIRST or not serves:
                return False
            shape.keep(number, raw, slice(like.front.size, len(raw) - like.front.rest), like.front.source)
            self.kept += 1
        if plan.then:
            plan.then(number, plan.message(raw, like.front))
        return True

    def _as_planned(self, raw: bytes, like: Shape, traceback: Traceback | None) -> _Shape | None:
        """The shape of a line, if the same patterns match and no fact is larger or smaller than it was before."""
        if len(raw) > _LONG:
            return None
        front = like.front  # a process's digits tell its rank
        seen = raw[front.source], raw[front.process], like.text, traceback.calls if traceback else b""
        shape = self._seen[seen] if seen in self._seen else self._shape(seen, front, raw, traceback)
        if shape is None:
            return None
        message = shape.plan.message(raw, front)
        for search, told, extremes in shape.plan.checks:
            match = search(message)
            if (match is not None) is not told:
                return None
            if match is not None and any(self._facts.exceeds(name, match[name]) for name in extremes):
                return None
        if not traceback:
            self._same.pop(shape.like_this, None)
            self._same[raw], shape.like_this = shape, raw
        return shape

    def _shape(self, seen: _Seen, front: Front, raw: bytes, traceback: Traceback | None) -> _Shape | None:
        """The shape of a line, once enough lines had it."""
        source, process, text, calls = seen
        start, message = _key(text, front.process.stop)
        key = b"\0".join((source, process, calls, message))
        if key not in self._shapes and not self._is_planned(key, raw, front, traceback):
            return None
        shape = self._shapes[key]
        if shape and start and start != shape.plan.start:
            shape = None
        if len(self._seen) >= _MOST_SEEN:
            self._seen.clear()
        self._seen[seen] = shape
        return shape

    def _is_planned(self, key: bytes, raw: bytes, front: Front, traceback: Traceback | None) -> bool:
        """Plan how lines of a shape are read, if there were enough of them."""
        times = self._rare.pop(key, 0) + 1
        if times < _WORTH_A_PLAN:
            if len(self._rare) >= _MOST_RARE:
                self._rare.clear()
            self._rare[key] = times
            return False
        if len(self._shapes) >= _MOST:
            return False
        plan = self._make(raw, front, traceback)
        self._shapes[key] = _Shape(plan) if plan else None
        return True

    def rest(self) -> list[Kept]:
        """The lines kept back; they are not given again."""
        return [kept._replace(frames=shape.plan.frames)
                for shape in self._shapes.values() if shape for kept in shape.rest()]


def _key(text: bytes, front: int) -> tuple[int, bytes]:
    """Where the message of a line begins, and what all lines of its shape share; 0 where they are of one length."""
    start = text.find(_RECORD_END, front, front + _PREFIX) + len(_RECORD_END)
    if start < len(_RECORD_END) or text.startswith(b"(", start):  # another process's prefix may follow
        return 0, text
    return start, text[:start] + one_digit(text[start:], b"0")


def plan(text: str, event: Event, matcher: Matcher, names: Mapping[str, FactName],
         then: Callable[[int, str], None] | None) -> Plan | None:
    """The plan for lines of the shape of this `printed` one, given its event; None where each is to be read in full."""
    start = len(text) - len(event.text)
    known = (event.level or event.frames) and text.endswith(event.text)
    if not known or any(word in text for word in ("&#", *_SETTINGS)) or (text[0] == "{" and "\\" in text):
        return None  # in JSON it may say something else
    checks: dict[str, Check] = {}  # by expression: several rules may have the same
    try:
        possible = matcher.possible(event)
    except TimeoutError:
        return None
    for waiting in possible:
        pattern = waiting.pattern
        if pattern.own:  # it is searched within a time limit
            return None
        search: Any = compiled(pattern.regex).search
        match = search(event.text)
        if match and (waiting.marker or not _ALWAYS_READ.isdisjoint((*match.groupdict(), *pattern.set))):
            return None
        facts = match.groupdict() if match else ()
        extremes = [name for name in facts if name in names and names[name].merge in {"max", "min"}]
        checks[pattern.regex] = Check(search, match is not None, extremes)
    return Plan(start, [*checks.values()], then, any(check.told for check in checks.values()), event.frames)
