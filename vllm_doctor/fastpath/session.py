"""The interface of the engine for the shortcuts: the current start, the readers, and what to do with skipped lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from vllm_doctor.command import CommandFinder
from vllm_doctor.events.event import Event
from vllm_doctor.events.reader import EventReader
from vllm_doctor.fastpath.repeated_messages import RepeatedMessages
from vllm_doctor.fastpath.statistics_lines import StatisticsLines
from vllm_doctor.logs.lines import LineReader
from vllm_doctor.logs.untrusted_text import SingleLine, UntrustedText
from vllm_doctor.matching.matcher import Matcher
from vllm_doctor.rulebase.model import RuleBase


class FailureReader(Protocol):
    """What collects the failures of a start."""

    def may_continue(self, number: int) -> bool:
        """Return whether the line of that number may belong to what was read last."""

    def end_message(self, source: str, process: str) -> None:
        """End the message of a process: it printed a record of level INFO that reports no failure."""


class CurrentStart(Protocol):
    """The server start that the current lines belong to."""

    statistics_lines: StatisticsLines
    repeated_messages: RepeatedMessages
    phase: str
    evidence_count: int
    block: bool
    block_open: bool

    @property
    def failures(self) -> FailureReader:
        """Return what collects the failures of this start."""

    @property
    def serves(self) -> bool:
        """Return whether the server answers requests, as far as is known."""

    def advance(self, phase: str, status: str, line: int) -> None:
        """Record how far the start has come."""

    def collect_failure(self, event: Event) -> None:
        """Collect what may be the failure from an event."""

    def traceback_repeater(self, calls: Sequence[Event]) -> Callable[[Event], None]:
        """Return what records a traceback with the same calls again, given its exception."""


class Session(Protocol):
    """The engine, as the shortcuts see it."""

    base: RuleBase
    lines: LineReader
    events: EventReader
    finder: CommandFinder
    untrusted: UntrustedText

    @property
    def matcher(self) -> Matcher:
        """Return the matcher for the rules' patterns."""

    @property
    def current(self) -> CurrentStart:
        """Return the start that the next line belongs to."""

    @property
    def awaits_no_command(self) -> bool:
        """Return whether the next line cannot be part of a command."""

    def next_number(self) -> int:
        """Return the number of the next line."""

    def is_healthy(self, text: str) -> bool:
        """Return whether a line only shows that the server is serving."""

    def end_open_message(self, number: int, process: str) -> None:
        """Record that a healthy line of a process ends its open message."""

    def parse_single_line(self, data: bytes) -> SingleLine | None:
        """Parse one complete line as the next one, without untrusted text; return None if it must be fed."""

    def record(self, event: Event, text: str) -> None:
        """Record an event of the current start, given its line's text."""

    def read_retained_lines(self) -> None:
        """Read in full the first lines of each kind that were kept back."""
