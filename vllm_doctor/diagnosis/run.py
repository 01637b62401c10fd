"""One start of the server, as far as the log shows it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from vllm_doctor.catalog.releases import Releases
from vllm_doctor.command import Command
from vllm_doctor.events.event import Event
from vllm_doctor.events.notebook_tracebacks import class_at_head
from vllm_doctor.events.reader import CHAIN
from vllm_doctor.facts.request_lengths import RequestLengths
from vllm_doctor.facts.server_load import ServerLoad
from vllm_doctor.facts.store import FactStore
from vllm_doctor.failures import FailureCollector, exception_lines
from vllm_doctor.failures.collect import RepeatedCalls
from vllm_doctor.failures.model import ENGINE_PROCESS
from vllm_doctor.fastpath.repeated_messages import RepeatedMessages
from vllm_doctor.fastpath.statistics_lines import StatisticsLines
from vllm_doctor.logs.progress_bars import BAR_END
from vllm_doctor.matching.matcher import Hits
from vllm_doctor.phases import FIRST, ORDER
from vllm_doctor.text.traceback_head import TRACEBACK
from vllm_doctor.timeline import StartClock

_OMISSIONS = 5
_LATE = 4  # lines within which a bar may be of the moment before an exception: both are written to stderr
_HIDDEN_LINES = 256
_MAX_HIDDEN = 8192  # characters of such a line


class HiddenTexts:
    """The last lines of which a client's text was hidden, so that a report can quote them as they are."""

    def __init__(self) -> None:
        self._lines: OrderedDict[int, tuple[str, str]] = OrderedDict()

    def remember(self, number: int, hidden: str, original: str) -> None:
        """Keep a line with and without its hidden text."""
        self._lines[number] = hidden, original[:_MAX_HIDDEN]
        if len(self._lines) > _HIDDEN_LINES:
            self._lines.popitem(last=False)

    def restore(self, number: int, text: str) -> str:
        """Return the end of a line as it was, given that end with text hidden; the text itself if it is not known."""
        hidden, original = self._lines.get(number, ("", ""))
        begin = len(hidden) - len(text)
        if not text or not hidden.endswith(text) or hidden[:begin] != original[:begin]:
            return text
        return original[begin:]


class Run:
    """What was read of one start. `serving_line` is where it began to serve; `failures` what may have failed."""

    def __init__(self, number: int, statistics_lines: StatisticsLines, repeated_messages: RepeatedMessages,
                 facts: FactStore, releases: Releases) -> None:
        self.number = number
        self.statistics_lines = statistics_lines
        self.repeated_messages = repeated_messages
        self.facts = facts
        self.releases = releases
        self.hits: dict[str, Hits] = {}
        self.hidden_texts = HiddenTexts()
        self.settled: set[int] = set()  # the patterns that a rule asks for, or must not see, and that were seen
        self.phase = ""
        self.status = ""
        self.is_script = False  # a script has its engine
        self.has_batches = False  # a script passed prompts, with a progress bar
        self.has_all_answers = False  # and got the answers to its last batch
        self.is_ended_by_caller = False  # the engine ended because its caller, perhaps a script, ended it
        self.serving_line = 0
        self.settings: dict[str, Any] = {}
        self.settings_kind = ""
        self.command: Command | None = None
        self.block = False  # a traceback was seen
        self.block_process = "", ""  # the source and the process that print it
        self.block_open = False  # and has not ended
        self.prefixes: set[str] = set()  # the releases that each kind of prefix seen belongs to
        self.wordings: set[str] = set()  # the releases that each wording of a fact seen belongs to
        self.is_notebook = False  # IPython printed a traceback
        self.begun = False  # the beginning of the start is in the log
        self.omissions: list[int] = []  # the first lines that stand for lines left out
        self.crashed = False  # an exception ended a traceback and the start went no further since
        self.crash_line = 0  # where the last traceback began, or the first of several that belong together
        self._raised_line = 0  # where the exception is that ended it
        self._chained = False  # the next traceback belongs to the one before
        self.first_line = 0
        self.end_line = 0  # the first line of the next start
        self.last_line = 0  # that is not known to be healthy
        self.healthy_line = 0  # the last one, or the first behind something open where shortcuts are taken
        self.has_output = False  # a server, a library or Python printed a line of it
        self.failures = FailureCollector()
        self.clock = StartClock()
        self.ranks: set[int] = set()  # that printed a line with their rank
        self.requests = RequestLengths()
        self.advances = 0  # how often it made progress
        self.advance_line = 0  # of the last progress
        self.stopped_line = 0  # where it was told to stop
        self.evidence_count = 0  # facts, hits and markers so far

    @property
    def current_phase(self) -> str:
        """Return the phase of the start: the first one until the log shows another."""
        return self.phase or FIRST

    def advance(self, phase: str, status: str, line: int, text: str = "", *, is_progress: bool = True) -> None:
        """Record the phase and state of the start; a server that is still serving is not a change.

        A phase never goes back. A progress bar right behind an exception shows the phase in which it was raised; what
        reports a failure shows its phase too, and is no progress (`is_progress`).
        Between a stop and a failure the first one counts: a server that is being
        stopped reports dead engines, and one whose engine died shuts down in good order.
        """
        if status == "script-ready":
            self.is_script = True
            return
        if status in {"batch-running", "batch-done"}:
            self.has_batches, self.has_all_answers, self.is_ended_by_caller = True, status == "batch-done", False
            return
        if status in {"engine-shutdown", "engine-exited"}:
            self.is_ended_by_caller = status == "engine-shutdown" and not self.serving_line
            return
        self.evidence_count += bool(status) or phase != "runtime" or not self.serves
        self.begun = self.begun or phase in {"args", "config"}
        if phase and (not self.phase or ORDER[phase] >= ORDER[self.phase]):
            if not (self.crashed and line - self._raised_line <= _LATE and BAR_END.search(text)):
                if phase != self.phase and is_progress:
                    self.advances, self.advance_line = self.advances + 1, line
                self.crashed = False
            self.phase = phase
            self.clock.reach(phase)
        if status == "engine-ended":  # so it ends also behind a script that is done
            is_done = self.has_all_answers if self.has_batches else self.is_script
            self.is_ended_by_caller = is_done and not self.serving_line
            status = "" if self.is_ended_by_caller else "failed"
        if status and self.status not in {"failed", "stopped"}:
            self.status = status
            if status == "stopped":
                self.stopped_line = line
            if status == "serving" and not self.serving_line:
                self.serving_line = line
                self.clock.serve()

    def omit(self, line: int) -> None:
        """Note a line that represents omitted lines."""
        if len(self.omissions) < _OMISSIONS:
            self.omissions.append(line)

    @property
    def load(self) -> ServerLoad:
        """Return the server load shown by the statistics lines."""
        return self.statistics_lines.load

    @property
    def news(self) -> int:
        """Return how much was learned so far; the results of the rules change only when it does."""
        return self.evidence_count + self.repeated_messages.retained_count

    @property
    def serves(self) -> bool:
        """Return whether the server answers requests, as far as is known."""
        return self.phase == "runtime" and not self.crashed

    @property
    def has_engine(self) -> bool:
        """Return whether an engine began to start, and not only its arguments were read."""
        return ORDER.get(self.phase, -1) > ORDER["config"] or bool(self.serving_line)

    @property
    def is_silent_after_crash(self) -> bool:
        """Return whether a traceback is the last that a start shows, if nothing more comes."""
        return self.crashed and not self.status and not self.block_open

    def remember_block(self, event: Event) -> None:
        """Record where tracebacks begin and end."""
        if (event.frames and event.level in {"", "ERROR", "CRITICAL"}) or self._ends_engine(event):
            self.crashed, self._raised_line = True, event.line
        begins = TRACEBACK in event.text
        if class_at_head(event.text) is not None:
            self.is_notebook = True
        if begins:
            self.crash_line = self.crash_line if self._chained else event.line
            self._chained = False
        elif event.text and not (event.is_code or event.frames):
            self._chained = event.text.startswith(CHAIN)
        process = event.source, event.process
        if begins and not self.block:
            self.block, self.block_open, self.block_process = True, True, process
        elif self.block_open and (event.is_code or event.frames) and process == self.block_process:
            self.block_open = not event.frames

    def _ends_engine(self, event: Event) -> bool:
        """Return whether an event is the last line of a traceback of the engine, whose calls the log does not show."""
        if event.level or event.is_code or self.serving_line or not ENGINE_PROCESS.match(event.process):
            return False
        raised = exception_lines.on_own_line(event.text)
        return raised is not None and not raised.introduction

    def collect_failure(self, event: Event, *, may_quote_client: bool = False) -> None:
        """Collect what may be the failure from an event; `may_quote_client` says that it may be a client's words."""
        self.failures.see(event, self.phase, served=bool(self.serving_line), advances=self.advances,
                          may_quote_client=may_quote_client)

    def traceback_repeater(self, calls: Sequence[Event]) -> Callable[[Event], None]:
        """Return what records a traceback with the same calls again, given its exception.

        `calls` are the events of all lines before the exception.
        """
        collected = RepeatedCalls.of(calls)

        def record(exception: Event) -> None:
            head = calls[0]._replace(line=exception.line - len(calls))
            self.remember_block(head)
            self.collect_failure(head)
            self.failures.repeat_calls(head, collected)
            self.remember_block(exception)
            self.collect_failure(exception)

        return record

    def state(self, survived: bool = False) -> str:
        """Return its state: a marker's word, failed after an exception it did not survive, starting, or unknown."""
        if self.status:
            return self.status
        if self.crashed and not survived:
            return "failed"
        if self.is_ended_by_caller and self.phase:
            return "stopped"
        if self.phase == "runtime":  # the log's head is cut off
            return "serving"
        return "starting" if self.phase else "unknown"
