"""The engine: bytes are fed, a report comes out.

`diagnose` reads a whole log; `watch` feeds the same `Diagnosis` as the bytes arrive. The same bytes give the same
report however they are chunked.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import IO, cast

from vllm_doctor.diagnosis import page_reading, reversed_reading, second_reading
from vllm_doctor.diagnosis.log_reading import LogReading
from vllm_doctor.diagnosis.run import Run
from vllm_doctor.diagnosis.user_input import UserInput
from vllm_doctor.gpu_status import Card, cards_in
from vllm_doctor.language import language
from vllm_doctor.logs.inputs import Log, chunks, is_path, one_log
from vllm_doctor.logs.pasted_text import LONGEST
from vllm_doctor.options import Options
from vllm_doctor.pages import read_page
from vllm_doctor.pages.line_kinds import is_output
from vllm_doctor.reports.model import Report
from vllm_doctor.rulebase.loader import load

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
        options = options or Options()
        self.path = path
        self.language = language(options.language)
        self.reading = LogReading(load(options.rules), options, path, UserInput.of(options), live=live)
        if on_start_end is not None:
            self.reading.session.on_start_end = _reporter(self.reading, on_start_end)
        self._pasted: bytearray | None = None if live else bytearray()  # the input, while it is short
        self._report: Report | None = None  # once it is finished

    @property
    def runs(self) -> deque[Run]:
        """Return the last starts of the server, the current one at the end."""
        return self.reading.runs

    def feed(self, data: bytes, *, earlier_starts: bool = False) -> None:
        """Read some more bytes. With `earlier_starts`, only the begin and end of the server starts are recorded."""
        if self._pasted is not None:
            self._pasted += data
            if len(self._pasted) > LONGEST and not page_reading.may_be_large(self._pasted):
                if reversed_reading.is_reversed(self._pasted):
                    self.add_notes(reversed_reading.TOO_LONG)
                self._pasted = None
        self.reading.session.feed(data, earlier_starts=earlier_starts)

    def skip(self, lines: int) -> None:
        """Count lines that were not fed, so that line numbers stay correct."""
        self.reading.session.miss(lines)

    def add_notes(self, *notes: str) -> None:
        """Add a remark about reading the log to the report's notes."""
        self.reading.remarks += notes

    def snapshot(self) -> Report:
        """Return the report on what was fed so far, its texts as messages; more can be fed."""
        return self.reading.report()

    def finish(self) -> Report:
        """Return the report on everything fed, in the language of the options. Nothing can be fed afterwards."""
        if self._report is None:
            self.reading.session.finish()
            self._report = self._read_paste(bytes(self._pasted or b"")).in_language(self.language)
        return self._report

    def _read_paste(self, data: bytes) -> Report:
        """Return the report on an input of which `data` is all, if it is short: it may be a page, or a damaged log."""
        if not data:
            return self.reading.report()
        if (turned := reversed_reading.read(data, self.reading)) is not None:
            self.reading, report = turned
            return report
        if (page := read_page(data)) is not None:
            self.reading, report = page_reading.read(page, self.reading)
            return report
        self.reading.cards = _cards_beside(data)
        return second_reading.read_again(data, self.reading, self.reading.report())


def _reporter(reading: LogReading, on_start_end: Callable[[Run, Report], None]) -> Callable[[Run], None]:
    """Return what reports on each start that has ended: on those with output, of which there may be many."""
    reported = 0

    def report(run: Run) -> None:
        nonlocal reported
        if run.has_output and reported < MOST_STARTS:
            reported += 1
            on_start_end(run, reading.report(reading.settled_analysis(run)))

    return report


def _cards_beside(data: bytes) -> tuple[Card, ...]:
    """Return the GPUs that tables beside the output of a server show; what a server printed is no such table."""
    text = data.decode("utf-8", "replace")
    found = cards_in(text)
    lines = text.split("\n") if found else []
    return tuple(card for card in found if not is_output(lines[card.line - 1]))


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

