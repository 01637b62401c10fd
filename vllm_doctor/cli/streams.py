"""Standard input, output and error, which may be closed, a full disk, or read by nobody.

A closed stream is replaced by one that cannot be read or written, so that no file opened later gets its number
and no code has to check whether it is open. A failure is reported once, in one line, if a stream is left for it.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from vllm_doctor.errors import InputError, failed, reason


def fill_closed() -> None:
    """Replace each closed standard stream by one that fails when it is used."""
    for fd, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDONLY)):
        try:
            os.fstat(fd)
        except OSError:  # noqa: PERF203 - three turns
            os.open(os.devnull, mode)  # takes the lowest free number: this one
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for as long as we run
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for as long as we run
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115 - for as long as we run


def write(text: str) -> None:
    """Write to stdout as UTF-8; a reader that has gone (`| head`) is no error. Raises InputError."""
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        discard(1)
    except OSError as error:
        discard(1)
        raise InputError(failed("standard output", error)) from error


def error_text(error: OSError) -> str:
    """Return what failed, in one line: a file by its name, else a standard stream."""
    return f"{error.filename}: {reason(error)}" if error.filename else f"cannot write: {reason(error)}"


def discard(*fds: int) -> None:
    """Discard what is still buffered for a stream that failed, so that closing it does not fail again."""
    with suppress(OSError):
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd in fds:
            os.dup2(nothing, fd)
        if nothing > 2:
            os.close(nothing)
