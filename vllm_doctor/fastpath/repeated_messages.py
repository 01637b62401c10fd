"""Count repeated messages; only the first and last few of each template are read in full.

Two messages have the same template if they differ only in numbers and long ids.
Skipped: a message whose template was seen before, matches the same patterns and has no fact beyond its earlier range.
Safe, because such a message changes only the count of hits, and the report keeps FIRST and LAST lines of each. The
patterns are still searched in every message with other numbers. During a start no message with a match is kept back,
because its meaning depends on the phase.
Gain: a million equal errors cost a search each instead of a full read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from vllm_doctor.events.reader import Event
from vllm_doctor.facts.store import FactName, FactStore
from vllm_doctor.fastpath.line_scanner import Shape
from vllm_doctor.fastpath.retained_lines import FIRST, Kept, Series
from vllm_doctor.fastpath.tracebacks import Traceback
from vllm_doctor.logs.encoding import one_digit
from vllm_doctor.logs.wrappers.byte_patterns import Front
from vllm_doctor.matching.matcher import Matcher, compiled

_LONG = 512  # a longer line is read in full
_RECORD_END = b"] "  # of the prefix of a record
_PREFIX = 120  # bytes that contain the prefixes
_MOST = 4096  # templates with a plan
_MOST_SEEN = 1 << 14  # texts whose template is known
_MOST_RARE = 4096  # templates without a plan
_WORTH_A_PLAN = 3  # lines of a template: most templates never reach it
_ALWAYS_READ = {"vllm_version", "running_requests"}  # facts with effects beyond themselves
_SETTINGS = ("args: ", "with config: ")


class Check(NamedTuple):
    """A pattern that may match the messages of a template, and whether it does.

    `extremes` are those of its facts that keep their largest or smallest value.
    """

    search: Callable[[str], re.Match[str] | None]
    told: bool
    extremes: Sequence[str]


class Plan(NamedTuple):
    """How the messages of a template are counted.

    `start` is the length of the text before the message. `then` is called with the number and the message of each line;
    `tells`: some pattern matches. `frames` are the calls of the traceback that such a line ends.
    """

    start: int
    checks: Sequence[Check]
    then: Callable[[int, str], None] | None
    tells: bool
    frames: str = ""

    def message(self, raw: bytes, front: Front) -> str:
        """Return the message of a line."""
        return printed(raw, front)[self.start:]


def printed(raw: bytes, front: Front) -> str:
    """Return a line without the end of its wrapper."""
    return raw[:len(raw) - front.rest].decode().rstrip()


class _Shape(Series):
    """The lines of one template that match its plan; `like_this` was the last."""

    __slots__ = ("like_this", "plan")

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
        self.like_this = b""


_Seen = tuple[bytes, bytes, bytes, bytes]  # a line's source and process, its template's text, the calls before it


class Repeats:
    """The repeated messages of one run, alone or at the end of a traceback.

    `make` returns the plan for such a line, None if all of its kind must be read in full.
    """

    def __init__(self, make: Callable[[bytes, Front, Traceback | None], Plan | None], facts: FactStore) -> None:
        self.kept = 0  # lines so far
        self._make = make
        self._facts = facts
        self._shapes: dict[bytes, _Shape | None] = {}  # None: its lines must be read in full
        self._seen: dict[_Seen, _Shape | None] = {}
        self._same: dict[bytes, _Shape] = {}  # by the last line of each template
        self._rare: dict[bytes, int] = {}  # how many lines had a template without a plan

    def take(self, raw: bytes, number: int, like: Shape, *, serves: bool, traceback: Traceback | None = None) -> bool:
        """Count a line or keep it back; return False if it must be read in full now.

        `like` is the scanner's template of the line; `traceback` precedes the line. While the server starts, the
        meaning of a line depends on the phase: then none is kept back.
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
        """Return the template of a line if the same patterns match and no fact exceeds its earlier values."""
        if len(raw) > _LONG:
            return None
        front = like.front  # a process's digits contain its rank
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
        """Return the template of a line, once enough lines had it."""
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
        """Plan how lines of a template are counted, if there were enough of them."""
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
        """Return the lines kept back, each only once."""
        return [kept._replace(frames=shape.plan.frames)
                for shape in self._shapes.values() if shape for kept in shape.rest()]


def _key(text: bytes, front: int) -> tuple[int, bytes]:
    """Return where the message of a line begins (0: not known) and the key of its template."""
    start = text.find(_RECORD_END, front, front + _PREFIX) + len(_RECORD_END)
    if start < len(_RECORD_END) or text.startswith(b"(", start):  # another process's prefix may follow
        return 0, text
    return start, text[:start] + one_digit(text[start:], b"0")


def plan(text: str, event: Event, matcher: Matcher, names: Mapping[str, FactName],
         then: Callable[[int, str], None] | None) -> Plan | None:
    """Return the plan for lines like this `printed` one, given its event; None if each must be read in full."""
    start = len(text) - len(event.text)
    known = (event.level or event.frames) and text.endswith(event.text)
    if not known or any(word in text for word in ("&#", *_SETTINGS)) or (text[0] == "{" and "\\" in text):
        return None  # in JSON the message may be escaped
    checks: dict[str, Check] = {}  # by expression: several rules may have the same
    for ref in matcher.possible_patterns(event):
        pattern = ref.pattern
        if pattern.own:  # it is searched with a time limit
            return None
        search = compiled(pattern.regex).search
        match = search(event.text)
        if match and (ref.marker or not _ALWAYS_READ.isdisjoint((*match.groupdict(), *pattern.set))):
            return None
        facts = match.groupdict() if match else ()
        extremes = [name for name in facts if name in names and names[name].merge in {"max", "min"}]
        checks[pattern.regex] = Check(search, match is not None, extremes)
    return Plan(start, [*checks.values()], then, any(check.told for check in checks.values()), event.frames)
