"""Line -> Event: the process and its record, the tracebacks, and the server start of a line.

Every line of a multi-line message carries the prefix (NewLineFormatter), so the lines of interleaved ranks can be
separated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from vllm_doctor.events.code_paths import frame
from vllm_doctor.events.environment_reads import variable_read
from vllm_doctor.events.event import LEVELS, Event
from vllm_doctor.events.exception_messages import (
    begins_message,
    continues_sentence,
    is_exception,
    is_indented_exception,
)
from vllm_doctor.events.notebook_tracebacks import class_at_head
from vllm_doctor.events.process_prefix import PROCESS, ProcessNames, releases_of
from vllm_doctor.events.process_stream import MOST_PROCESSES, ProcessStream
from vllm_doctor.events.record_prefix import info_record, split_record
from vllm_doctor.events.rich_tracebacks import begins_box
from vllm_doctor.events.server_starts import WORDS as RUN_WORDS
from vllm_doctor.events.server_starts import RunCounter, concerns_run, ends_run, process_name, stage_of
from vllm_doctor.events.single_line_tracebacks import JoinedTraceback, parse_joined_traceback
from vllm_doctor.logs.line_prefix import BARE
from vllm_doctor.logs.lines import Line
from vllm_doctor.logs.progress_bars import is_bar
from vllm_doctor.text.omissions import is_omission
from vllm_doctor.text.patterns import lazy_pattern
from vllm_doctor.text.traceback_head import TRACEBACK, TRACEBACK_WORDS

_OF_PATH_FILE = lazy_pattern(r"(?:<frozen site>|\bsite\.py):addpackage\b")
"""Python reports a broken line of a .pth file in each process that starts, and goes on."""
_LEVEL_WORD = lazy_pattern(rf"(?P<level>{LEVELS})\b[: ]")
_MARKED = lazy_pattern(
    r"\s*(?:[-*>] )?(?P<mark>`{1,3}|\*{2,3})(?P<slant>_?)(?=[A-Za-z])(?P<text>.*)(?P=slant)(?P=mark)\s*$")
"""A message that a page shows as code or bold, with the marks for it."""
_MARKS = ("`", "*", "-", ">")
_FRAME = lazy_pattern(  # Jinja calls the body of a template "top-level template code"
    r'\s*(?:\| +)*(?:(?:File "|(?=[^"\s]+\.py", line ))(?P<path>[^"]+)", line (?:\d+|\.{3}), '
    r"in (?P<function>\S+|top-level template code)"
    r"|(?P<short_path>[\w./-]{1,300}\.py):\d{1,9},? in (?P<short_function>\w{1,200}))\s*$",  # as people shorten it
)
_CUT_FRAME = lazy_pattern(r' {2,8}File "(?!<)[^"]{1,400}"(?:, line \d{0,9},?)?\s*$')
_GROUP_ROW = lazy_pattern(r"\s{0,16}(?:(?:\| ?)+|\+ (?=Exception Group ))")
"""What Python prints before each row of an exception group."""
_RAY_FRAME = lazy_pattern(r"\s*ray::\S+\(\)?", cues=("ray::",))
CHAIN = ("The above exception was the direct cause", "During handling of the above exception")
"""The sentences between the chained tracebacks of one failure."""
START_WORDS = (TRACEBACK_WORDS, "Error:", "Exception:", *RUN_WORDS)
"""Literals; a line without any of them neither begins nor ends a server start, nor the traceback that ends one."""
WORDS = (TRACEBACK_WORDS, 'File "', "Error: ", "Exception: ", " validation error", *RUN_WORDS)
"""Literals; a line without any of them opens no traceback and neither begins nor ends a server start."""
MAX_FRAMES = 200
_MAX_CONTEXT = 4096
_REACH = 200  # lines within which an open traceback or message of a process continues


class StartNote(NamedTuple):
    """How lines that differ only in digits affect the server starts and tracebacks.

    `stage` and `ends_run` are passed to a RunCounter, with the name of the process and the level. `crash` is set for
    lines without a record prefix: such a line `opens` a traceback, `ends` one with its exception, or is a `whole` one;
    `source` is that of the line.
    """

    name: str
    level: str
    stage: str
    ends_run: bool
    crash: str
    source: str


class EventReader:
    """The conversion of lines to events; keeps only the open traceback of each process."""

    def __init__(self, is_request: Callable[[str], bool] = lambda _: False) -> None:
        """Create a reader; `is_request` returns whether the calls of a traceback handle a client's request."""
        self._is_request = is_request
        self._streams: dict[str, ProcessStream] = {}
        self._open: dict[str, int] = {}  # the last line of each process with an open traceback or message
        self._closes = 0  # after this line the first of them is no longer open
        self._processes = ProcessNames()
        self._runs = RunCounter()

    def unfinished(self) -> Iterator[Event]:
        """Yield an event for each traceback that has not ended: its last line, its calls and the last source line."""
        for stream in self._streams.values():
            if stream.inside and stream.frames:
                yield Event(stream.last, stream.code, stream.level, run=self.run, frames="\n".join(stream.frames),
                            is_code=True, refusal=stream.is_clients)

    @property
    def run(self) -> int:
        """Return the number of the current server start."""
        return self._runs.run

    def begin_run(self) -> int:
        """Begin another server start whatever its messages say; return its number. No message goes on in it."""
        self._streams.clear()
        self._open.clear()
        self._processes.forget()
        return self._runs.begin()

    def expects_any_continuation(self, number: int) -> bool:
        """Return whether line `number` may continue a message that some process began."""
        if self._open and number > self._closes:
            self._open = {key: last for key, last in self._open.items() if number - last <= _REACH}
            self._closes = min(self._open.values(), default=0) + _REACH
        return bool(self._open)

    def expects_continuation(self, key: str) -> bool:
        """Return whether the next line of a process may continue a message."""
        return key in self._open

    def is_open(self, number: int) -> bool:
        """Return whether the line before line `number` left a traceback or message open."""
        return bool(self._open) and number - 1 in self._open.values()

    def key(self, line: Line) -> str:
        """Return the key of the process that prints a line."""
        return f"{line.source}\0{self._processes.split(line.text, line.source).process}"

    def end_message(self, number: int, key: str) -> None:
        """End the exception message or empty traceback of a process that a healthy line follows directly."""
        stream = self._streams.get(key)
        if stream is not None and self._open.get(key) == number - 1 and not (stream.inside and stream.frames):
            stream.inside, stream.detail = False, 0
            self._open.pop(key)

    def skip_record(self, number: int, line: bytes) -> bool:
        """Record that a log record was printed (see `info_record`); return False if it may belong to a traceback."""
        record = info_record(line)
        if record is None:
            return False
        key = b"\0".join((record["source"] or b"", record["process"] or b"")).decode()
        stream = self._streams.get(key)
        if stream is not None:
            if stream.inside and stream.level == "INFO":
                return False
            stream.record_other_message()
            self._update_open(key, stream, number)
        return True

    def read(self, line: Line) -> Event | None:
        """Return the event of one line; None for a blank line."""
        text = line.text
        if not text or text.isspace():
            key = line.source + "\0"
            self._stream(key).detail = 0  # a blank line ends the message of an exception without a traceback
            self._open.pop(key, None)
            return None
        process, event, logged = self._split(line)
        key = f"{line.source}\0{process}"
        stream = self._stream(key)
        if line.number - stream.last > _REACH:
            stream.inside, stream.detail = False, 0
        row = stream.row(event.text)
        if row is not None:
            event = event._replace(text=row)
        is_clients = line.refusal or self._quotes_client(stream, event.level)
        if stream.inside and "Traceback (" in event.text and not is_clients:  # quoted by a request's exception
            is_quoted = not event.text.lstrip(" |+").startswith(TRACEBACK)
            is_clients = is_quoted and self._is_request("\n".join(stream.frames))
        placed = _as_code(event) if row == "" else self._in_context(stream, event, logged=logged)
        is_quoted = TRACEBACK in event.text and not event.text.startswith(TRACEBACK)
        if line.handler and (is_quoted or not (placed.frames or placed.is_code)):  # else its calls decide
            placed = placed._replace(refusal=True)
        if is_clients and placed.frames:
            placed = placed._replace(refusal=True)
        if stream.inside and TRACEBACK in event.text:
            stream.is_clients = is_clients
        elif stream.is_clients and placed.frames:
            placed = placed._replace(refusal=True)
        is_clients = is_clients or placed.refusal or bool(placed.frames and self._is_request(placed.frames))
        run = self._runs.run if is_clients else self._count_run(event)
        event = placed._replace(run=run) if run != placed.run else placed
        self._update_open(key, stream, line.number)
        return event

    def quotes_client(self, line: Line) -> bool:
        """Return whether a line continues the message of a request's exception, which may contain a client's text."""
        process, event, _ = self._split(line)
        stream = self._streams.get(f"{line.source}\0{process}")
        return stream is not None and self._quotes_client(stream, event.level)

    def _quotes_client(self, stream: ProcessStream, level: str) -> bool:
        frames = stream.last_frames
        return bool(stream.detail and frames) and level in {"ERROR", ""} and self._is_request(frames)

    def _count_run(self, event: Event) -> int:
        """Return the number of the run an event belongs to; a new run forgets the old processes and ranks."""
        before, run = self._runs.run, self._runs.record_message(event.text, event.process, event.level)
        if run != before:
            self._processes.forget()
        return run

    def _update_open(self, key: str, stream: ProcessStream, number: int) -> None:
        if stream.is_open:
            self._open[key] = stream.last = number
        elif self._open:
            self._open.pop(key, None)

    def start_note(self, line: Line) -> StartNote:
        """Return how a line affects the server starts."""
        _, event, _ = self._split(line)
        text, crash = event.text, ""
        if not (event.level or event.names_process):
            joined = parse_joined_traceback(text)
            if joined is not None and joined.exception:
                crash = "whole"
            elif TRACEBACK in text or begins_box(text) or class_at_head(text):
                crash = "opens"
            elif is_exception(_GROUP_ROW.sub("", text, count=1) if text.lstrip().startswith("|") else text):
                crash = "ends"
        return StartNote(process_name(event.process), event.level, stage_of(text, event.level),
                         ends_run(text, event.level), crash, line.source)

    def apply_start_note(self, number: int, note: StartNote) -> None:
        """Apply the effect of such a line on the server starts, and nothing else."""
        before = self._runs.run
        if (note.stage or note.ends_run) and before != self._runs.record_stage(note.stage, note.name, note.level):
            self._processes.forget()
        if not note.crash:
            return
        stream = self._stream(f"{note.source}\0")
        if note.crash == "opens":
            stream.open("")
            stream.last = number
        elif stream.inside or note.crash == "whole":
            stream.inside = False
            self._runs.crash()

    def parse_single_line(self, line: Line) -> Event:
        """Parse a line that belongs to no traceback and contains none of WORDS."""
        return self._split(line)[1]._replace(refusal=line.refusal or line.handler)

    def opened_message_key(self, line: Line) -> str | None:
        """Return the key of the process whose exception message a line begins, "" if it begins none.

        None means that the line may do more: begin or continue a traceback, begin or end a server start.
        """
        process, event, _ = self._split(line)
        text = event.text
        if TRACEBACK in text or _FRAME.match(text) or concerns_run(text, event.level) or parse_joined_traceback(text):
            return None
        return f"{line.source}\0{process}" if begins_message(event.text) else ""

    def open_message(self, number: int, key: str, message: str) -> None:
        """Record that a process began an exception's message, which may continue."""
        stream = self._stream(key)
        stream.inside = False
        stream.begin_message(message)
        self._update_open(key, stream, number)

    def traceback(self, lines: Sequence[Line]) -> tuple[str, list[Event]] | None:
        """Parse the lines of a traceback on their own: return the key of the process and the events.

        None means that the lines are not exactly one complete traceback, or that one may begin or end a server start.
        """
        separate_reader = EventReader(self._is_request)
        events = [event for line in lines if (event := separate_reader.read(line))]
        if len(events) < len(lines) or any(concerns_run(event.text, event.level) for event in events):
            return None
        *calls, shown = events
        if not all(event.is_code for event in calls) or not shown.frames or shown.context:
            return None
        last = lines[-1]
        process, event, _ = self._split(last)
        return f"{last.source}\0{process}", [
            *calls, event._replace(text=shown.text, frames=shown.frames, releases="")]

    def end_traceback(self, number: int, key: str, event: Event, message: str) -> None:
        """Record a complete traceback and its exception, whose message may continue.

        `event` may come from an earlier traceback with the same calls.
        """
        stream = self._stream(key)
        stream.open(event.level)
        self._end(stream, event, message, event.frames)
        self._update_open(key, stream, number)

    def _split(self, line: Line) -> tuple[str, Event, bool]:
        """Split a line: the process as printed, the event without the prefixes, and whether it has a record prefix."""
        process, rank, rest = self._processes.split(line.text, line.source)
        message, level, style, time = split_record(rest)
        is_logged = rest is not message
        marked = _MARKED.match(message) if message.lstrip().startswith(_MARKS) else None
        if marked is not None:
            message = marked["text"]
        releases = releases_of(process) or style if process else style
        event = Event(line.number, message, level, process or line.source, rank, self.run, releases,
                      refusal=line.refusal, time=time, source=line.source)
        return process, event, is_logged

    def _in_context(self, stream: ProcessStream, event: Event, *, logged: bool) -> Event:
        """Return the event in the context of its process: as part of a traceback or of an exception's message."""
        is_row = stream.inside or (stream.detail and stream.last_frames) or TRACEBACK in event.text
        if is_row and (border := _GROUP_ROW.match(event.text)):
            event = event._replace(text=event.text[border.end():])
        message, level = event.text, event.level
        joined = parse_joined_traceback(message)
        if joined is not None:
            return self._read_joined(stream, event, joined)
        if TRACEBACK in message:
            stream.open(level, len(message) - len(message.lstrip(" ")))
            has_message = not message.lstrip(" |+").startswith(TRACEBACK)  # `EngineCore hit an exception: Traceback …`
            return event._replace(releases="", is_code=not has_message)
        if stream.indent and (stream.inside or stream.detail) and not message[:stream.indent].strip():
            message = message[stream.indent:]
        if not stream.inside and _FRAME.match(message):  # the head of the traceback is missing, or it is Ray's
            stream.open(level, max(0, len(message) - len(message.lstrip(" ")) - 2))  # calls are indented by two spaces
            message = message[stream.indent:]
        if stream.inside:
            if logged and level not in {"ERROR", "CRITICAL", stream.level}:
                stream.record_other_message()
                return event
            return self._read_traceback_line(stream, event._replace(text=message, releases=""))
        if stream.detail and logged and not stream.last_frames and begins_message(message):
            stream.detail = 0  # another exception, in a record of its own
        if stream.detail and not message.startswith(CHAIN) and level in {"ERROR", ""}:
            stream.detail -= 1
            if not logged and stream.message and continues_sentence(stream.message[-1], message):
                message = f"{stream.message.pop()} {message}"
            context = "\n".join(stream.message)
            if len(context) < _MAX_CONTEXT:
                stream.message.append(message)
            return event._replace(text=message, frames=stream.last_frames, context=context)
        if stream.detail and level:
            stream.detail = 0
        elif not stream.detail and begins_message(message):
            stream.begin_message(message)
        return event if message is event.text else event._replace(text=message)

    def _read_joined(self, stream: ProcessStream, event: Event, joined: JoinedTraceback) -> Event:
        """Read one line that holds a traceback or the rest of one; its exception may be in the next line."""
        if joined.has_head or not stream.inside:
            stream.open(event.level)
        stream.frames.extend(joined.frames[:MAX_FRAMES - len(stream.frames)])
        if not joined.exception:
            return event._replace(text=joined.prefix or event.text, releases="", is_code=not joined.prefix)
        message = f"{joined.prefix} {joined.exception}".lstrip()
        self._end(stream, event, message, "\n".join(stream.frames))
        return event._replace(text=message, releases="", frames=stream.last_frames)

    def _end(self, stream: ProcessStream, event: Event, message: str, frames: str) -> None:
        """End a traceback with its exception, and the server start if that most often ends the process."""
        stream.end(message, frames)
        if self._ends_process(event, frames):
            self._runs.crash()

    def _ends_process(self, event: Event, frames: str) -> bool:
        """Return whether an exception with these calls most often ends a process: Python prints it, not a record."""
        is_printed = not (event.level or event.names_process)
        return is_printed and not self._is_request(frames) and _OF_PATH_FILE.search(frames) is None

    def _stream(self, key: str) -> ProcessStream:
        stream = self._streams.get(key)
        if stream is None:
            if len(self._streams) >= MOST_PROCESSES:
                closed = (other for other, known in self._streams.items() if not known.is_open)
                oldest = next(closed, next(iter(self._streams)))
                del self._streams[oldest]
                self._open.pop(oldest, None)
            stream = self._streams[key] = ProcessStream()
        return stream

    def _read_traceback_line(self, stream: ProcessStream, event: Event) -> Event:
        """Read one line of an open traceback: a call, its source line, or the exception that ends it."""
        message = event.text
        call = _FRAME.match(message)
        if stream.frames and not (call or stream.depth) and is_indented_exception(message):
            message = message.lstrip(" ")  # of a paste that has lost the indentation of its calls
        lead = len(message) - len(message.lstrip(" "))
        if call:
            stream.depth = lead
            if len(stream.frames) < MAX_FRAMES:
                stream.frames.append(frame(call["path"] or call["short_path"],
                                           call["function"] or call["short_function"]))
            return _as_code(event)
        if message[:1] in "\t|+" or lead > stream.depth or "[Previous line" in message or _RAY_FRAME.match(message):
            stream.code = message.strip() if message.strip(" ^~|") else stream.code
            if stream.frames and (variable := variable_read(stream.frames[-1], message)):
                stream.frames[-1] += f" {variable}"
            return _as_code(event)
        if is_omission(message) or _CUT_FRAME.match(message):
            return _as_code(event)
        if stream.frames and is_bar(message) and not is_exception(message):  # written to stderr by another thread
            return event
        if lead and stream.frames:  # an indented traceback: its exception is indented no deeper than its calls
            stream.indent, message = stream.indent + lead, message[lead:]
        elif lead:
            return _as_code(event)
        if not is_exception(message) and stream.frames and event.level not in {"ERROR", "CRITICAL"} \
                and _LEVEL_WORD.match(message):
            stream.record_other_message()
            return event
        self._end(stream, event, message, "\n".join(stream.frames))
        return Event(event.line, message, event.level, event.process, event.rank, event.run, "", stream.last_frames,
                     refusal=event.refusal, time=event.time, source=event.source)


def _as_code(event: Event) -> Event:
    return Event(event.line, event.text, event.level, event.process, event.rank, event.run, is_code=True,
                 time=event.time, source=event.source)


def may_concern_starts(line: str) -> bool:
    """Return whether a line with one of START_WORDS may begin or end a server start; digits do not matter."""
    at = 0
    while match := PROCESS.match(line, at):
        at = match.end()
    message, level, *_ = split_record(line[at:])
    return concerns_run(message, level) or not (level or at) or not BARE.match(line)
