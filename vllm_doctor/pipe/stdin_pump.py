"""`vllm serve … 2>&1 | vllm-doctor watch`: standard input to standard output.

The pump stands in the middle of somebody's pipeline and behaves as `cat` does there: it ends with its input or with its
reader, and Ctrl-C, which reaches the server too, does not cut off the server's last lines.
"""

from __future__ import annotations

import signal
import time
from typing import NamedTuple

from vllm_doctor.pipe.analyser import BACKLOG, Analyse, Analyser
from vllm_doctor.pipe.descriptors import close_fds, open_standard_fds
from vllm_doctor.pipe.signals import Signals
from vllm_doctor.pipe.status_line import StatusLine
from vllm_doctor.pipe.stream_copier import UNREADABLE, Route

STOP_GRACE = 1.0  # seconds after SIGTERM for what is already in the pipe
STUCK_LIMIT = 5  # seconds after SIGTERM until a pump that nobody reads from is ended the hard way


class PumpResult(NamedTuple):
    """What `pump` did.

    `status` is what `analyse` returned; at least 1 when the log could not be passed on in full (a reader of
    stdout that goes is no such fault); 2 when the log could not be read or the analyser died.
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
    When it fails otherwise (a full disk), one line says so, reading goes on and the status is at least 1.
    SIGINT is ignored: Ctrl-C reaches the server, whose last lines must still pass. On SIGTERM what is already
    in the pipe passes, then the pump ends. With `once` it also ends when `analyse` returns early.
    `status_line` says that stderr is a terminal and may show one.
    """
    open_standard_fds()
    stopping: list[tuple[int, float]] = []

    def stop(number: int, _frame: object) -> None:
        stopping.append((number, time.monotonic() + STOP_GRACE))
        signal.signal(number, signal.SIG_DFL)
        signal.alarm(STUCK_LIMIT)

    with Signals() as signals:
        signals.handle(signal.SIGINT, signal.SIG_IGN)
        signals.handle(signal.SIGALRM, signal.SIG_DFL)
        line = StatusLine(wanted=status_line)
        route = Route(stdin, stdout, 0, line)
        analyser = Analyser(analyse, (stdin, stdout, *signals.fds), backlog, line, whole_lines=False)
        signals.handle(signal.SIGTERM, stop)
        while True:
            ready = analyser.wait((stdin,), signals.wake, 0.0 if stopping else None)
            if stdin in ready and not route.step(analyser):
                break
            analyser.flush()
            if analyser.reap() and once and not analyser.died:
                break
            if stopping and (stdin not in ready or time.monotonic() > stopping[0][1]):
                break
        signal.alarm(0)
        signals.handle(signal.SIGTERM, signal.SIG_DFL)
        fault = max(route.fault, close_fds(stdout))
        close_fds(stdin)
        analyser.finish(signals.wake)
    status = UNREADABLE if analyser.died or analyser.exit_code is None else analyser.exit_code
    return PumpResult(
        max(status, fault),
        route.passed,
        analyser.not_analysed,
        analyser.died,
        stopping[0][0] if stopping else None,
    )
