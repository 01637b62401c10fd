"""`vllm-doctor run -- vllm serve …`: a command started here, its stdout and stderr each passed on to its own stream.

This process is invisible to the command and to whoever waits for it: signals are forwarded once, the exit status is
the command's own. Processes that it leaves behind with its pipes open are not waited for.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence

from vllm_doctor.pipe.analyser import BACKLOG, Analyse, Analyser
from vllm_doctor.pipe.descriptors import close_fds, open_standard_fds, write_error
from vllm_doctor.pipe.signal_forwarding import SignalForwarding
from vllm_doctor.pipe.signal_wakeup import Signals
from vllm_doctor.pipe.status_line import StatusLine
from vllm_doctor.pipe.stream_copier import Route

STRAGGLER_GRACE = 1.0  # seconds of silence after the command's end before its open pipes are given up
STRAGGLER_LIMIT = 5.0  # seconds after the command's end, however much still comes

_VIOLENT = frozenset({signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE})


def run_command(argv: Sequence[str], analyse: Analyse, *, backlog: int = BACKLOG, status_line: bool = False) -> int:
    """Run `argv`, pass its stdout and stderr on, each on its own stream, and let `analyse` read both along.

    Returns the command's exit status: 128+n when signal n killed it, 127 when there is no such command, 126
    when it cannot be run. SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGWINCH are forwarded; those that a terminal
    sends to its whole foreground group are not sent twice (vLLM takes a second SIGINT for "now, at once").
    `status_line` says that stderr is a terminal and may show one.
    """
    open_standard_fds()
    exit_code: int | None = None
    with Signals() as signals:
        forwarding = SignalForwarding(signals)
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        try:
            pid = _spawn(argv, out_end, err_end)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            write_error(f"{argv[0]}: {'command not found' if missing else error.strerror}")
            close_fds(out, err)
            return 127 if missing else 126
        finally:
            close_fds(out_end, err_end)
        line = StatusLine(wanted=status_line)
        routes = {out: Route(out, 1, 0, line), err: Route(err, 2, 1, line)}
        analyser = Analyser(analyse, (out, err, *signals.fds), backlog, line, whole_lines=True)
        forwarding.begin(pid, analyser)
        give_up = 0.0
        while routes or exit_code is None:
            ready = analyser.wait(routes, signals.wake, None if exit_code is None else STRAGGLER_GRACE)
            for fd in ready & routes.keys():
                if not routes[fd].step(analyser):
                    close_fds(fd)
                    del routes[fd]
            analyser.flush()
            analyser.reap()
            if exit_code is None:
                ended, wait_status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    exit_code = os.waitstatus_to_exitcode(wait_status)
                    forwarding.pid = 0
                    line.close()
                    give_up = time.monotonic() + STRAGGLER_LIMIT
            elif not ready or time.monotonic() > give_up:
                break  # a process that the command left behind keeps the pipes open
        close_fds(*routes)
        if exit_code is not None and (ending := _violent_end(exit_code)):
            analyser.queue(1, memoryview(ending.encode()))
        analyser.finish(signals.wake)
    return exit_code if exit_code >= 0 else 128 - exit_code


def _violent_end(exit_code: int) -> str:
    """Return a line on a command that was killed by a signal nobody sends to stop it; empty for any other end."""
    number = -exit_code if exit_code < 0 else exit_code - 128
    if number not in _VIOLENT:
        return ""
    return f"The command was ended by signal {number} ({signal.Signals(number).name})\n"


def _spawn(argv: Sequence[str], stdout: int, stderr: int) -> int:
    """Start a command found on PATH in this process group, with the default SIGPIPE action; return its pid."""
    return os.posix_spawnp(
        argv[0],
        list(argv),
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, stdout, 1), (os.POSIX_SPAWN_DUP2, stderr, 2)],
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
    )
