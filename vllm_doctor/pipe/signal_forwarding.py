"""Forward SIGTERM, Ctrl-C and other signals to the command that `vllm-doctor run` started."""

from __future__ import annotations

import os
import signal

from vllm_doctor.pipe.analyser import Analyser
from vllm_doctor.pipe.signal_wakeup import Signals


class SignalForwarding:
    """Forwards signals to the command, including those that came before it was started."""

    def __init__(self, signals: Signals) -> None:
        self.pid = 0  # of the command while it runs
        self._analyser: Analyser | None = None
        self._early: list[int] = []
        for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGWINCH):
            signals.handle(kind, self._forward)

    def begin(self, pid: int, analyser: Analyser) -> None:
        """Record the pid of the started command, and forward the signals that came before."""
        self.pid, self._analyser = pid, analyser
        for number in self._early:
            self._forward(number, None)

    def _forward(self, number: int, _frame: object) -> None:
        if self._analyser is None:
            self._early.append(number)
            return
        if number != signal.SIGWINCH:
            self._analyser.hurry()
        if self.pid and not (number in (signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH) and _in_foreground()):
            os.kill(self.pid, number)


def _in_foreground() -> bool:
    """Return whether this process group is the one the terminal's keys send signals to."""
    try:
        tty = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(tty) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(tty)
