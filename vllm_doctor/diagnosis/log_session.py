"""Parse the bytes of one log into its server starts: bytes -> lines -> events -> starts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from vllm_doctor.catalog.releases import Releases
from vllm_doctor.command import CommandFinder
from vllm_doctor.command.command_in_line import is_prompted
from vllm_doctor.command.frontend_finder import FrontendFinder
from vllm_doctor.diagnosis.recorder import Recorder
from vllm_doctor.diagnosis.run import Run
from vllm_doctor.events.event import Event
from vllm_doctor.events.reader import EventReader
from vllm_doctor.facts.request_lengths import MARKER as REQUEST_MARKER
from vllm_doctor.facts.store import FactStore
from vllm_doctor.failures import exception_lines
from vllm_doctor.fastpath.line_skipper import READ_WHOLE
from vllm_doctor.fastpath.repeated_messages import RepeatedMessages
from vllm_doctor.fastpath.retained_lines import RetainedLine
from vllm_doctor.fastpath.shortcuts import Shortcuts
from vllm_doctor.fastpath.statistics_lines import StatisticsLines
from vllm_doctor.logs.lines import Line, LineReader
from vllm_doctor.logs.terminal_escapes import printable
from vllm_doctor.logs.untrusted_text import SingleLine, UntrustedText
from vllm_doctor.matching.matcher import Matcher, compiled
from vllm_doctor.options import Options
from vllm_doctor.redact import Redactor
from vllm_doctor.rulebase.model import RuleBase

KEEP_RUNS = 16
_CUT_OFF = 20  # lines within which a traceback that has not ended is what the log ends in


class LogSession:
    """Reads the lines of one log into its server starts, the last of which are kept."""

    def __init__(self, base: RuleBase, options: Options, *, live: bool) -> None:
        self.base = base
        self.options = options
        self.lines = LineReader(join_wrapped=not live)
        self.events = EventReader(base.untrusted.is_request)
        self.untrusted = UntrustedText(base.untrusted)
        self.finder = CommandFinder()
        self.programs = FrontendFinder()
        self.redactor = None if options.show_secrets else Redactor()
        self.shortcuts = Shortcuts(self)
        self._recorder = Recorder(base, options)
        self.runs: deque[Run] = deque([self._new_run(1)], maxlen=KEEP_RUNS)
        self.chosen = self.current if options.run == 1 else None  # kept when others are dropped
        self.on_start_end: Callable[[Run], None] | None = None
        self._missed_lines = 0
        self._run_begins = False  # a new start was seen, its command may still be being typed

    @property
    def matcher(self) -> Matcher:
        """Return the matcher of the rules' patterns."""
        return self._recorder.matcher

    @property
    def current(self) -> Run:
        """Return the start that the next line belongs to."""
        return self.runs[-1]

    @property
    def awaits_no_command(self) -> bool:
        """Return whether the next line is no part of a command, as far as the lines before it show."""
        return self.finder.is_idle and not self._run_begins

    def next_number(self) -> int:
        """Return the number of the next line."""
        return self.lines.line_count + self._missed_lines + 1

    def miss(self, lines: int) -> None:
        """Count lines that will never be read."""
        self._missed_lines += lines
        self.shortcuts.reset()

    def feed(self, data: bytes, *, earlier_starts: bool = False) -> None:
        """Read some more bytes; see `Shortcuts.pieces`."""
        if not self.options.shortcuts:
            self.read(data)
            return
        for piece in self.shortcuts.pieces(data, earlier_starts=earlier_starts):
            self.read(piece)

    def begin_server(self) -> None:
        """Begin another start: what follows is of another server, whatever it says."""
        self.finder.finish()
        if self.current.last_line:
            self._end_run()
            self._begin_run(self.events.begin_run(), self.next_number())
        self._run_begins = False
        self.finder = CommandFinder()

    def finish(self) -> None:
        """Read what is left at the end of the log."""
        self.read(self.shortcuts.rest())
        for line in self.lines.finish():
            self._read_line(line)
        self.finder.finish()
        self._record_cut_raises()

    def _record_cut_raises(self) -> None:
        """Record the exceptions that the source lines raise in which tracebacks are cut off."""
        for event in self._open_tracebacks():
            raised = exception_lines.raised_in_code(event.text)
            if raised:
                self._recorder.record_raise(self.current, event._replace(text=raised, is_code=False))

    def read(self, data: bytes) -> None:
        """Read bytes in full."""
        self.shortcuts.reset()
        for line in self.lines.feed(data):
            self._read_line(line)

    def _read_line(self, line: Line) -> None:
        if self._missed_lines:
            line = Line(line.number + self._missed_lines, line.text, line.source)
        if line.number <= READ_WHOLE and REQUEST_MARKER in line.text:
            self.current.requests.see(line.text)
        if self.is_healthy(line.text):
            process = self.events.key(line) if self.events.is_open(line.number) else ""
            self.end_open_message(line.number, process)
            return
        if self.redactor is not None:
            self.redactor.learn_line(line.text)
        original, line = line.text, self.untrusted.read(line)
        self.read_retained_lines()
        is_continuation = self.events.expects_any_continuation(line.number)
        if line.refusal or line.handler or (is_continuation and self.events.quotes_client(line)):
            self.finder.skip_output()
            self.finder.quote_client(line.number)
        else:
            self.finder.feed(line.number, line.text)
            if line.number <= READ_WHOLE:  # what is printed at the start; later lines may be skipped
                self.programs.feed(line.number, line.text, line.source)
            if (line.text != original or self.untrusted.quotes(original)) and not is_prompted(original):
                self.finder.quote_client(line.number)
        if self._run_begins and not self.finder.is_reading:
            self.finder.start_run()
            self._run_begins = False
        event = self.events.read(line)
        if event is None:
            return
        if event.run != self.current.number:
            self._end_run()
            self._begin_run(event.run, event.line)
        if line.text != original:
            self.current.hidden_texts.remember(line.number, line.text, original)
        self.record(event, line.text)

    def is_healthy(self, text: str) -> bool:
        """Return whether a line only shows that the server is serving."""
        has_anchor = any(anchor in text for anchor in self.base.healthy_anchors)
        return has_anchor and compiled(self.base.healthy).fullmatch(text) is not None

    def end_open_message(self, number: int, process: str) -> None:
        """Note a healthy line: the server is serving, and a message of that process before it is over."""
        self.current.healthy_line = number
        self.current.advance("runtime", "", number)
        self.events.end_message(number, process)
        self.finder.skip_output()

    def parse_single_line(self, data: bytes) -> SingleLine | None:
        """Return the next line without untrusted text if it is complete by itself; None if it must be fed."""
        line = self.lines.parse_single_line(data)
        return line and self.untrusted.hide_in_single_line(line)

    def record(self, event: Event, text: str) -> None:
        """Record an event of the current start, given its line's text."""
        self._recorder.record(self.current, event, text)

    def read_retained_lines(self) -> None:
        """Read in full the first lines of each kind that were kept back."""
        self._read_retained(self.current.statistics_lines.first())

    def settle(self) -> None:
        """Read in full all lines that were kept back, and the calls of a traceback the log ends in."""
        run = self.current
        self._read_retained(sorted((*run.statistics_lines.rest(), *run.repeated_messages.rest())))
        for event in self._open_tracebacks():
            self._recorder.record_code_paths(self.current, event.frames, event.line)

    def _open_tracebacks(self) -> list[Event]:
        """Return the tracebacks that the start ends in, each with its calls and its last source line."""
        run = self.current
        return [event for event in self.events.unfinished()
                if event.line >= run.first_line and event.line + _CUT_OFF >= run.last_line]

    def _read_retained(self, kept: Iterable[RetainedLine]) -> None:
        for number, raw, times, frames, source, refusal in kept:
            text = printable(raw.decode()).rstrip()
            single = self.untrusted.hide_in_single_line(Line(number, text, source.decode()))
            if single is None:  # never kept back: a client's text may continue in the next line
                continue
            event = self.events.parse_single_line(single.line)
            event = event._replace(frames=frames, releases="", refusal=refusal) if frames else event
            self._recorder.record(self.current, event, text, times)

    def _end_run(self) -> None:
        """Read what is left of a start that another one follows."""
        self.settle()
        self._record_cut_raises()

    def _begin_run(self, number: int, line: int) -> None:
        ended = self.current
        ended.end_line = line
        ended.command = self.finder.command
        self._run_begins = True
        run = self._new_run(number)
        self.runs.append(run)
        if self.options.run == number:
            self.chosen = run
        if self.on_start_end is not None:
            self.on_start_end(ended)

    def _new_run(self, number: int) -> Run:
        version = self.options.vllm_version
        releases = Releases.of(version) if version else Releases.every()
        facts = FactStore(self.base.names)
        run = Run(number, StatisticsLines(), RepeatedMessages(self.shortcuts.plan_for, facts), facts, releases)
        if version:
            run.facts.add("vllm_version", version, 0)
        return run
