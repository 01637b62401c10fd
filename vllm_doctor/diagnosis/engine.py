"""The engine: bytes are fed, a report comes out.

`diagnose` reads a whole log; `watch` feeds the same `Diagnosis` as the bytes arrive. The same bytes give the same
report however they are chunked.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import IO, cast

from vllm_doctor.command import Command, parse
from vllm_doctor.command.frontends import Typed, parse_frontend
from vllm_doctor.diagnosis import page_reading, second_reading
from vllm_doctor.diagnosis.failed import failed
from vllm_doctor.diagnosis.log_notes import InputSummary, input_notes, notes
from vllm_doctor.diagnosis.log_session import LogSession
from vllm_doctor.diagnosis.report_builder import build
from vllm_doctor.diagnosis.run import Run
from vllm_doctor.diagnosis.run_analysis import RunAnalysis
from vllm_doctor.diagnosis.stalls import stalled
from vllm_doctor.errors import InputError
from vllm_doctor.gpu_status import Card, cards_in
from vllm_doctor.language import language
from vllm_doctor.logs.inputs import Log, chunks, is_path, one_log
from vllm_doctor.logs.pasted_text import LONGEST, Row
from vllm_doctor.messages import message
from vllm_doctor.options import Options
from vllm_doctor.pages import Page, read_page
from vllm_doctor.pages.kinds import is_output
from vllm_doctor.reports.model import Report, Source
from vllm_doctor.rulebase.loader import load
from vllm_doctor.rulebase.model import RuleBase

MOST_STARTS = 1000
"""Of a log with more server starts, `on_start_end` gets the first ones; the report is on the last."""
_CHUNK = 1 << 18


class Diagnosis:
    """Reads a log piece by piece. Memory does not grow with the log.

    `live`: the bytes come from a running server; then no line waits to be joined to the next one, as the rows of a log
    that a terminal wrapped are. `on_start_end` gets each start of the server that another one follows, with its
    report: of a log with many starts only the last ones are kept.
    """

    def __init__(self, options: Options | None = None, path: str = "-", *, live: bool = False,
                 on_start_end: Callable[[Run, Report], None] | None = None) -> None:
        self.options = options or Options()
        self.path = path
        self.base: RuleBase = load(self.options.rules)
        self._session = LogSession(self.base, self.options, live=live)
        if on_start_end is not None:
            self._session.on_start_end = self._reporter(on_start_end)
        given = given_command(self.options)
        self._given = given if isinstance(given, Command) else None
        if isinstance(given, Typed):
            self._session.programs.typed = given
        if self._session.redactor is not None:
            self._session.redactor.learn(self.options.command or self.options.config or "")
        self._finished = False
        self.is_page = False  # the report is on the server output that a page holds; known when it is finished
        self._remarks: tuple[str, ...] = ()
        self._pasted: bytearray | None = None if live else bytearray()  # the input, while it is short
        self._cards: tuple[Card, ...] = ()  # the GPUs that the input shows beside the log
        self._given_cards = tuple(card._replace(line=0) for card in cards_in(self.options.gpu_status))

    def _reporter(self, on_start_end: Callable[[Run, Report], None]) -> Callable[[Run], None]:
        """Return what reports on each start that has ended: on those with output, of which there may be many."""
        reported = 0

        def report(run: Run) -> None:
            nonlocal reported
            if run.has_output and reported < MOST_STARTS:
                reported += 1
                on_start_end(run, self._report(self._analysis(run)))

        return report

    @property
    def runs(self) -> deque[Run]:
        """Return the last starts of the server, the current one at the end."""
        return self._session.runs

    @property
    def run_count(self) -> int:
        """Return how many starts of the server were seen so far."""
        return self._session.events.run

    def feed(self, data: bytes, *, earlier_starts: bool = False) -> None:
        """Read some more bytes. With `earlier_starts`, only the begin and end of the server starts are recorded."""
        if self._pasted is not None:
            self._pasted += data
            if len(self._pasted) > LONGEST and not page_reading.may_be_large(self._pasted):
                self._pasted = None
        self._session.feed(data, earlier_starts=earlier_starts)

    def skip(self, lines: int) -> None:
        """Count lines that were not fed, so that line numbers stay correct."""
        self._session.miss(lines)

    def add_notes(self, *notes: str) -> None:
        """Add a remark about reading the log to the report's notes."""
        self._remarks += notes

    def finish(self) -> Report:
        """Return the report on everything fed, in the language of the options. Nothing can be fed afterwards."""
        return self._finish().in_language(language(self.options.language))

    def _finish(self) -> Report:
        """Return the report, whose texts are messages still."""
        if not self._finished:
            self._finished = True
            self._session.finish()
        if self._pasted:
            if (page := read_page(bytes(self._pasted))) is not None:
                return self._read_page(page)
            self._cards = _cards_beside(bytes(self._pasted))
        return self._read_again(self.snapshot())

    def _read_page(self, page: Page) -> Report:
        """Return the report on the server output that a page holds."""
        first, self._pasted = self.snapshot() if self.options.run in {None, 1} else None, None
        source = Source(self.path, self._session.lines.line_count, self._session.lines.byte_count, 1, 1)
        if not page.excerpts:
            self._cards = page.cards
            quoted = first if first is not None and first.cause is not None and first.cause.confidence > 0.5 else None
            if quoted is not None and quoted.primary is not None:
                return self._as_quoted(quoted)
            self.options = self.options._replace(run=None)
            self._session = self._session_of_a_page()
            return self.snapshot()._replace(source=source).with_caveats(page_reading.NOTHING)
        self._cards, self.is_page = page.cards, True
        report: Report | None = None
        for excerpts, note in page_reading.readings(page):
            before = self._session
            self._session = self._session_of_a_page()
            for excerpt in excerpts:
                self._feed_excerpt(excerpt.rows, is_new_server=excerpt.is_new_server)
            self._session.finish()
            found = self.snapshot().with_caveats(*note)
            if report is None or second_reading.explains_more(found, report):
                report = found
            else:
                self._session = before
        if report is None:  # a page with excerpts has at least one reading
            return self.snapshot()
        runs, run = self.run_count, report.source.run
        report = report._replace(source=source._replace(runs=runs, run=run))
        return report.with_caveats(*page_reading.caveats(page, [self.analysis(run) for run in self.runs], report))

    def _session_of_a_page(self) -> LogSession:
        """Return a session for the excerpts of a page; the secrets that the rest of the page names stay hidden."""
        session = LogSession(self.base, self.options._replace(shortcuts=False), live=True)
        session.redactor = self._session.redactor
        return session

    def _as_quoted(self, report: Report) -> Report:
        """Return the report on a message that a page quotes without any log: a message has no starts and no command."""
        notes = tuple(note for note in report.notes if not note.startswith("The log holds "))
        return report._replace(notes=(page_reading.QUOTED, *notes))

    def _feed_excerpt(self, rows: Iterable[Row], *, is_new_server: bool) -> None:
        """Read an excerpt of a page; its rows keep the numbers of their lines."""
        if is_new_server:
            self._session.begin_server()
        for row in rows:
            self._session.miss(max(0, row.number - self._session.next_number()))
            self._session.feed(row.text.encode() + b"\n")
            self._session.miss(row.lines - 1)

    def _read_again(self, report: Report) -> Report:
        """Return the report of a second reading if it identifies a failure that the first one did not."""
        pasted, self._pasted = self._pasted, None
        if not pasted or len(pasted) > LONGEST or not second_reading.is_wanted(report, bytes(pasted)):
            return report
        if self.options.run not in {None, self._telling_run().number}:
            return report
        for rows, note in second_reading.readings(bytes(pasted), self.base, report):
            again = Diagnosis(self.options._replace(run=None, shortcuts=False), self.path, live=True)
            for row in rows:
                again.feed(row.text.encode() + b"\n")
                again.skip(row.lines - 1)
            found = again._finish()
            if second_reading.is_better(found, report, bytes(pasted), note):
                found = found._replace(source=report.source, notes=(*found.notes, note))
                return found.with_caveats(*self._remarks)
        return report

    def snapshot(self) -> Report:
        """Return the report on what was fed so far; more can be fed."""
        return self.report(self.chosen_run())

    def report(self, run: Run) -> Report:
        """Return the report on one of the starts that are kept, as it is now."""
        return self._report(self.analysis(run))

    def _report(self, analysis: RunAnalysis) -> Report:
        lines, run = self._session.lines, analysis.run
        runs = max(self.run_count - self._typed_only(), run.number)
        source = Source(self.path, lines.line_count, lines.byte_count, runs, run.number)
        reading = InputSummary(lines.encoding, tuple(lines.wrappers), lines.long_lines, runs,
                          self.options.run is not None, tuple(sorted(self._session.matcher.slow)))
        report = build(analysis, source, notes(analysis, reading), input_notes(analysis, reading))
        return report.with_caveats(*self._remarks)

    def _typed_only(self) -> int:
        """Return how many starts at the end are commands without output: those started no server."""
        runs = list(self.runs)
        count = 0
        while count < len(runs) - 1 and not runs[-1 - count].has_output:
            count += 1
        return count

    def failure_cause(self, *, paused: bool = False) -> str | None:
        """Return the id of the cause of the current start once it has failed, else None.

        `paused`: nothing has come for a while. A start that is silent after a traceback, and whose cause is in that
        traceback, has failed, although no line says so yet.
        """
        run = self.runs[-1]
        if run.status != "failed" and not (paused and run.is_silent_after_crash):
            return None
        first = next(iter(self.analysis(run).fired), None)
        if first is None or first.rule.fallback or first.rule.role != "cause" or first.rule.severity != "error":
            return None
        if run.status != "failed" and (first.rule.survives or first.hits.latest.line < run.crash_line):
            return None
        return first.rule.id

    def current_limit(self) -> str | None:
        """Return the id of what limits a serving server, as long as that lasts; None while nothing does."""
        run = self.runs[-1]
        if run.status == "failed" or run.load.current_period is None:
            return None
        since = run.load.current_period[1].first.line
        return next((item.rule.id for item in self.analysis(run).fired if item.rule.role == "cause"
                     and item.rule.phase == "runtime" and item.hits.latest.line >= since), None)

    def analysis(self, run: Run | None = None) -> RunAnalysis:
        """Return the analysis of a start (by default the one the report is about) as it is now."""
        self._session.settle()
        return self._analysis(run or self.chosen_run())

    def _cards_of(self, run: Run) -> tuple[Card, ...]:
        """Return the GPUs shown after the output of a start began, and before that of the next one."""
        begins = [other.first_line for other in self.runs]
        at = self.runs.index(run) if run in self.runs else 0
        low = begins[at] if at else 0
        high = next((line for line in begins[at + 1:] if line), None)
        return tuple(card for card in self._cards if card.line >= low and (high is None or card.line < high))

    def _analysis(self, run: Run) -> RunAnalysis:
        typed = self._given or run.command or (self._session.finder.command if run is self.runs[-1] else None)
        return RunAnalysis(run, self.base, self.options, typed, self._session.redactor,
                           is_given=self._given is not None,
                           programs=None if self._given is not None else self._session.programs,
                           cards=self._given_cards or self._cards_of(run))

    def stall_report(self, seconds: float, after: float | None = None) -> Report | None:
        """Return the report if no line for `seconds` is a stall in the phase reached, else None.

        `after` is the user's bound in place of the phase's own. A serving server may be idle.
        """
        run = self.runs[-1]
        stall = self.base.stalls.get(run.phase or "args")
        if stall is None or run.status or seconds < (stall.after if after is None else after):
            return None
        return stalled(self.snapshot(), self.analysis(run), stall, seconds)

    def chosen_run(self) -> Run:
        """Return the start the report is about. Raises InputError when there is none of the number asked for."""
        wanted, kept = self.options.run, self._session.chosen
        if wanted is not None:
            for run in (*self.runs, *([kept] if kept else [])):
                if run.number == wanted:
                    return run
            raise InputError(message("there is no run {run}: the log holds {runs}", run=wanted, runs=self.run_count))
        return self._telling_run()

    def _telling_run(self) -> Run:
        """Return the start that a report is about where the user asks for none: the last one that explains itself."""
        last = self.runs[-1 - self._typed_only()]
        if self.is_page:  # its starts are of several servers: the last one with output counts
            return last
        if last.state() not in {"starting", "unknown"} or self.analysis(last).fired:
            return last
        explained = [run for run in self.runs if run.state() == "failed" or self.analysis(run).fired]
        if not explained:
            explained = [run for run in self.runs if self._fails_by_itself(run)]
        return explained[-1] if explained else last

    def _fails_by_itself(self, run: Run) -> bool:
        """Return whether a start without markers and rules shows a failure, such as a bare exception."""
        found = failed(self.analysis(run), run.state())
        return found is not None and found.failure.kind != "request"


def _cards_beside(data: bytes) -> tuple[Card, ...]:
    """Return the GPUs that tables beside the output of a server show; what a server printed is no such table."""
    text = data.decode("utf-8", "replace")
    found = cards_in(text)
    lines = text.split("\n") if found else []
    return tuple(card for card in found if not is_output(lines[card.line - 1]))


def given_command(options: Options) -> Command | Typed | None:
    """Parse the command given with `--command` or `--config`: vLLM's own, or that of a program around it.

    Raises InputError if it is not a command.
    """
    text = options.command or options.config
    if not text:
        return None
    command = parse_frontend(text) or parse(text)
    if command is None:
        raise InputError(message("the command given is not one that starts vLLM"))
    return command


def diagnose(source: str | bytes | os.PathLike[str] | IO[bytes] | Iterable[bytes],
             options: Options | None = None, *, path: str | None = None) -> Report:
    """Diagnose one log.

    `source` is the log's bytes, a path (also `.gz`, `.xz`, `.bz2`, `.zst`), a binary file, or an iterable of bytes.
    Raises InputError when it cannot be read.
    """
    name = str(path or (os.fspath(source) if is_path(source) else "-"))
    if is_path(source) or hasattr(source, "read"):
        with one_log(cast("str | IO[bytes]", source), name) as log:
            return diagnose_log(log, options, name)
    diagnosis = Diagnosis(options, name)
    for chunk in chunks(source, _CHUNK):
        diagnosis.feed(chunk)
    return diagnosis.finish()


def diagnose_log(log: Log, options: Options | None = None, name: str | None = None) -> Report:
    """Diagnose an open log, under its own name unless another one is given. Raises InputError."""
    diagnosis = Diagnosis(options, log.name if name is None else name)
    for chunk in log.chunks(_CHUNK):
        diagnosis.feed(chunk)
    diagnosis.add_notes(*log.notes)
    return diagnosis.finish()

