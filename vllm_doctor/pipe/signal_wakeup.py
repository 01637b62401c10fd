"""Signal handlers for as long as the log passes, put back afterwards.

A pipe that becomes readable with each signal wakes the loop that copies, so that no signal is missed between two looks.
"""

from __future__ import annotations

import os
import signal
from typing import Any, final

from vllm_doctor.pipe.descriptors import close_fds


@final
class Signals:
    """Handlers for the time of a `with`, and a pipe (`wake`) that is readable once a signal was handled."""

    def __enter__(self) -> Signals:
        self._before: dict[int, Any] = {}
        self.fds = os.pipe()
        self.wake = self.fds[0]
        for fd in self.fds:
            os.set_blocking(fd, False)
        self._wakeup_before = signal.set_wakeup_fd(self.fds[1], warn_on_full_buffer=False)
        self.handle(signal.SIGCHLD, lambda *_: None)
        return self

    def handle(self, number: int, action: Any) -> None:
        """Set a handler; a signal that the caller's parent ignores (nohup) stays ignored."""
        inherited = self._before.setdefault(number, signal.getsignal(number))
        if inherited != signal.SIG_IGN or number == signal.SIGCHLD:
            signal.signal(number, action)

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._wakeup_before)
        for number, action in self._before.items():
            signal.signal(number, action if action is not None else signal.SIG_DFL)
        close_fds(*self.fds)
