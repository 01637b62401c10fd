"""`vllm serve … 2>&1 | vllm-doctor watch`: a transparent pipe that speaks up when it knows."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from vllm_doctor import pipe
from vllm_doctor.cli.options import check_ids, colored, columns, exit_status, gather, shared
from vllm_doctor.errors import InputError
from vllm_doctor.options import Options
from vllm_doctor.outputs import write_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vllm_doctor.diagnosis import Diagnosis
    from vllm_doctor.report.model import Report

_PULSE = 0.5  # seconds between two looks at the clock while nothing comes


@click.command("watch")
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True,
              help="json: one report a line, at each change of the cause.")
@click.option("--output", metavar="FILE", help="Write the last report there as well.")
@click.option("--stall-after", type=click.FloatRange(min=0), metavar="SECONDS",
              help="Silence of a start that is a stall (default: by phase, 180 to 900; 0: never).")
@click.option("--once", is_flag=True, help="End after the first certain cause, or when the server serves.")
@shared
def command(format_: str, output: str | None, once: bool, **values: Any) -> None:
    """Pass standard input on unchanged, at once, and report on stderr when the cause of a failure is certain."""
    if sys.stdin.isatty():
        raise InputError("nothing is piped in: vllm serve … 2>&1 | vllm-doctor watch")
    options = gather(values)
    check_ids(options)
    voice = Voice(options, format_, output, once, values)
    result = pipe.pump(voice.listen, once=once)
    if result.analyser_died:
        click.echo("vllm-doctor: the analyser ended early; all bytes were passed on", err=True)
    sys.exit(result.status)


class Voice:
    """Reads along and says what it knows, on stderr. Runs in the process beside the pump."""

    def __init__(self, options: Options, format_: str, output: str | None, once: bool, values: dict[str, Any]) -> None:
        self._options = options
        self._format = format_
        self._output = output
        self._once = once
        self._values = values
        self._said: str | None = None

    def listen(self, reader: pipe.Reader) -> int:
        """Analyse what comes until it ends; returns the exit status."""
        from vllm_doctor.diagnosis import Diagnosis  # noqa: PLC0415 - after the fork, so the pump stays light

        diagnosis = Diagnosis(self._options, "standard input", live=True)
        missed = 0
        for piece in self._pieces(reader, diagnosis):
            if isinstance(piece, pipe.Gap):
                diagnosis.skip(piece.lines)
                missed += piece.size
                continue
            diagnosis.feed(piece)
            cause = diagnosis.certain()
            if cause is not None and cause != self._said:
                self._said = cause
                report = diagnosis.snapshot()
                self._speak(report, whole=self._once)
                if self._once:
                    return exit_status([report], self._values["fail_on"])
            if self._once and diagnosis.runs[-1].status == "serving":
                return 0
        report = diagnosis.finish()
        if missed:
            click.echo(f"vllm-doctor: {missed:,} bytes came too fast and were not analysed", err=True)
        self._speak(report, whole=True)
        if self._output:
            self._save(report)
        return exit_status([report], self._values["fail_on"])

    def _pieces(self, reader: pipe.Reader, diagnosis: Diagnosis) -> Iterator[bytes | pipe.Gap]:
        """What comes; while nothing does, a start that stands still is told, once a phase."""
        source = iter(reader)
        last, told = time.monotonic(), ""
        while True:
            if not reader.wait(_PULSE):
                phase = diagnosis.runs[-1].phase or "args"
                if phase != told:
                    report = self._stall(diagnosis, time.monotonic() - last)
                    if report is not None:
                        told = phase
                        self._speak(report, whole=False)
                continue
            piece = next(source, None)
            if piece is None:
                return
            last = time.monotonic()
            yield piece

    def _stall(self, diagnosis: Diagnosis, seconds: float) -> Report | None:
        after = self._values.get("stall_after")
        return None if after == 0 else diagnosis.stall(seconds, after)

    def _speak(self, report: Report, *, whole: bool) -> None:
        from vllm_doctor.report import to_json, to_text  # noqa: PLC0415 - see `listen`

        if self._format == "json":
            click.echo(to_json.render_line(report), nl=False, err=True)
            return
        silent = report.worst() in {None, "info"} and report.status != "stalled" and not self._values["verbose"]
        if silent:
            return
        text = to_text.render(report, width=columns(self._values["width"]), verbose=self._values["verbose"],
                              color=colored(self._values["color"], sys.stderr), brief=not whole)
        click.echo("\n--- vllm-doctor " + "-" * 40 + "\n" + text, err=True)

    def _save(self, report: Report) -> None:
        from vllm_doctor.report import to_json, to_text  # noqa: PLC0415 - see `listen`

        text = to_json.render(report) if self._format == "json" else to_text.render(report)
        try:
            write_text(str(self._output), text)
        except InputError as error:
            click.echo(f"vllm-doctor: {error}", err=True)
