"""Collects what may be the failure while a log is read. Memory does not grow with the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from vllm_doctor.events.event import QUIET_LEVELS, Event
from vllm_doctor.events.exception_messages import is_indented_exception
from vllm_doctor.events.notebook_tracebacks import class_at_head
from vllm_doctor.events.process_stream import MOST_PROCESSES
from vllm_doctor.events.reader import CHAIN
from vllm_doctor.failures import crash_stacks, embedded_calls, error_lines, exception_lines, frames
from vllm_doctor.failures.model import MAX_MESSAGE, Candidate, Frame
from vllm_doctor.failures.signature import content_words
from vllm_doctor.logs.progress_bars import is_bar
from vllm_doctor.text.omissions import is_omission
from vllm_doctor.text.patterns import lazy_pattern
from vllm_doctor.text.traceback_head import TRACEBACK

_REPORTED = lazy_pattern(r"while processing method \w{1,60}: (?P<message>[^\n]{3,4000}), Traceback \(most recent")
"""How V0's worker processes print an exception: its message, without its class, before the traceback."""
_NEXT_RECORD = lazy_pattern(r" {4,200}(?:ERROR|CRITICAL) [^\n]{0,100}$", cues=("ERROR ", "CRITICAL "))
_PROBE = " probe failed: "  # a kubelet quotes behind it what its own client raises
_MOST = 24  # candidates kept from the beginning, and as many from the end
_MOST_FRAMES = 80
_MOST_SHAPES = 1024
_BELOW_SOURCE = 2  # lines from the source of a call to the exception: the marks under it
_REACH = 20  # lines within which a message goes on
_IGNORED_REACH = 3  # lines from "Exception ignored in" to its traceback
_STALE = 200  # lines behind which an open traceback is given up
_TAIL = 40  # lines that may be the words of an error
_SENTENCE_LINES = 6  # such words at most
_SHAPE_WORDS = 12  # of a message, by which it is known to repeat
_ZEROS = str.maketrans("123456789", "000000000")


@dataclass(slots=True)
class _Open:
    """What one process is printing: the calls of a traceback, or the message of an exception."""

    frames: list[Frame] = field(default_factory=list)
    last_call: int = -_REACH  # the line of the last call
    last_line: int = -_REACH  # the last line of a candidate
    begin: int = 0  # the line with which the traceback began
    level: str = ""
    candidate: Candidate | None = None  # whose message may go on
    is_long: bool = False
    lines: int = 0
    last_text: str = ""  # its last line, as the event had it
    record: Candidate | None = None  # what was read last, if it is one
    heading: Candidate | None = None  # the record right before the traceback
    reported_message: str = ""  # the message that the line with which the traceback began has
    named: str | None = None  # the class of the exception, in the first line of the traceback, as IPython prints it
    state: tuple[str, bool, int] = ("", False, 0)  # phase, served and advances at that line
    group: int = 0
    chained: bool = False
    ignored: bool = False  # Python says that it ignores the exception that follows
    ignored_line: int = 0
    crash: crash_stacks.CrashStack | None = None  # below the message of a crash

    @property
    def holds_failure(self) -> bool:
        """Return whether calls or a message were read that are in no candidate yet."""
        return bool(self.frames) or self.candidate is not None


class RepeatedCalls(NamedTuple):
    """The calls of a traceback that is printed again and again; `last_line` counts from its first line."""

    frames: tuple[Frame, ...]
    last_line: int

    @classmethod
    def of(cls, events: Sequence[Event]) -> RepeatedCalls:
        """Return the calls, given the events of all lines before the exception."""
        collector = FailureCollector()
        for event in events:
            collector.see(event, "", served=False, advances=0)
        return collector.calls_of(events[0])


class FailureCollector:
    """What may be the failure of one start of the server, as its events come."""

    def __init__(self) -> None:
        self._first: list[Candidate] = []
        self._last: deque[Candidate] = deque(maxlen=_MOST)
        self._open: dict[tuple[str, str], _Open] = {}  # by source and process
        self._shapes: set[tuple[object, ...]] = set()
        self._groups = 0
        self._plain: deque[tuple[Candidate, str]] = deque(maxlen=_TAIL)  # the last lines that are nothing else
        self.exit_status: int | None = None  # of the command, where `run` knows it
        self.records = 0  # lines that vLLM's logger wrote
        self._sources: set[str] = set()  # of such lines

    def see(self, event: Event, phase: str, *, served: bool, advances: int, may_quote_client: bool = False) -> None:
        """Read one event; one that may be a client's words (`may_quote_client`) does not tell how a process ended."""
        self.records += bool(event.level)
        if event.releases and event.source and len(self._sources) < MOST_PROCESSES:
            self._sources.add(event.source)
        text = event.text
        stream = self._stream(event)
        if stream.candidate is not None and self._continue_message(stream, event):
            return
        state = (phase, served, advances)
        if TRACEBACK in text and not event.frames:
            before = _NEXT_RECORD.sub("", text.partition(TRACEBACK)[0])
            named = exception_lines.class_by_wording(before)
            if named is not None:  # a paste joined the line of an exception to the next record
                self._begin(stream, event, "exception", named, before, state)
            self._open_traceback(stream, event)
            stream.state, stream.named = state, class_at_head(text)
            return
        if event.line - stream.last_call > _STALE:
            stream.frames = []
        found = frames.call(text)
        if found is not None and not event.frames:
            self._call(stream, event, found)
            raised = exception_lines.after_call(text)
            if raised is not None:
                self._begin(stream, event, "traceback", raised.name, raised.message, state, tuple(stream.frames),
                            module=raised.module)
            return
        if text.startswith(CHAIN):
            self._chain(stream, "cause" if text.startswith(CHAIN[0]) else "handling")
            return
        if text.startswith("Exception ignored in"):
            stream.ignored, stream.ignored_line = True, event.line
            return
        if stream.frames and stream.last_call and (is_bar(text) or self._is_source(stream, event)):
            return
        if not error_lines.is_cut_prefix(text):
            self._judge(stream, event, state, may_quote_client=may_quote_client)

    def calls_of(self, head: Event) -> RepeatedCalls:
        """Return the calls of the open traceback of a process, given its first line."""
        stream = self._stream(head)
        return RepeatedCalls(tuple(stream.frames), stream.last_call - head.line)

    def repeat_calls(self, head: Event, calls: RepeatedCalls) -> None:
        """Read the calls of a traceback again; its first line was just read."""
        stream = self._stream(head)
        stream.frames, stream.last_call = list(calls.frames), head.line + calls.last_line

    def is_source(self, name: str) -> bool:
        """Return whether the wrappers of lines that vLLM's logger wrote have a name, such as a container's."""
        return any(name in source.split(" / ") for source in self._sources)

    def may_continue(self, number: int) -> bool:
        """Return whether the line of that number may belong to what was read last."""
        return any(number - max(stream.last_call, stream.last_line) <= _REACH for stream in self._open.values()
                   if stream.holds_failure)

    def end_message(self, source: str, process: str) -> None:
        """End the message of a process: it printed a record of level INFO that reports no failure."""
        stream = self._open.get((source, process))
        if stream is not None:
            self._close(stream)
            stream.frames = []

    def candidates(self) -> Iterator[Candidate]:
        """Return the candidates for the failure, in the order of the log."""
        waiting = [stream.candidate for stream in self._open.values() if stream.candidate is not None]
        cut = [candidate for (_, process), stream in self._open.items() if (candidate := self._cut(process, stream))]
        yield from sorted((*self._first, *self._last, *waiting, *cut), key=lambda one: one.line)

    def sentences(self) -> list[Candidate]:
        """Return the last lines that read like error messages, for a log that shows nothing else."""
        lines = list(self._plain)
        found = []
        for place, (candidate, text) in enumerate(lines):
            if (code := error_lines.marked_code(text)) is not None:
                name, message = exception_lines.raised_by_code(code)
                found += [candidate._replace(exception=name, message=message)] if name is not None else []
                continue
            if not error_lines.is_error_sentence(text):
                continue
            message, last = text.strip(), candidate.line
            for other, more in lines[place + 1:place + 1 + _SENTENCE_LINES]:
                if other.line != last + 1 or error_lines.ends_message(more):
                    break
                message, last = f"{message}\n{more}", other.line
            found.append(candidate._replace(message=message[:MAX_MESSAGE], last_line=last))
        return found

    def _stream(self, event: Event) -> _Open:
        key = event.source, event.process
        stream = self._open.get(key)
        if stream is None:
            if len(self._open) >= MOST_PROCESSES:
                closed = (other for other, known in self._open.items() if not known.holds_failure)
                self._close(self._open.pop(next(closed, next(iter(self._open)))))
            stream = self._open[key] = _Open()
        return stream

    def _open_traceback(self, stream: _Open, event: Event) -> None:
        self._close(stream)
        record = stream.record
        stream.heading = record if record is not None and record.last_line == event.line - 1 else None
        if not stream.chained:
            self._groups += 1
            stream.group = self._groups
        stream.chained = False
        stream.frames, stream.begin, stream.level, stream.last_call = [], event.line, event.level, event.line
        reported = _REPORTED.search(event.text)
        stream.reported_message = reported["message"] if reported else ""

    def _call(self, stream: _Open, event: Event, found: Frame) -> None:
        self._close(stream)
        if not stream.frames and (not stream.begin or event.line - stream.begin > 1):
            stream.begin, stream.level = event.line, event.level
            if not stream.group or not stream.chained:
                self._groups += 1
                stream.group = self._groups
        stream.frames.append(found)
        if len(stream.frames) > _MOST_FRAMES:
            del stream.frames[_MOST_FRAMES // 2]
        stream.last_call = event.line

    def _chain(self, stream: _Open, how: str) -> None:
        """Note that the next traceback follows from the exception before."""
        self._close(stream)
        stream.chained = True
        group = stream.group
        if not group:
            return
        for kept in (self._first, self._last):
            for place, candidate in enumerate(kept):
                if candidate.group == group and not candidate.chain:
                    kept[place] = candidate._replace(chain=how)

    @staticmethod
    def _is_source(stream: _Open, event: Event) -> bool:
        """Return whether a line is the source of the last call, or marks a part of it."""
        text = event.text
        if not event.is_code and text[:1] not in " \t":
            return FailureCollector._is_flat_source(stream, event)
        if text[:1] not in " \t" and exception_lines.ending_traceback(text) is not None:
            return False
        last = stream.frames[-1]
        if last.code and not event.is_code and is_indented_exception(text):
            return False
        if not last.code and text.strip(" ^~|") and exception_lines.ending_traceback(text.strip()) is None:
            stream.frames[-1] = last._replace(code=text.strip()[:300])
            return True
        if text.lstrip().startswith("assert "):  # of a paste that shows several lines of the function
            stream.frames[-1] = last._replace(code=text.strip()[:300])
        return event.is_code or text[:1] in " \t"

    @staticmethod
    def _is_flat_source(stream: _Open, event: Event) -> bool:
        """Return whether a line is the source of the last call in a paste without indentation; if so, keep it."""
        text, last = event.text.strip(), stream.frames[-1]
        if text and not text.strip("^~") and event.line - stream.last_call <= 2:
            return True  # marks a part of the source line
        if (event.line - stream.last_call != 1 or last.code or not text
                or (event.level and event.level != stream.level)
                or exception_lines.ending_traceback(text) is not None or exception_lines.on_own_line(text) is not None
                or error_lines.ends_message(text) or error_lines.level_of(text, "")):
            return False
        stream.frames[-1] = last._replace(code=text[:300])
        return True

    def _judge(self, stream: _Open, event: Event, state: tuple[str, bool, int], *, may_quote_client: bool) -> None:
        """Check whether a line outside the calls of a traceback reports a failure."""
        text = event.text
        level = error_lines.level_of(text, event.level)
        calls = tuple(stream.frames)
        raised, shape = self._raised(stream, event)
        if raised is not None:
            handled = (stream.level if shape == "traceback" else level) in QUIET_LEVELS
            if handled and not raised.quoted:
                stream.frames, stream.ignored = [], False
                return
            if raised.quoted:
                shape = self._quoted_shape(raised, level)
            self._begin(stream, event, shape, raised.name, raised.message, state, calls, raised.introduction,
                        "WARNING" if handled else level, raised.module)
            return
        if text.strip() and not event.is_code and not event.frames:  # a blank line may stand between calls
            stream.frames = []
            if stream.ignored and (is_omission(text) or event.line - stream.ignored_line > _IGNORED_REACH):
                stream.ignored = False
        rejection = None if may_quote_client else error_lines.argument_parser_error(text)
        if rejection is not None:
            self._begin(stream, event, "fatal", None, rejection.text, state, introduction=rejection.program)
            return
        answer = error_lines.http_answer(text)
        if answer is not None:
            self._begin(stream, event, "http", None, answer, state)
            return
        if event.is_code:
            return
        found = None if may_quote_client else error_lines.process_death(text, logged=bool(event.level))
        if found is not None and level not in QUIET_LEVELS:
            self._begin(stream, event, "fatal", error_lines.cpp_exception_class(found), found, state, level=level)
        elif level in {"ERROR", "CRITICAL", "FATAL"}:
            # A blank row says nothing, and stands between the exceptions of a chain.
            if text.strip() and not (error_lines.is_source_line(text) or error_lines.is_cut_prefix(text)):
                self._begin(stream, event, "record", None, error_lines.record_message(text), state, level=level)
        elif not level:
            text = error_lines.without_quote_mark(text[:MAX_MESSAGE])
            self._plain.append((self._candidate(event, "sentence", None, "", state), text))

    def _raised(self, stream: _Open, event: Event) -> tuple[exception_lines.Raised | None, str]:
        """Return the exception in a line, and whether it ends a traceback or is an exception on its own."""
        text = event.text
        if _PROBE in text:
            return None, ""
        is_part = event.frames or event.is_code or not event.level or event.level == stream.level
        if (stream.frames and is_part) or (event.frames and not event.context):
            raised = exception_lines.ending_traceback(text.strip())
            if raised is not None:
                code = stream.frames[-1].code if stream.frames else ""
                return exception_lines.with_full_class(raised, code), "traceback"
        raised = exception_lines.on_own_line(text)
        shape = "traceback" if raised and stream.frames and not raised.introduction else "exception"
        if raised is None and any(word in text for word in exception_lines.REPR_WORDS):
            raised = exception_lines.from_repr(error_lines.record_message(text)) or exception_lines.in_sentence(text)
        if raised is not None and raised.name == "AssertionError" and not (raised.message or stream.frames):
            raised = raised._replace(message=self._assertion_before(stream, event))
        return raised, shape

    def _assertion_before(self, stream: _Open, event: Event) -> str:
        """Return the source line of an assertion if it stands right before, and the log has no calls.

        Between the two may be the marks under the source line.
        """
        candidate, text = self._plain[-1] if self._plain else (None, "")
        if candidate is not None and candidate.line == event.line - 1:
            return exception_lines.assertion_in_code(text)
        record = stream.record
        is_near = record is not None and event.line - record.line <= _BELOW_SOURCE
        return exception_lines.assertion_in_code(record.message.partition("\n")[0]) if record and is_near else ""

    @staticmethod
    def _quoted_shape(raised: exception_lines.Raised, level: str) -> str:
        """Return the shape of an exception that a line shows as repr() prints it: V0's engine logs nothing else."""
        if not raised.introduction and level == "ERROR":
            return "repr"
        return "exception" if raised.introduction.endswith("exception=") else "quoted"

    def _begin(self, stream: _Open, event: Event, shape: str, exception: str | None, message: str,  # noqa: PLR0917
               state: tuple[str, bool, int], calls: tuple[Frame, ...] = (), introduction: str = "", level: str = "",
               module: str = "") -> None:
        self._close(stream)
        if shape == "traceback" and not stream.group:
            self._groups += 1
            stream.group = self._groups
        candidate = self._candidate(event, shape, exception, message, state)._replace(
            frames=calls, introduction=introduction, module=module, level=level or event.level,
            group=stream.group if calls else 0, ignored=stream.ignored,
            begin=stream.begin if calls and stream.begin else event.line)
        candidate = embedded_calls.with_escaped_calls(candidate)
        stream.last_text, stream.last_line = event.text, event.line
        stream.record = candidate if shape in {"record", "repr"} else None
        stream.candidate, stream.lines, stream.is_long = candidate, 1, error_lines.may_be_long(message) or (
            exception is not None and not message)
        stream.frames, stream.begin, stream.ignored = [], 0, False
        stream.chained = False
        stream.crash = crash_stacks.CrashStack() if crash_stacks.is_crash(candidate) else None

    @staticmethod
    def _candidate(event: Event, shape: str, exception: str | None, message: str,
              state: tuple[str, bool, int]) -> Candidate:
        phase, served, advances = state
        return Candidate(event.line, event.line, shape, exception, message[:MAX_MESSAGE], level=event.level,
                         process=event.process, phase=phase, served=served, advances=advances,
                         is_logged=bool(event.level))

    def _continue_message(self, stream: _Open, event: Event) -> bool:
        """Return whether an event continues the open message; if so, add it to the message."""
        candidate = stream.candidate
        if candidate is None:
            return False
        text = event.text
        gap = event.line - candidate.last_line
        stream.last_line = event.line
        called = (embedded_calls.extended(candidate, text, event.line) if stream.crash is None
                  else crash_stacks.extended(candidate, stream.crash, text))
        if called is not None:
            stream.candidate = called
            return True
        if gap == 1 and stream.last_text and text.startswith(f"{stream.last_text} "):  # a row that was rejoined
            rest = text[len(stream.last_text) + 1:]
            stream.lines, stream.last_text = stream.lines + 1, text
            message = f"{candidate.message} {rest}"[:MAX_MESSAGE]
            stream.candidate = candidate._replace(message=message, last_line=event.line)
            return True
        most = error_lines.MOST_LONG_LINES if stream.is_long else error_lines.MOST_LINES
        is_part = (
            (candidate.shape not in {"http", "fatal", "quoted"}
             or (candidate.shape == "fatal" and error_lines.continues_message(candidate.message, text)))
            and stream.lines < most
            and gap <= _REACH
            and (gap == 1 or (stream.is_long and gap <= 3) or bool(candidate.process))
            and (candidate.shape != "record" or event.level == candidate.level
                 or (not event.level and not event.process))
            and event.level not in QUIET_LEVELS
            and not (event.level and event.level != candidate.level and candidate.shape != "traceback")
            and not error_lines.ends_message(text)
            and text.strip() != candidate.message.strip()  # V0's engine prints a worker's message again
            and not (frames.call(text) and not stream.is_long)
            and error_lines.http_answer(text) is None
            and (text[:1] in " \t" or candidate.message.endswith(" raised:") or not self._is_another(text))
            and (candidate.shape != "record" or text[:1] in " \t")
            and error_lines.level_of(text, event.level) in ("", candidate.level)
        )
        if not is_part:
            self._close(stream)
            return False
        stream.lines, stream.last_text = stream.lines + 1, text
        joined = f"{candidate.message}\n{text}" if candidate.message else text
        stream.candidate = candidate._replace(message=joined[:MAX_MESSAGE], last_line=event.line)
        return True

    @staticmethod
    def _is_another(text: str) -> bool:
        raised = exception_lines.on_own_line(text)
        return raised is not None and not raised.introduction

    def _close(self, stream: _Open) -> None:
        """Keep the exception whose message is over."""
        candidate, stream.candidate = stream.candidate, None
        if candidate is None:
            return
        place = candidate.frames[-1].path if candidate.frames else ""
        key = (candidate.shape, candidate.exception, place, candidate.served, candidate.advances,
               *_words_of(candidate.message.translate(_ZEROS)))
        if key in self._shapes:
            return
        if len(self._shapes) < _MOST_SHAPES:
            self._shapes.add(key)
        if len(self._first) < _MOST:
            self._first.append(candidate)
        else:
            self._last.append(candidate)

    @staticmethod
    def _cut(process: str, stream: _Open) -> Candidate | None:
        """Return a traceback whose exception the log does not show."""
        if not stream.frames or stream.level in QUIET_LEVELS or stream.ignored:
            return None
        exception, message = exception_lines.raised_by_code(stream.frames[-1].code)
        heading = stream.heading
        if exception is None and heading is not None and (
                named := heading.exception or exception_lines.class_by_wording(heading.message)) is not None:
            exception, message = named, heading.message  # an engine of V0 logs the exception before its traceback
        if exception is None and stream.named is not None:
            exception, message = stream.named, ""
        shape = "repr" if heading is not None and heading.shape == "repr" else "cut"
        begin = stream.begin or stream.last_call
        candidate = Candidate(begin, stream.last_call, shape, exception, message, tuple(stream.frames), stream.level,
                              process, group=stream.group, begin=begin)
        if not stream.reported_message or exception is not None:
            return candidate
        phase, served, advances = stream.state
        return candidate._replace(frames=(), message=stream.reported_message[:MAX_MESSAGE], phase=phase, served=served,
                                  advances=advances)


@lru_cache(maxsize=256)
def _words_of(message: str) -> list[str]:
    """Return the first content words of a message; which digits it has does not matter to them."""
    return content_words(message)[:_SHAPE_WORDS]
