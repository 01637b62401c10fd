"""File descriptors, safely closed, opened and enlarged, and one line on stderr that cannot fail.

A descriptor of ours must never take the number of a standard one that the caller had closed, and a standard one that
is closed must keep its number.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
from contextlib import suppress

PIPE_SIZE = 1024 * 1024  # bytes; what Linux allows without privileges


def wait_writable(fd: int) -> None:
    """Sleep until `fd` is writable."""
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    poller.poll()


def open_standard_fds() -> None:
    """Open closed fds 0-2, so that no pipe of ours gets such a number; writing to them still fails."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:  # noqa: PERF203
            os.open(os.devnull, os.O_RDONLY)  # takes the lowest free number: this one


def close_fds(*fds: int) -> bool:
    """Close each; a standard one becomes /dev/null. Return whether closing failed (a late write error)."""
    failed = False
    for fd in fds:
        try:
            os.close(fd)
        except OSError as error:
            failed = failed or error.errno != errno.EBADF
        if fd <= 2:
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != fd:
                os.dup2(nothing, fd)
                os.close(nothing)
    return failed


def enlarge(fd: int) -> None:
    """Enlarge a pipe as far as the system allows; do nothing for other files and systems."""
    with suppress(AttributeError, OSError):  # Linux only
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_SIZE)


def write_error(text: str) -> None:
    """Print one line on stderr; never fail."""
    with suppress(OSError):
        os.write(2, f"vllm-doctor: {text}\n".encode(errors="backslashreplace"))
