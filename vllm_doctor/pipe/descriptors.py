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
    """Sleep until `fd` takes more."""
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    poller.poll()


def open_standard_fds() -> None:
    """Fill closed fds 0-2, so that no pipe of ours gets such a number; writing to them fails as it did."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:  # noqa: PERF203
            os.open(os.devnull, os.O_RDONLY)  # takes the lowest free number: this one


def close_fds(*fds: int) -> bool:
    """Close each; a standard one becomes /dev/null. Whether closing failed (a late write error)."""
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
    """Make a pipe as large as is allowed; other files and systems stay as they are."""
    with suppress(AttributeError, OSError):  # Linux only
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_SIZE)


def say(text: str) -> None:
    """One line on stderr; never fails."""
    with suppress(OSError):
        os.write(2, f"vllm-doctor: {text}\n".encode(errors="backslashreplace"))
