"""`vllm serve … 2>&1 | vllm-doctor watch`: standard input to standard output.

The pump is in the middle of the user's pipeline and behaves like `cat`: it ends with its input or with its
reader, and Ctrl-C, which reaches the server too, does not cut off the server's last lines: a process of its own passes
on what comes behind the report.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import NamedTuple

from vllm_doctor.pipe.analyser import BACKLOG, Analyse, Analyser
from vllm_doctor.pipe.analyser_channel import READ_SIZE
from vllm_doctor.pipe.descriptors import close_fds, open_standard_fds
from vllm_doctor.pipe.signal_wakeup import Signals
from vllm_doctor.pipe.status_line import StatusLine
from vllm_doctor.pipe.stream_copier import UNREADABLE, Route

STOP_GRACE = 1.0  # seconds after SIGTERM for what is already in the pipe
STUCK_LIMIT = 5  # seconds after SIGTERM after which output that nobody reads is given up
INTERRUPT_GRACE = 1.0  # seconds after Ctrl-C in which the server's last lines are still read
INTERRUPT_LAG = 0.5  # seconds more for an analyser that is behind
_MOST_FDS = 1024  # more than we ever open


class _StuckError(Exception):
    """Nobody reads the output, and we were asked to end."""


class PumpResult(NamedTuple):
    """What `pump` did.

    `status` is what `analyse` returned; 2 when the log could not be read, or not passed on in full (a reader of
    stdout that goes is no such fault), or the analyser died.
    """

    status: int
    bytes_passed: int
    bytes_not_analysed: int  # never handed to the analyser; what it held unread when it died is not known
    analyser_died: bool
    stopped_by: int | None = None  # the signal that ended the pump before the end of the input


def pump(
    analyse: Analyse, *, stdin: int = 0, stdout: int = 1, backlog: int = BACKLOG, once: bool = False,
    status_line: bool = False,
) -> PumpResult:
    """Copy `stdin` to `stdout` until it ends; `analyse(reader)` runs in a child and reads along.

    `stdout` is closed before the verdict is waited for. When its reader goes, reading stops, as with `cat`.
    When it fails otherwise (a full disk), one line says so, reading goes on and the status is 2.
    Ctrl-C reaches the server too: INTERRUPT_GRACE seconds after SIGINT the pump ends, and what the server prints later
    is passed on in the background. On SIGTERM and SIGHUP what is already in the pipe passes, then
    the pump ends. In each case the verdict comes first, within `analyser.LIMIT`. With `once` it also ends when
    `analyse` returns early.
    `status_line` says that stderr is a terminal and may show one.
    """
    open_standard_fds()
    with Signals() as signals:
        signals.handle(signal.SIGINT, signal.SIG_IGN)
        line = StatusLine(wanted=status_line)
        route = Route(stdin, stdout, 0, line)
        analyser = Analyser(analyse, (stdin, stdout, *signals.fds), backlog, line, whole_lines=False)
        ending = _Ending(analyser, signals)
        with suppress(_StuckError):
            _copy(route, analyser, ending, signals.wake, once=once)
        if ending.stopped_by == signal.SIGINT:
            _pass_on_in_background(stdin, stdout)
        ending.input_has_ended()
        fault = max(route.fault, UNREADABLE if close_fds(stdout) else 0)
        close_fds(stdin)
        analyser.finish(signals.wake)
    status = UNREADABLE if analyser.died or analyser.exit_code is None else analyser.exit_code
    return PumpResult(
        max(status, fault),
        route.passed,
        analyser.not_analysed,
        analyser.died,
        ending.stopped_by,
    )


def _copy(route: Route, analyser: Analyser, ending: _Ending, wake: int, *, once: bool) -> None:
    """Copy until the input, its reader or a signal ends it; with `once` until the verdict is there, too."""
    while True:
        ready = analyser.wait((route.source,), wake, ending.pause)
        if route.source in ready and not route.step(analyser):
            return
        analyser.flush()
        if analyser.reap() and once and not analyser.died:
            return
        if ending.is_due(silent=route.source not in ready):
            return


class _Ending:
    """What signals ask of the pump. The first SIGTERM or SIGHUP is handled here, a second one by its default action."""

    def __init__(self, analyser: Analyser, signals: Signals) -> None:
        self.stopped_by: int | None = None
        self._analyser = analyser
        self._stop_at = 0.0
        self._interrupted = 0.0  # when, by Ctrl-C; 0: not
        self._copying = True
        signals.handle(signal.SIGALRM, _give_up)
        signals.handle(signal.SIGTERM, self._stop)
        signals.handle(signal.SIGHUP, self._stop)
        signals.handle(signal.SIGINT, self._interrupt)

    @property
    def pause(self) -> float | None:
        """Return the seconds to wait for more input."""
        return 0.0 if self.stopped_by else 0.2 if self._interrupted else None

    def is_due(self, *, silent: bool) -> bool:
        """Return whether the pump ends now."""
        now = time.monotonic()
        if self.stopped_by:
            return silent or now > self._stop_at
        if self._interrupted and now >= self._interrupted + INTERRUPT_GRACE:
            self.stopped_by = signal.SIGINT
        return self.stopped_by is not None

    def input_has_ended(self) -> None:
        """Note the end of the input: only the verdict is awaited now."""
        signal.alarm(0)
        self._copying = False
        if self._interrupted:
            if self._analyser.behind:
                self._analyser.hurry(INTERRUPT_LAG)
            else:
                self._analyser.hurry()

    def _stop(self, number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        self._analyser.hurry()
        if self._copying:
            self.stopped_by, self._stop_at = number, time.monotonic() + STOP_GRACE
            signal.alarm(STUCK_LIMIT)

    def _interrupt(self, _number: int, _frame: object) -> None:
        self._interrupted = self._interrupted or time.monotonic()
        if not self._copying:
            self._analyser.hurry(0.0)


def _pass_on_in_background(source: int, sink: int) -> None:
    """Pass on, in a process of its own, what still comes, until the input or its reader ends."""
    if os.fork():
        return
    with suppress(BaseException):
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.dup(source), 0)
        os.dup2(os.dup(sink), 1)
        os.closerange(2, _MOST_FDS)  # a pipe of ours held here would hide its end from the analyser
        os.open(os.devnull, os.O_RDWR)
        while data := os.read(0, READ_SIZE):
            left = memoryview(data)
            while left:
                left = left[os.write(1, left):]
    os._exit(0)


def _give_up(_number: int, _frame: object) -> None:
    raise _StuckError
