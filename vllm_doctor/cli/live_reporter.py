"""Report for `watch` and `run` on stderr while a server's log passes: causes at once, the full report at the end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from vllm_doctor.cli.streams import discard
from vllm_doctor.cli.terminal import colored, columns
from vllm_doctor.cli.values import exit_status
from vllm_doctor.diagnosis.engine import Diagnosis
from vllm_doctor.errors import InputError
from vllm_doctor.exit_status import ExitStatus
from vllm_doctor.options import Options
from vllm_doctor.outputs import write_text
from vllm_doctor.pipe import Gap, Reader
from vllm_doctor.pipe.start_progress import StartProgress
from vllm_doctor.pipe.status_line import StatusWords
from vllm_doctor.reports import to_json, to_text
from vllm_doctor.reports.escape import one_line
from vllm_doctor.reports.model import Report
from vllm_doctor.reports.output import finish

_PULSE = 0.5  # seconds between two looks at the clock while nothing comes
_SHARE = 20  # the rules are weighed anew for at most one part in so many of the time
_LONGEST_PAUSE = 0.5  # seconds


class Voice:
    """Analyses the log as it arrives and reports. Runs in the analyser process, beside the one that copies bytes."""

    def __init__(self, options: Options, format_: str, output: str | None, once: bool, values: dict[str, Any]) -> None:
        self._options = options
        self._format = format_
        self._output = output
        self._once = once
        self._values = values
        self._status = StatusWords()
        self._cause: str | None = None  # of a failure, as said
        self._troubles: dict[str, str] = {}  # what limited the server, as said: id -> kind of spell
        self._trouble = ""  # the one of them that goes on
        self._weighed = (0, "", "", 0)  # the news when the rules were last weighed
        self._next = 0.0
        self._stalled = ""  # the phase in which that was said
        self._lost = False  # something could not be said or written
        self._shown = ("", 0.0)  # the status line's words, and when they were said

    @property
    def status_line(self) -> bool:
        """Return whether to show a status line: only on a terminal that can erase a line."""
        return (self._format == "text" and not self._values["quiet"] and sys.stderr.isatty()
                and os.environ.get("TERM", "dumb") != "dumb")

    def listen(self, reader: Reader) -> int:
        """Analyse the log until it ends; return the exit status."""
        diagnosis = Diagnosis(self._options, "standard input", live=True)
        self._status = reader.status
        missed = 0
        for piece in self._pieces(reader, diagnosis):
            if isinstance(piece, Gap):
                diagnosis.skip(piece.lines)
                missed += piece.size
                continue
            diagnosis.feed(piece)
            self._weigh(diagnosis)
            if self._once and (self._cause or diagnosis.runs[-1].status == "serving"):
                report = diagnosis.snapshot()
                break
        else:
            report = diagnosis.finish()
        if missed:
            self._echo(f"vllm-doctor: {missed:,} bytes came too fast and were not analysed\n")
        self._speak(report, whole=True)
        if self._output:
            self._save(report)
        return ExitStatus.USAGE if self._lost else exit_status([report], self._values["fail_on"])

    def _pieces(self, reader: Reader, diagnosis: Diagnosis) -> Iterator[bytes | Gap]:
        """Yield what arrives, b"" while nothing does; report a stalled start once per phase."""
        source = iter(reader)
        last = time.monotonic()
        progress = StartProgress(diagnosis.base.stalls, last)
        while True:
            run, now = diagnosis.runs[-1], time.monotonic()
            self._show("" if run.status else progress.line(now), now)
            if reader.wait(_PULSE):
                piece = next(source, None)
                if piece is None:
                    self._tell_stall(diagnosis, time.monotonic() - last)  # on a busy machine no pulse may have come
                    return
                last = time.monotonic()
                yield piece
                run = diagnosis.runs[-1]
                progress.see(piece if isinstance(piece, bytes) else b"", run.number, run.phase, last)
                continue
            yield b""
            self._tell_stall(diagnosis, time.monotonic() - last)

    def _tell_stall(self, diagnosis: Diagnosis, seconds: float) -> None:
        """Report a stalled start once per phase, when nothing has arrived for long enough."""
        after, phase = self._values.get("stall_after"), diagnosis.runs[-1].phase or "args"
        report = None if after == 0 or phase == self._stalled else diagnosis.stall(seconds, after)
        if report is not None:
            self._stalled = phase
            self._speak(report, whole=False)

    def _show(self, words: str, now: float) -> None:
        """Set the status line: again with each pulse, because the log may have erased it; clear it only once."""
        before, at = self._shown
        if (words or before) and (now - at >= _PULSE or not words):
            self._status.show(words[:_terminal_width() - 1])
            self._shown = (words, now)

    def _weigh(self, diagnosis: Diagnosis) -> None:
        """Check whether the rules find more: only after news, and not too often."""
        run, now = diagnosis.runs[-1], time.monotonic()
        news = (run.number, run.phase, run.status, run.news)
        if news == self._weighed or now < self._next:
            return
        self._weighed = news
        cause = diagnosis.certain()
        if cause is not None and cause != self._cause:
            self._cause = cause
            if not self._once:
                self._speak(diagnosis.snapshot(), whole=False)
        self._weigh_load(diagnosis)
        self._next = time.monotonic() + min(_LONGEST_PAUSE, _SHARE * (time.monotonic() - now))

    def _weigh_load(self, diagnosis: Diagnosis) -> None:
        """Report once what limits a serving server when it has lasted, and once that it is over."""
        run = diagnosis.runs[-1]
        lasts = run.load.current_period
        if lasts is None and self._trouble:
            report = diagnosis.snapshot()
            when = run.load.summary().get(f"{self._troubles[self._trouble]}_time")
            title = next((item.title for item in report.findings if item.id == self._trouble), "")
            if self._format == "json":
                self._speak(report, whole=False)
            elif title:
                self._echo(f"\nvllm-doctor: over for now: {title} ({self._trouble}){f', {when}' if when else ''}\n")
            self._trouble = ""
        trouble = diagnosis.trouble() if lasts else None
        if lasts and trouble and trouble not in self._troubles:
            self._troubles[trouble], self._trouble = lasts[0], trouble
            self._speak(diagnosis.snapshot(), whole=False)

    def _speak(self, report: Report, *, whole: bool) -> None:
        if self._format == "json":
            self._echo(finish(to_json.render_line(report), "jsonl", [report]))
            return
        silent = report.worst() in {None, "info"} and report.status != "stalled" and not self._values["verbose"]
        if silent:
            return
        text = to_text.render(report, width=columns(self._values["width"]), verbose=self._values["verbose"],
                              color=colored(self._values["color"], sys.stderr), brief=not whole)
        self._echo("\n--- vllm-doctor " + "-" * 40 + "\n" + finish(text, "text", [report]) + "\n")

    def _echo(self, text: str) -> None:
        """Write to stderr in one piece, after the status line is removed."""
        self._status.hush()
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:  # closed, or a full disk: the log goes on all the same
            discard(2)
            self._lost = True

    def _save(self, report: Report) -> None:
        text = to_json.render(report) if self._format == "json" else to_text.render(report)
        try:
            write_text(str(self._output), finish(text, self._format, [report]))
        except InputError as error:
            self._echo(f"vllm-doctor: {one_line(str(error))}\n")
            self._lost = True


def _terminal_width() -> int:
    """Return the current width of the terminal on stderr: a line that wraps could not be removed."""
    try:
        return os.get_terminal_size(2).columns or 80
    except OSError:
        return 80
