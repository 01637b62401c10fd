"""One start of the server, as far as the log shows it."""

from __future__ import annotations

from typing import Any

from vllm_doctor.catalog.releases import Releases
from vllm_doctor.command import Command
from vllm_doctor.events.reader import CHAIN, Event
from vllm_doctor.events.single_line_tracebacks import TRACEBACK
from vllm_doctor.facts.server_load import ServerLoad
from vllm_doctor.facts.store import FactStore
from vllm_doctor.fastpath.repeated_messages import RepeatedMessages
from vllm_doctor.fastpath.statistics_lines import StatisticsLines
from vllm_doctor.matching.matcher import Hits
from vllm_doctor.phases import ORDER

_BLOCK_LINES = 60
_OMISSIONS = 5


class Run:
    """What was read of one start. `serving_line` is where it began to serve; `block` is its first traceback."""

    def __init__(self, number: int, statistics_lines: StatisticsLines, repeated_messages: RepeatedMessages,
                 facts: FactStore, releases: Releases) -> None:
        self.number = number
        self.statistics_lines = statistics_lines
        self.repeated_messages = repeated_messages
        self.facts = facts
        self.releases = releases
        self.hits: dict[str, Hits] = {}
        self.settled: set[int] = set()  # the patterns that a rule asks for, or must not see, and that were seen
        self.phase = ""
        self.status = ""
        self.serving_line = 0
        self.settings: dict[str, Any] = {}
        self.settings_kind = ""
        self.command: Command | None = None
        self.block: list[tuple[int, str]] = []
        self.block_process = ""
        self.block_open = False
        self.prefixes: set[str] = set()  # the releases that each kind of prefix seen belongs to
        self.wordings: set[str] = set()  # the releases that each wording of a fact seen belongs to
        self.begun = False  # the beginning of the start is in the log
        self.omissions: list[int] = []  # the first lines that stand for lines left out
        self.crashed = False  # an exception ended a traceback and the start went no further since
        self.crash_line = 0  # where the last traceback began, or the first of several that belong together
        self._chained = False  # the next traceback belongs to the one before
        self.last_line = 0
        self.evidence_count = 0  # facts, hits and markers so far

    def advance(self, phase: str, status: str, line: int) -> None:
        """Note how far the start has come and how it stands. That a server which serves still does so is no news.

        A phase never goes back. Between a stop and a failure the first one counts: a server that was told to stop
        prints dead engines, and one whose engine died shuts down in good order.
        """
        self.evidence_count += bool(status) or phase != "runtime" or not self.serves
        self.begun = self.begun or phase in {"args", "config"}
        if phase and (not self.phase or ORDER[phase] >= ORDER[self.phase]):
            self.phase, self.crashed = phase, False
        if status and self.status not in {"failed", "stopped"}:
            self.status = status
            if status == "serving" and not self.serving_line:
                self.serving_line = line

    def omit(self, line: int) -> None:
        """Note a line that stands for lines left out."""
        if len(self.omissions) < _OMISSIONS:
            self.omissions.append(line)

    @property
    def load(self) -> ServerLoad:
        """What its statistics lines tell of the server's load."""
        return self.statistics_lines.load

    @property
    def news(self) -> int:
        """How much was learned so far: while it stands, the rules' answer does."""
        return self.evidence_count + self.repeated_messages.retained_count

    @property
    def serves(self) -> bool:
        """Whether the server answers requests, as far as is known."""
        return self.phase == "runtime" and not self.crashed

    def remember_block(self, event: Event) -> None:
        """Keep the first traceback: what is shown when no rule knows the cause."""
        if event.frames and event.level in {"", "ERROR", "CRITICAL"}:
            self.crashed = True
        begins = TRACEBACK in event.text
        if begins:
            self.crash_line = self.crash_line if self._chained else event.line
            self._chained = False
        elif event.text and not (event.is_code or event.frames):
            self._chained = event.text.startswith(CHAIN)
        if begins and not self.block:
            self.block, self.block_open, self.block_process = [(event.line, event.text)], True, event.process
        elif self.block_open and (event.is_code or event.frames) and event.process == self.block_process:
            self.block.append((event.line, event.text))
            del self.block[1:-_BLOCK_LINES]  # its first line and the last ones, where the exception is
            self.block_open = not event.frames

    def state(self, survived: bool = False) -> str:
        """How it stands: a marker's word, failed when it ended in an exception not survived, starting, or unknown."""
        if self.status:
            return self.status
        if self.crashed and not survived:
            return "failed"
        if self.phase == "runtime":  # the log's head is cut off
            return "serving"
        return "starting" if self.phase else "unknown"
