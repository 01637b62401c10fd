"""Messages that come again and again, read in short: few of each shape are read for what they say.

Two messages have one shape when they differ in digits and long ids alone. Where the same patterns match them, all but
the first and the last tell nothing more than how many there were, unless a fact is larger or smaller than before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from vllm_doctor.events import Event
from vllm_doctor.facts import FactName, FactStore
from vllm_doctor.match import Matcher, compiled
from vllm_doctor.series import FIRST, Kept, Series
from vllm_doctor.typed import NamedTuple

_BRACKET = ord("(")  # the prefix of a process begins with it
_LONG = 512  # bytes of a line that is not kept
_MOST = 1024  # shapes
_WORTH_A_PLAN = 3  # lines of a shape: most shapes never have as many
_ALWAYS_READ = {"vllm_version", "running_requests"}  # facts that change more than themselves
_SETTINGS = ("args: ", "with config: ")


class Test(NamedTuple):
    """A pattern that may match the messages of a shape, and whether it does.

    `extremes` are those of its facts of which the largest or the smallest value counts.
    """

    search: Callable[[str], re.Match[str] | None]
    told: bool
    extremes: Sequence[str]


class Plan(NamedTuple):
    """How the messages of a shape are read in short. They stand behind so many characters.

    `then` is what else such a line does, given its number and its message.
    """

    start: int
    tests: Sequence[Test]
    then: Callable[[int, str], None] | None


class _Shape(Series):
    """The lines of one shape, those that are as its plan says counted apart."""

    __slots__ = ("plan", "seen")

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0
        self.plan: Plan | None = None


class Repeats:
    """The messages of one run that stand alone. `make` makes the plan of a line, None for one to be read in full."""

    def __init__(self, make: Callable[[bytes], Plan | None], facts: FactStore) -> None:
        self.kept = 0  # lines so far
        self._make = make
        self._facts = facts
        self._shapes: dict[bytes, _Shape] = {}

    def take(self, raw: bytes, number: int, text: bytes, *, serves: bool) -> bool:
        """Keep a line back, or know that it says nothing; False for one to be read in full at once.

        `text` is what the scanner knows as the shape's. While the server starts, what a line tells depends on how far
        it has come: then none is kept back.
        """
        if len(raw) > _LONG:
            return False
        cut = raw.find(b") ") if raw[0] == _BRACKET else 0  # a process's digits tell its rank
        key = raw[:cut] + text[cut:]
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= _MOST:
                return False
            shape = self._shapes[key] = _Shape()
        shape.seen += 1
        if shape.seen < _WORTH_A_PLAN:
            return False
        if shape.seen == _WORTH_A_PLAN:
            shape.plan = self._make(raw)
        plan = shape.plan
        if plan is None:
            return False
        tells = False
        message = raw.decode()[plan.start:].rstrip() if plan.tests or plan.then else ""
        for search, told, extremes in plan.tests:
            match = search(message)
            if (match is not None) is not told:
                return False
            if match is not None:
                if extremes and any(self._facts.exceeds(name, match[name]) for name in extremes):
                    return False
                tells = True
        if tells:
            shape.lines += 1
            if shape.lines <= FIRST or not serves:
                return False
            shape.keep(number, raw)
            self.kept += 1
        if plan.then:
            plan.then(number, message)
        return True

    def rest(self) -> list[Kept]:
        """The lines kept back; they are not given again."""
        return [kept for shape in self._shapes.values() for kept in shape.rest()]


def plan(text: str, event: Event, matcher: Matcher, names: Mapping[str, FactName],
         then: Callable[[int, str], None] | None) -> Plan | None:
    """The plan for lines of the shape of this one, given its event; None where each is to be read in full."""
    start = len(text) - len(event.text)
    if not event.level or "&#" in text or not text.endswith(event.text) or any(word in text for word in _SETTINGS):
        return None
    tests = []
    for waiting in matcher.possible(event):
        pattern = waiting.pattern
        if pattern.own:  # it is searched within a time limit
            return None
        search = compiled(pattern.regex).search
        match = search(event.text)
        if match and (waiting.marker or not _ALWAYS_READ.isdisjoint((*match.groupdict(), *pattern.set))):
            return None
        facts = match.groupdict() if match else ()
        extremes = [name for name in facts if name in names and names[name].merge in {"max", "min"}]
        tests.append(Test(search, match is not None, extremes))
    return Plan(start, tests, then)
