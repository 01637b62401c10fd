"""Report for `watch` and `run` on stderr while a server's log passes: causes at once, the full report at the end."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator
from typing import Any, Protocol

from vllm_doctor.cli.error_output import report_error
from vllm_doctor.cli.exit_status import ExitStatus, exit_status
from vllm_doctor.cli.streams import discard
from vllm_doctor.cli.terminal import colored, columns
from vllm_doctor.diagnosis.engine import Diagnosis
from vllm_doctor.diagnosis.live_verdict import current_limit, failure_cause
from vllm_doctor.diagnosis.stalls import stall_report
from vllm_doctor.errors import InputError
from vllm_doctor.language import language
from vllm_doctor.options import Options
from vllm_doctor.pipe import Gap
from vllm_doctor.pipe.start_progress import StartProgress
from vllm_doctor.pipe.status_line import StatusText
from vllm_doctor.reports import termination_message, texts, to_json, to_text
from vllm_doctor.reports.escape import one_line
from vllm_doctor.reports.model import Report
from vllm_doctor.reports.output import finish
from vllm_doctor.text.terminal_width import cut
from vllm_doctor.text_files import write_text

_PULSE = 0.5  # seconds between two looks at the clock while nothing comes
_CHECK_SHARE = 20  # the rules are checked again for at most this fraction of the time (1/20)
_LONGEST_PAUSE = 0.5  # seconds
_SETTLE = 1.0  # seconds for which the first report of a cause is held: most logs end by then, with the full report
_PAUSE = 1.0  # seconds without output after which a traceback was the last that a start shows
_BAR = 56  # columns of the line above a report


class Source(Protocol):
    """Where the log arrives: the analyser's end of a pipe, or a file that grows."""

    status: StatusText

    def __iter__(self) -> Iterator[bytes | Gap]: ...

    def wait(self, seconds: float) -> bool:
        """Return whether a piece, or the end, is there within `seconds`."""


class LiveReporter:
    """Analyses the log as it arrives and reports.

    `name` is the log's; `bar_name` names it above each report, where several logs are followed. What the first
    `silent_bytes` show is not reported before the end. `termination_log` gets the cause in a few lines.
    """

    def __init__(self, options: Options, format_: str, output: str | None, once: bool, values: dict[str, Any], *,
                 name: str = "standard input", bar_name: str = "", silent_bytes: int = 0,
                 termination_log: str | None = None) -> None:
        self.exit_status = ExitStatus.OK
        self._options = options
        self._language = language(options.language)
        self._name = name
        self._bar_name = bar_name
        self._silent_bytes = silent_bytes
        self._termination_log = termination_log
        self._format = format_
        self._output = output
        self._once = once
        self._values = values
        self._status = StatusText()
        self._cause: str | None = None  # of a failure, as reported
        self._held: tuple[Report, float] | None = None  # the first report of a cause, and when it is due
        self._printed = ("", 0.0)  # the last report's text, and when it was printed
        self._ready = 0  # the start of which it was reported that it serves
        self._old_failure: tuple[int, str | None] = (0, None)  # the start and the cause of one that is not reported
        self._limits: dict[str, str] = {}  # what limited the server, as reported: id -> kind of load period
        self._lasting_limit = ""  # the one of them that lasts
        self._checked = (0, "", "", 0)  # the news when the rules were last checked
        self._next_check = 0.0
        self._arrived = 0.0  # when the log last grew
        self._checked_pause = 0.0  # the `_arrived` of the pause in which the rules were last checked
        self._stalled = ""  # the phase in which a stall was reported
        self._output_failed = False  # something could not be printed or written
        self._shown = ("", 0.0)  # the status line's text, and when it was set

    @property
    def status_line(self) -> bool:
        """Return whether to show a status line: only on a terminal that can erase a line."""
        return (self._format == "text" and not self._values["quiet"] and sys.stderr.isatty()
                and os.environ.get("TERM", "dumb") != "dumb")

    @property
    def has_cause(self) -> bool:
        """Return whether the cause of a failure is certain."""
        return self._cause is not None

    def follow(self, reader: Source) -> int:
        """Analyse the log until it ends; return the exit status."""
        for _ in self.steps(reader):
            pass
        return self.exit_status

    def steps(self, reader: Source) -> Iterator[bool]:
        """Analyse the log until it ends, and set the exit status; each step says whether something had arrived."""
        diagnosis = Diagnosis(self._options, self._name, live=True)
        self._status = reader.status
        missed = 0
        for piece in self._pieces(reader, diagnosis):
            if isinstance(piece, Gap):
                diagnosis.skip(piece.lines)
                missed += piece.size
                yield True
                continue
            diagnosis.feed(piece)
            if piece:
                self._arrived = time.monotonic()
            if self._silent_bytes > 0:
                self._silent_bytes -= len(piece)
                run = diagnosis.runs[-1]
                self._old_failure = (run.number, failure_cause(diagnosis.reading))
                self._ready = run.number if run.status == "serving" else 0
            else:
                self._check_rules(diagnosis)
                self._check_pause(diagnosis)
                self._print_held(now=time.monotonic())
            yield bool(piece)
            if self._once and (self._cause or diagnosis.runs[-1].status == "serving"):
                report = diagnosis.snapshot()
                break
        else:
            report = diagnosis.finish()
        if self._held and self._held[0].primary != report.primary:
            self._print_held()
        if missed:
            self._print(self._language.say("vllm-doctor: {size:,} bytes came too fast and were not analysed",
                                           size=missed) + "\n")
        self._print_report(report, whole=True)
        report = report.in_language(self._language)
        if self._output:
            text = to_json.render(report) if self._format == "json" else to_text.render(
                report, width=columns(self._values["width"]), verbose=self._values["verbose"])
            self._save(self._output, finish(text, self._format, [report]))
        if self._termination_log and (message := termination_message.render(report)):
            self._save(self._termination_log, message)
        self.exit_status = ExitStatus.USAGE if self._output_failed else exit_status([report], self._values["fail_on"])

    def _pieces(self, reader: Source, diagnosis: Diagnosis) -> Iterator[bytes | Gap]:
        """Yield what arrives, b"" while nothing does; report a stalled start once per phase."""
        source = iter(reader)
        last = time.monotonic()
        progress = StartProgress(diagnosis.reading.base.stalls, last, self._language)
        while True:
            run, now = diagnosis.runs[-1], time.monotonic()
            self._update_status_line("" if run.status else progress.line(now), now)
            if reader.wait(_PULSE):
                piece = next(source, None)
                if piece is None:
                    self._report_stall(diagnosis, time.monotonic() - last)  # on a busy machine no pulse may have come
                    return
                last = time.monotonic()
                yield piece
                run = diagnosis.runs[-1]
                progress.see(piece if isinstance(piece, bytes) else b"", run.number, run.current_phase, last)
                continue
            yield b""
            self._report_stall(diagnosis, time.monotonic() - last)

    def _report_stall(self, diagnosis: Diagnosis, seconds: float) -> None:
        """Report a stalled start once per phase, when nothing has arrived for long enough."""
        after, phase = self._values.get("stall_after"), diagnosis.runs[-1].current_phase
        report = None if after == 0 or phase == self._stalled else stall_report(diagnosis.reading, seconds, after)
        if report is not None:
            self._stalled = phase
            self._print_report(report, whole=False)

    def _update_status_line(self, words: str, now: float) -> None:
        """Set the status line: again with each pulse, because the log may have erased it; clear it only once."""
        before, at = self._shown
        if (words or before) and (now - at >= _PULSE or not words):
            self._status.show(cut(words, _terminal_width() - 1))
            self._shown = (words, now)

    def _check_rules(self, diagnosis: Diagnosis) -> None:
        """Check whether the rules find more: only after news, and not too often."""
        run, now = diagnosis.runs[-1], time.monotonic()
        news = (run.number, run.phase, run.status, run.news)
        if news == self._checked or now < self._next_check:
            return
        self._checked = news
        cause = failure_cause(diagnosis.reading)
        if cause is not None and cause != self._cause and (run.number, cause) != self._old_failure:
            self._cause = cause
            if not self._once:
                self._hold(diagnosis.snapshot())
        self._report_ready(diagnosis)
        self._check_load(diagnosis)
        self._next_check = time.monotonic() + min(_LONGEST_PAUSE, _CHECK_SHARE * (time.monotonic() - now))

    def _check_pause(self, diagnosis: Diagnosis) -> None:
        """Report a failure that only the silence after its traceback shows; check once in each pause."""
        if self._arrived == self._checked_pause or time.monotonic() < self._arrived + _PAUSE:
            return
        self._checked_pause = self._arrived
        cause, number = failure_cause(diagnosis.reading, paused=True), diagnosis.runs[-1].number
        if cause is not None and cause != self._cause and (number, cause) != self._old_failure:
            self._cause = cause
            if not self._once:
                self._hold(diagnosis.snapshot())
                self._print_held()

    def _hold(self, report: Report) -> None:
        """Hold the first report of a cause until it is due; JSON, which programs read, is printed at once."""
        self._print_held()
        self._held = (report, time.monotonic() + (_SETTLE if self._format == "text" else 0))

    def _print_held(self, now: float = math.inf) -> None:
        if self._held and now >= self._held[1]:
            report, self._held = self._held[0], None
            self._print_report(report, whole=False)

    def _report_ready(self, diagnosis: Diagnosis) -> None:
        """Report once per start that it serves: only on a terminal, for a pipe is silent about healthy starts."""
        run = diagnosis.runs[-1]
        if self.status_line and run.status == "serving" and run.number != self._ready:
            self._ready = run.number
            log = f"{self._bar_name}: " if self._bar_name else ""
            self._print(f"vllm-doctor: {log}{one_line(texts.serving_line(self._snapshot(diagnosis)))}\n")

    def _snapshot(self, diagnosis: Diagnosis) -> Report:
        return diagnosis.snapshot().in_language(self._language)

    def _check_load(self, diagnosis: Diagnosis) -> None:
        """Report once what limits a serving server when it has lasted, and once that it is over."""
        run = diagnosis.runs[-1]
        lasts = run.load.current_period
        if lasts is None and self._lasting_limit:
            report = self._snapshot(diagnosis)
            when = run.load.summary().get(f"{self._limits[self._lasting_limit]}_time")
            title = next((item.title for item in report.findings if item.id == self._lasting_limit), "")
            if self._format == "json":
                self._print_report(report, whole=False)
            elif title:
                log = f"{self._bar_name}: " if self._bar_name else ""
                over = self._language.say("over for now: {title} ({id})", title=title, id=self._lasting_limit)
                self._print(f"\nvllm-doctor: {log}{over}{f', {when}' if when else ''}\n")
            self._lasting_limit = ""
        limit = current_limit(diagnosis.reading) if lasts else None
        if lasts and limit and limit not in self._limits:
            self._limits[limit], self._lasting_limit = lasts[0], limit
            self._print_report(diagnosis.snapshot(), whole=False)

    def _print_report(self, report: Report, *, whole: bool) -> None:
        report = report.in_language(self._language)
        if self._format == "json":
            self._print(finish(to_json.render_line(report), "jsonl", [report]))
            return
        silent = report.worst() in {None, "info"} and report.status != "stalled" and not self._values["verbose"]
        if silent:
            return
        text = to_text.render(report, width=columns(self._values["width"]), verbose=self._values["verbose"],
                              color=colored(self._values["color"], sys.stderr), brief=not whole)
        now = time.monotonic()
        if text == self._printed[0] and now - self._printed[1] < _SETTLE:
            return
        self._printed = (text, now)
        bar = " ".join(["--- vllm-doctor", *([self._bar_name] if self._bar_name else []), ""]).ljust(_BAR, "-")
        self._print(f"\n{bar}\n" + finish(text, "text", [report]) + "\n")

    def _print(self, text: str) -> None:
        """Write to stderr in one piece, after the status line is removed."""
        self._status.remove()
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:  # closed, or a full disk: the log goes on all the same
            discard(2)
            self._output_failed = True

    def _save(self, path: str, text: str) -> None:
        try:
            write_text(path, text)
        except InputError as error:
            self._status.remove()
            report_error(error)
            self._output_failed = True


def _terminal_width() -> int:
    """Return the current width of the terminal on stderr: a line that wraps could not be removed."""
    try:
        return os.get_terminal_size(2).columns or 80
    except OSError:
        return 80
