"""Shortcuts through a long log: lines that cannot change the report are skipped, repeated ones are only counted.

The first lines of a log are all read (`line_skipper.READ_WHOLE`). After them a line is read in full unless
- it is known to be healthy, or contains none of the literals of a rule (`line_skipper`, `line_scanner`);
- it is one of many statistics lines: these are counted (`statistics_lines`);
- it repeats a message with other numbers, or ends a traceback whose calls came before (`repeated_messages`).
While a message, a traceback or a command may continue, no line is skipped. What may be a failure is collected from
repeated messages and tracebacks too, as if they were read in full. The report is the same with
`Options.shortcuts` off; a test compares both over all logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from vllm_doctor.command.finder import WORDS as COMMAND_WORDS
from vllm_doctor.events.reader import WORDS as EVENT_WORDS
from vllm_doctor.events.reader import StartNote
from vllm_doctor.events.record_prefix import info_record
from vllm_doctor.fastpath import line_skipper
from vllm_doctor.fastpath.line_scanner import LineTemplate
from vllm_doctor.fastpath.line_skipper import LineSkipper, Mode, mode_of, scanner
from vllm_doctor.fastpath.repeated_messages import Plan, plan, printed
from vllm_doctor.fastpath.repeated_tracebacks import Traceback
from vllm_doctor.fastpath.session import Session
from vllm_doctor.logs.lines import Line
from vllm_doctor.logs.terminal_escapes import printable
from vllm_doctor.logs.wrappers.byte_patterns import MessageWrapper
from vllm_doctor.redact import secrets_in
from vllm_doctor.text.literal_search import any_of
from vllm_doctor.text.patterns import lazy_pattern

_STRUCTURE = (*EVENT_WORDS, *COMMAND_WORDS)
_FAILURE = lazy_pattern(rb"ERROR|CRITICAL|[Ee]rror|[Ee]xception|HTTP/")  # a failure may be read from such a line
_SHORT = 512  # maximal bytes of a line whose kind is remembered
_MOST_REMEMBERED = 1 << 12  # processes, and lines that concern starts


class Shortcuts:
    """The decision for each line of one log whether the engine must read it in full."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._skipper = LineSkipper(self)
        self._earlier_starts = False
        # Lines still to read in full after a server has stopped serving: most logs end soon afterwards, and the
        # preparation for skipping lines costs as much as reading that many.
        self._patience: int | None = None
        self._settled_mode: Mode | None = None  # the result of `mode` while no line is awaited
        self._start_notes: dict[tuple[bytes, bytes, bytes], StartNote] = {}
        self._processes: dict[tuple[bytes, bytes], str] = {}  # keys by a line's source and prefix

    def pieces(self, data: bytes, *, earlier_starts: bool = False) -> Iterator[bytes]:
        """Yield the parts of some bytes that must be read in full.

        With `earlier_starts` only the begin and end of server starts matter in these bytes.
        """
        if earlier_starts != self._earlier_starts:
            self._earlier_starts, self._settled_mode = earlier_starts, None
        for piece in self._skipper.pieces(data):
            self._settled_mode = None
            yield piece

    def rest(self) -> bytes:
        """Return the last line, if it has no end."""
        return self._skipper.rest()

    def reset(self) -> None:
        """Forget the decision for the next lines, because something else was read."""
        self._settled_mode = None

    # Called by `LineSkipper`.

    def mode(self) -> Mode | None:
        """Return how the next lines are read, or None if every line must be read."""
        session = self._session
        if self._settled_mode is not None:
            return self._settled_mode
        if not session.lines.is_idle or (self._earlier_starts and not session.untrusted.is_idle):
            return None
        if self._earlier_starts:
            self._settled_mode = mode_of(session.base, awaited=False, serving=False, earlier_starts=True)
            return self._settled_mode
        serves = session.current.serves
        number = session.next_number()
        awaited = (not session.awaits_no_command or not session.untrusted.is_idle
                   or session.events.expects_any_continuation(number)
                   or session.current.failures.may_continue(number))
        if serves and self._patience is None:
            self._patience = line_skipper.READ_WHOLE
        if not serves and self._patience:
            self._patience -= 1
            return None
        if not (session.awaits_no_command or serves):
            return None
        result = mode_of(session.base, awaited=awaited, serving=serves)
        if not awaited:
            self._settled_mode = result
        return result

    def next_number(self) -> int:
        """Return the number of the next line."""
        return self._session.next_number()

    def skip(self, lines: int, size: int) -> None:
        """Record that lines and bytes are skipped."""
        self._session.lines.skip(lines, size)

    def expects_continuation(self, data: bytes, number: int, template: LineTemplate) -> bool:
        """Return whether a line may continue what came before.

        A message of another process than the awaited one is recorded.
        """
        if not self._session.awaits_no_command or self._continues_untrusted_text(data, template.wrapper):
            return True
        key = self._process_key(data, template.wrapper)
        if key is not None and not self._session.events.expects_continuation(key):
            return False
        is_short = len(template.text) <= _SHORT
        is_message = is_short and _is_message(template.text, template.wrapper.size)
        return not (is_message and self._session.events.skip_record(number, data))

    def read_short(self, data: bytes, number: int, template: LineTemplate, *, is_candidate: bool) -> bool:
        """Count a line as one of many of its kind; return False if it must be read in full."""
        if self._earlier_starts:
            return self._note_start(data, number, template)
        run = self._session.current
        may_continue = run.failures.may_continue(number) and not self._ends_failure(data, template)
        if not (is_candidate or may_continue):
            return True
        if template.layout is not None:
            if may_continue:
                return False
            run.evidence_count += 1
            return run.statistics_lines.try_shortcut(data, number, template.layout)
        return run.repeated_messages.try_shortcut(data, number, template, serves=run.phase == "runtime")

    def read_traceback(self, traceback: Traceback, data: bytes, number: int, template: LineTemplate) -> bool:
        """Count a traceback whose calls came before, given its last line; return False if it must be read in full."""
        if self._earlier_starts:
            return self._note_start(data, number, template, whole=True)
        run = self._session.current
        if not (self._session.awaits_no_command and run.block) or run.block_open:
            return False
        if self._continues_untrusted_text(traceback.lines, template.wrapper):
            return False
        return run.repeated_messages.try_shortcut(data, number, template, serves=run.phase == "runtime",
                                                  traceback=traceback)

    def read_ending(self, block: bytes, at: int) -> int:
        """Read the line at `at` if it shows that the server still serves, after a line that left something open.

        Return its size in bytes, 0 for any other line.
        """
        session = self._session
        number = session.next_number()
        serves_on = session.current.phase == "runtime" and session.events.is_open(number) and session.lines.is_idle
        if self._earlier_starts or not serves_on:
            return 0
        lines = scanner(session.base, serving=True)
        data = lines.healthy_at(block, at)
        key = self._process_key(data, lines.template_of(data).wrapper) if data else None
        if key is None:
            return 0
        session.end_open_message(number, key)
        session.lines.skip(1, len(data))
        self._settled_mode = None
        return len(data)

    def read_single_line(self, data: bytes) -> bool:
        """Read the next line on its own; return False if it may be part of something longer."""
        session = self._session
        serves = session.current.serves
        line = session.lines.parse_single_line(data)
        if line is None or not line.text.strip() or any_of(_STRUCTURE).search(line.text):
            return False
        if not serves and session.is_healthy(line.text):
            return False
        single = session.untrusted.hide_in_single_line(line)
        if single is None or single.opened:
            return False
        line = single.line
        session.read_retained_lines()
        session.record(session.events.parse_single_line(line._replace(number=session.next_number())), line.text)
        session.lines.skip(1, len(data))
        if session.current.serves != serves or session.current.failures.may_continue(session.next_number()):
            self._settled_mode = None
        return True

    # How lines are counted.

    def plan_for(self, data: bytes, wrapper: MessageWrapper, traceback: Traceback | None) -> Plan | None:
        """Return how lines like this one are counted; None if each must be read in full.

        The line is independent of other lines or ends a traceback.
        """
        session = self._session
        single = session.parse_single_line(data)
        if single is None or single.line.source != data[wrapper.source].decode():
            return None
        line = single.line
        if traceback:
            return None if single.opened else self._traceback_plan(data, wrapper, line, traceback)
        if any_of(COMMAND_WORDS).search(line.text) or session.is_healthy(line.text) or secrets_in(line.text):
            return None
        key = session.events.opened_message_key(line)
        if key is None:
            return None
        event = session.events.parse_single_line(line)
        is_failure = _FAILURE.search(data) is not None

        def effect(number: int, prefix: str, message: str) -> None:
            if single.opened:
                session.untrusted.open(line.source, printable(prefix), single.opened)
                self._settled_mode = None
            if key:
                session.events.open_message(number, key, message)
            if key or is_failure or session.current.failures.may_continue(number):
                session.current.collect_failure(event._replace(line=number, text=message))
                self._settled_mode = None

        hide = session.untrusted.hide_in_message if single.hides else None
        return plan(printed(data, wrapper), event, session.matcher, session.base.names, effect, hide=hide)

    def _traceback_plan(self, data: bytes, wrapper: MessageWrapper, last: Line, traceback: Traceback) -> Plan | None:
        session = self._session
        alone = [session.parse_single_line(line) for line in traceback.lines.splitlines(keepends=True)]
        lines = [single.line for single in alone if single and not single.opened and single.line.source == last.source]
        if len(lines) < len(alone):
            return None
        lines.append(last)
        texts = [line.text for line in lines]
        result = session.events.traceback(lines) if session.finder.contain_no_command(texts) else None
        if result is None:
            return None
        key, (*calls, event) = result
        last_call = next((text for text in reversed(texts) if 'File "' in text), "")
        repeat = session.current.traceback_repeater(calls)

        def effect(number: int, _prefix: str, message: str) -> None:
            session.finder.record_call(last_call)
            session.events.end_traceback(number, key, event, message)
            repeat(event._replace(line=number, text=message))
            self._settled_mode = None

        return plan(printed(data, wrapper), event, session.matcher, session.base.names, effect)

    def _note_start(self, data: bytes, number: int, template: LineTemplate, *, whole: bool = False) -> bool:
        """Record how a line affects the server starts; return False if it must be read in full.

        With `whole` the calls of a traceback precede it.
        """
        note = self._start_note(data, template)
        if note:
            note_of_line = note._replace(crash="whole") if whole and note.crash else note
            self._session.events.apply_start_note(number, note_of_line)
        return note is not None

    def _start_note(self, data: bytes, template: LineTemplate) -> StartNote | None:
        wrapper = template.wrapper
        key = data[wrapper.source], data[wrapper.process].partition(b" ")[0], template.text
        note = self._start_notes.get(key)
        single = None if note else self._session.parse_single_line(data)
        if single is not None and not single.opened:
            note = self._session.events.start_note(single.line)
            if note.source != key[0].decode():  # it has a number, of which the template shows nothing
                return note
            if len(self._start_notes) >= _MOST_REMEMBERED:
                self._start_notes.clear()
            self._start_notes[key] = note
        return note

    def _continues_untrusted_text(self, data: bytes, before: MessageWrapper) -> bool:
        """Return whether lines may continue a client's text; if not, that of their source is over.

        It goes on behind a healthy line.
        """
        untrusted = self._session.untrusted
        if untrusted.is_idle or scanner(self._session.base, serving=True).healthy_at(data, 0):
            return False
        text = printable(data.decode(errors="replace"))
        return untrusted.may_continue(text, data[before.source].decode(errors="replace"))

    def _ends_failure(self, data: bytes, template: LineTemplate) -> bool:
        """Return whether a line shows that the message of the last failure is over, and record that."""
        is_message = len(template.text) <= _SHORT and _is_message(template.text, template.wrapper.size)
        key = self._process_key(data, template.wrapper) if is_message and not _FAILURE.search(data) else None
        if key is None:
            return False
        source, _, process = key.partition("\0")
        failures = self._session.current.failures
        failures.end_message(source, process or source)
        self._settled_mode = None
        return not failures.may_continue(self._session.next_number())

    def _process_key(self, data: bytes, before: MessageWrapper) -> str | None:
        """Return the key of the process that prints a line; None if the line must be read in full."""
        source, process = data[before.source], data[before.process]
        is_known = bool(process) and not data.startswith(b"(", before.process.stop)
        key = self._processes.get((source, process)) if is_known else None
        if key is None and (line := self._session.lines.parse_single_line(data)):
            key = self._session.events.key(line)
            if is_known and line.source == source.decode() and len(self._processes) < _MOST_REMEMBERED:
                self._processes[source, process] = key
        return key


@lru_cache(maxsize=4096)
def _is_message(template: bytes, wrapper: int) -> bool:
    """Return whether the lines of a template, after `wrapper` bytes, neither begin nor end anything."""
    if info_record(template) is None:
        return False
    return not any_of(_STRUCTURE).search(template[wrapper:].decode(errors="replace"))
