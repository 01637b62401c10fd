"""Count repeated messages; only the first and last few of each template are read in full.

Two messages have the same template if they differ only in numbers and long ids.
Skipped: a message whose template was seen before, matches the same patterns and has no fact beyond its earlier range.
Safe, because such a message changes only the count of hits, and the report keeps FIRST and LAST lines of each. The
patterns are still searched in every message with other numbers, and the collector of failures (`failures/`) sees
each that may be one. During a start no message with a match is kept back, because its meaning depends on the phase.
Gain: a million equal errors cost a search each instead of a full read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from vllm_doctor.events.event import Event
from vllm_doctor.facts.store import FactName, FactStore
from vllm_doctor.fastpath.line_scanner import LineTemplate
from vllm_doctor.fastpath.repeated_tracebacks import Traceback
from vllm_doctor.fastpath.retained_lines import FIRST, RetainedLine, RetainedLines
from vllm_doctor.logs.encoding import one_digit
from vllm_doctor.logs.wrappers.byte_patterns import MessageWrapper
from vllm_doctor.matching.matcher import Matcher, compiled

_LONG = 512  # a longer line is read in full
_RECORD_END = b"] "  # of the prefix of a record
_PREFIX = 120  # bytes that contain the prefixes
_MAX_PLANS = 4096  # templates with a plan
_MAX_LINE_KEYS = 1 << 14  # texts whose template is known
_MAX_WITHOUT_PLAN = 4096  # templates without a plan
_WORTH_A_PLAN = 3  # lines of a template: most templates never reach it
_ALWAYS_READ = {"vllm_version", "running_requests"}  # facts with effects beyond themselves
_SETTINGS = ("args: ", "with config: ")


class Check(NamedTuple):
    """A pattern that may match the messages of a template, and whether it does.

    `extremes` are those of its facts that keep their largest or smallest value.
    """

    search: Callable[[str], re.Match[str] | None]
    is_match: bool
    extremes: Sequence[str]


Effect = Callable[[int, str, str], None]


class Plan(NamedTuple):
    """How the messages of a template are counted.

    `start` is the length of the text before the message. `effect` is called with the number of each line, its text
    between the wrapper and the message, and the message; `has_match`: some pattern matches. `frames` are the calls of
    the traceback that such a line ends, and `refusal` says whether a handler rejects a request with it. `hide` returns
    the message without a client's text.
    """

    start: int
    checks: Sequence[Check]
    effect: Effect | None
    has_match: bool
    frames: str = ""
    refusal: bool = False
    hide: Callable[[str], str] | None = None

    def split(self, raw: bytes, wrapper: MessageWrapper) -> tuple[str, str]:
        """Return the text of a line between its wrapper and its message, and the message."""
        text = printed(raw, wrapper)
        message = text[self.start:]
        return text[wrapper.size:self.start], self.hide(message) if self.hide else message


def printed(raw: bytes, wrapper: MessageWrapper) -> str:
    """Return a line without the end of its wrapper."""
    return raw[:len(raw) - wrapper.rest].decode().rstrip()


class _RepeatedLines(RetainedLines):
    """The lines of one template that match its plan; `latest_line` was the last."""

    __slots__ = ("latest_line", "plan")

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
        self.latest_line = b""


_LineKey = tuple[bytes, bytes, bytes, bytes]  # a line's source and process, its template's text, the calls before it


class RepeatedMessages:
    """The repeated messages of one run, alone or at the end of a traceback.

    `make_plan` returns the plan for such a line, None if all of its kind must be read in full.
    """

    def __init__(self, make_plan: Callable[[bytes, MessageWrapper, Traceback | None], Plan | None],
                 facts: FactStore) -> None:
        self.retained_count = 0  # lines so far
        self._make_plan = make_plan
        self._facts = facts
        self._by_template: dict[bytes, _RepeatedLines | None] = {}  # None: its lines must be read in full
        self._by_line_key: dict[_LineKey, _RepeatedLines | None] = {}
        self._by_latest_line: dict[bytes, _RepeatedLines] = {}  # by the last line of each template
        self._counts_without_plan: dict[bytes, int] = {}  # how many lines had a template without a plan

    def try_shortcut(self, raw: bytes, number: int, template: LineTemplate, *, serves: bool,
                     traceback: Traceback | None = None) -> bool:
        """Count a line or keep it back; return False if it must be read in full now.

        `template` is the scanner's template of the line; `traceback` precedes the line. While the server starts, the
        meaning of a line depends on the phase: then none is kept back.
        """
        repeated = None if traceback else self._by_latest_line.get(raw)
        if repeated is None and (repeated := self._as_planned(raw, template, traceback)) is None:
            return False
        plan = repeated.plan
        if plan.has_match:
            repeated.lines += 1
            if repeated.lines <= FIRST or not serves:
                return False
            wrapper = template.wrapper
            repeated.keep(number, raw, slice(wrapper.size, len(raw) - wrapper.rest), wrapper.source)
            self.retained_count += 1
        if plan.effect:
            before, message = plan.split(raw, template.wrapper)
            plan.effect(number, before, message)
        return True

    def _as_planned(self, raw: bytes, template: LineTemplate, traceback: Traceback | None) -> _RepeatedLines | None:
        """Return the template of a line if the same patterns match and no fact exceeds its earlier values."""
        if len(raw) > _LONG:
            return None
        wrapper = template.wrapper  # a process's digits contain its rank
        line_key = raw[wrapper.source], raw[wrapper.process], template.text, traceback.calls if traceback else b""
        if line_key in self._by_line_key:
            repeated = self._by_line_key[line_key]
        else:
            repeated = self._find_repeated(line_key, wrapper, raw, traceback)
        if repeated is None:
            return None
        _, message = repeated.plan.split(raw, wrapper)
        for search, is_match, extremes in repeated.plan.checks:
            match = search(message)
            if (match is not None) is not is_match:
                return None
            if match is not None and any(self._facts.exceeds(name, match[name]) for name in extremes):
                return None
        if not traceback:
            self._by_latest_line.pop(repeated.latest_line, None)
            self._by_latest_line[raw], repeated.latest_line = repeated, raw
        return repeated

    def _find_repeated(self, line_key: _LineKey, wrapper: MessageWrapper, raw: bytes,
                       traceback: Traceback | None) -> _RepeatedLines | None:
        """Return the template of a line, once enough lines had it."""
        source, process, text, calls = line_key
        start, message = _template_key(text, wrapper.process.stop)
        key = b"\0".join((source, process, calls, message))
        if key not in self._by_template and not self._is_planned(key, raw, wrapper, traceback):
            return None
        repeated = self._by_template[key]
        if repeated and start and start != repeated.plan.start:
            repeated = None
        if len(self._by_line_key) >= _MAX_LINE_KEYS:
            self._by_line_key.clear()
        self._by_line_key[line_key] = repeated
        return repeated

    def _is_planned(self, key: bytes, raw: bytes, wrapper: MessageWrapper, traceback: Traceback | None) -> bool:
        """Plan how lines of a template are counted, if there were enough of them."""
        times = self._counts_without_plan.pop(key, 0) + 1
        if times < _WORTH_A_PLAN:
            if len(self._counts_without_plan) >= _MAX_WITHOUT_PLAN:
                self._counts_without_plan.clear()
            self._counts_without_plan[key] = times
            return False
        if len(self._by_template) >= _MAX_PLANS:
            return False
        plan = self._make_plan(raw, wrapper, traceback)
        self._by_template[key] = _RepeatedLines(plan) if plan else None
        return True

    def rest(self) -> list[RetainedLine]:
        """Return the lines kept back, each only once."""
        return [kept._replace(frames=repeated.plan.frames, refusal=repeated.plan.refusal)
                for repeated in self._by_template.values() if repeated for kept in repeated.rest()]


def _template_key(text: bytes, wrapper: int) -> tuple[int, bytes]:
    """Return where the message of a line begins (0: not known) and the key of its template."""
    start = text.find(_RECORD_END, wrapper, wrapper + _PREFIX) + len(_RECORD_END)
    if start < len(_RECORD_END) or text.startswith(b"(", start):  # another process's prefix may follow
        return 0, text
    return start, text[:start] + one_digit(text[start:], b"0")


def plan(text: str, event: Event, matcher: Matcher, names: Mapping[str, FactName],
         effect: Effect | None, *, hide: Callable[[str], str] | None = None) -> Plan | None:
    """Return the plan for lines like this `printed` one, given its event; None if each must be read in full."""
    start = text.find(_RECORD_END.decode()) + len(_RECORD_END) if hide else len(text) - len(event.text)
    known = (event.level or event.frames) and event.text == (hide(text[start:]) if hide else text[start:])
    if not known or any(word in text for word in ("&#", *_SETTINGS)) or (text[0] == "{" and "\\" in text):
        return None  # in JSON the message may be escaped
    checks: dict[str, Check] = {}  # by expression: several rules may have the same
    try:
        possible = matcher.possible_patterns(event)
    except TimeoutError:
        return None
    for ref in possible:
        pattern = ref.pattern
        if pattern.own:  # not checked for searches that take long
            return None
        search: Any = compiled(pattern.regex).search
        match = search(event.text)
        if match and (ref.marker or not _ALWAYS_READ.isdisjoint((*match.groupdict(), *pattern.set))):
            return None
        facts = match.groupdict() if match else ()
        extremes = [name for name in facts if name in names and names[name].merge in {"max", "min"}]
        checks[pattern.regex] = Check(search, match is not None, extremes)
    return Plan(start, [*checks.values()], effect, any(check.is_match for check in checks.values()), event.frames,
                event.refusal, hide)
