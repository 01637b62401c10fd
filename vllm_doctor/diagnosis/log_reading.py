"""Choose the server start that a report is about, and build its report, from what a `LogSession` has read.

A paste may be read more than once: as the log it seems to be, as a page, with its broken lines joined.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from vllm_doctor.diagnosis.failed import failed
from vllm_doctor.diagnosis.log_notes import InputSummary, input_notes, notes
from vllm_doctor.diagnosis.log_session import LogSession
from vllm_doctor.diagnosis.report_builder import build
from vllm_doctor.diagnosis.run import Run
from vllm_doctor.diagnosis.run_analysis import RunAnalysis
from vllm_doctor.diagnosis.user_input import UserInput
from vllm_doctor.errors import InputError
from vllm_doctor.gpu_status import Card
from vllm_doctor.logs.pasted_text import Row
from vllm_doctor.messages import message
from vllm_doctor.options import Options
from vllm_doctor.redact import Redactor
from vllm_doctor.reports.model import Report, Source
from vllm_doctor.rulebase.model import RuleBase

_ENDED_SILENTLY = message("If the process has ended, the log does not show why. Exit code 137 is SIGKILL, usually from "
                          "the OOM killer: dmesg, docker inspect or kubectl describe pod shows it.")


class LogReading:
    """Reads the lines of a log, or of excerpts, and reports on the starts in them."""

    def __init__(self, base: RuleBase, options: Options, path: str, given: UserInput, *, live: bool,
                 redactor: Redactor | None = None) -> None:
        self.base = base
        self.options = options
        self.path = path
        self.given = given
        self.cards: tuple[Card, ...] = ()  # the GPUs that the input shows beside the log
        self.remarks: tuple[str, ...] = ()
        self.is_page = False  # its starts are excerpts of a page, of several servers perhaps
        self.is_live = live
        self._places: dict[int, int] = {}  # the lines of the input, by the lines read in another order
        self.session = LogSession(base, options, live=live)
        self.session.programs.typed = given.typed
        if redactor is not None:
            self.session.redactor = redactor
        elif self.session.redactor is not None:
            self.session.redactor.learn(options.command or options.config or "")

    @property
    def runs(self) -> deque[Run]:
        """Return the last starts of the server, the current one at the end."""
        return self.session.runs

    @property
    def run_count(self) -> int:
        """Return how many starts of the server were seen so far."""
        return self.session.events.run

    def anew(self, options: Options, *, live: bool) -> LogReading:
        """Return another reading of the same input, with nothing read; the secrets that this one found stay hidden."""
        reading = LogReading(self.base, options._replace(shortcuts=False), self.path, self.given, live=live,
                             redactor=self.session.redactor)
        reading.remarks = self.remarks
        return reading

    def feed_rows(self, rows: Iterable[Row]) -> None:
        """Read rows that were made of the input's lines; they keep the numbers of these lines."""
        for row in rows:
            number = self.session.next_number()
            if row.number < number:
                self._places[number] = row.number
            self.session.miss(max(0, row.number - number))
            self.session.feed(row.text.encode() + b"\n")
            self.session.miss(row.lines - 1)

    def analysis(self, run: Run | None = None) -> RunAnalysis:
        """Return the analysis of a start (by default the one the report is about) as it is now."""
        self.session.settle()
        return self.settled_analysis(run or self.chosen_run())

    def settled_analysis(self, run: Run) -> RunAnalysis:
        """Return the analysis of a start whose lines have all been read, as those of an ended start have."""
        given = self.given.command
        typed = given or run.command or (self.session.finder.command if run is self.runs[-1] else None)
        return RunAnalysis(run, self.base, self.options, typed, self.session.redactor, is_given=given is not None,
                           programs=None if given is not None else self.session.programs,
                           cards=self.given.cards or self._cards_of(run))

    def report(self, analysis: RunAnalysis | None = None) -> Report:
        """Return the report on a start (by default the one that tells most, or that was asked for) as it is now."""
        analysis = analysis or self.analysis()
        lines, run = self.session.lines, analysis.run
        runs = max(self.run_count - self._typed_only(), run.number)
        source = Source(self.path, lines.line_count, lines.byte_count, runs, run.number)
        summary = InputSummary(lines.encoding, tuple(lines.wrappers), lines.long_lines, runs - self._cells_only(),
                               self.options.run is not None, tuple(sorted(self.session.matcher.slow)), self._line_of)
        report = build(analysis, source, notes(analysis, summary), input_notes(analysis, summary))
        is_cut = report.status == "starting" and not report.findings and not self.is_live
        return self._numbered_as_in_input(report).with_caveats(
            *self.remarks, *(self._endings(run) if is_cut else ()))

    def _line_of(self, number: int) -> int:
        """Return the number in the input of a line."""
        return self._places.get(number, number)

    def _numbered_as_in_input(self, report: Report) -> Report:
        """Return the report with the input's line numbers where several rows stand on one line or in another order."""
        if not self._places:
            return report
        line_of = self._line_of
        findings = tuple(
            finding._replace(evidence=tuple(one._replace(line=line_of(one.line)) for one in finding.evidence))
            for finding in report.findings)
        failure = report.failure and report.failure._replace(
            line=line_of(report.failure.line), last_line=line_of(report.failure.last_line))
        facts_at = {name: tuple({**place, "line": line_of(place["line"])} for place in found)
                    for name, found in report.facts_at.items()}
        return report._replace(findings=findings, failure=failure, facts_at=facts_at)

    def _endings(self, run: Run) -> tuple[str, ...]:
        """Return what to think of a start whose log ends before the server serves and shows no failure."""
        stall = self.base.stalls.get(run.current_phase)
        if stall is None:
            return (_ENDED_SILENTLY,)
        hangs = message("If the server hangs here, the most common cause is {likely}; py-spy dump --pid PID shows "
                        "what a process waits for.", likely=message(stall.likely))
        return (hangs, _ENDED_SILENTLY)

    def chosen_run(self) -> Run:
        """Return the start the report is about. Raises InputError when there is none of the number asked for."""
        wanted, kept = self.options.run, self.session.chosen
        if wanted is None:
            return self.telling_run()
        for run in (*self.runs, *([kept] if kept else [])):
            if run.number == wanted:
                return run
        raise InputError(message("there is no run {run}: the log holds {runs}", run=wanted, runs=self.run_count))

    def telling_run(self) -> Run:
        """Return the start that a report is about where the user asks for none: the last one that explains itself."""
        last = self.runs[-1 - self._typed_only()]
        if self.is_page:  # its starts are of several servers: the last one with output counts
            return last
        analysis = self.analysis(last)
        if not self.is_live and last.state() == "failed" and analysis.ends_in_traceback and not analysis.has_cause:
            complete = [run for run in self.runs if (found := self.analysis(run)).has_cause or (
                run.state() == "failed" and not found.ends_in_traceback)]
            return complete[-1] if complete else last
        if last.state() not in {"starting", "unknown"} or analysis.fired:
            return last
        explained = [run for run in self.runs if run.state() == "failed" or self.analysis(run).fired]
        if not explained:
            explained = [run for run in self.runs if self._shows_a_failure(run)]
        return explained[-1] if explained else last

    def _shows_a_failure(self, run: Run) -> bool:
        """Return whether a start without markers and rules shows a failure, such as a bare exception."""
        found = failed(self.analysis(run), run.state())
        return found is not None and found.failure.kind != "request"

    def _cells_only(self) -> int:
        """Return how many starts of a notebook are cells that started no engine, such as one run again."""
        if not any(run.is_notebook for run in self.runs):
            return 0
        return sum(not run.has_engine for run in self.runs)

    def _typed_only(self) -> int:
        """Return how many starts at the end are commands without output: those started no server."""
        runs = list(self.runs)
        count = 0
        while count < len(runs) - 1 and not runs[-1 - count].has_output:
            count += 1
        return count

    def _cards_of(self, run: Run) -> tuple[Card, ...]:
        """Return the GPUs shown after the output of a start began, and before that of the next one."""
        begin = run.first_line if run.number > 1 else 0
        return tuple(card for card in self.cards if card.line >= begin and not 0 < run.end_line <= card.line)
