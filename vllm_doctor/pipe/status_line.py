"""The status line of a terminal, drawn while no log passes.

The analyser knows the text, but only the process that passes the bytes on knows when the terminal is free. So the
analyser sends the text (`StatusText`), and the passing process draws them (`StatusLine`): never when bytes came in
the last moment or the last one was no newline, and it wipes the line off before the next byte passes. The bytes stay
as they are; the line goes to the terminal on stderr, through a descriptor of its own that never blocks.
"""

from __future__ import annotations

import mmap
import os
import stat
import time
from contextlib import suppress

QUIET = 0.3  # seconds without a byte before the terminal counts as free
_PATIENCE = 0.5  # seconds that the analyser waits for the line to be wiped off before it speaks
_WIPE = b"\r\x1b[K"
_NEWLINE = 10


class StatusText:
    """The analyser's end, which sets the text of the status line. Nothing here ever fails or waits for long."""

    def __init__(self, fd: int = -1, heard: mmap.mmap | None = None) -> None:
        self.fd = fd
        self._heard = heard  # the other end counts there, modulo 256, what it has heard and done
        self._sent = 0

    def show(self, text: str) -> None:
        """Request that the line be drawn when no log passes; later text replaces it, "" removes it."""
        if self.fd < 0:
            return
        try:
            os.write(self.fd, f"{text}\n".encode(errors="replace"))
            self._sent = (self._sent + 1) % 256
        except BlockingIOError:  # full: the other end has had no time for it
            pass
        except OSError:  # the other end has gone, and the line with it
            self.fd, self._heard = -1, None

    def remove(self) -> None:
        """Request that the line be removed, and wait until it is: the caller writes to the terminal next."""
        self.show("")
        until = time.monotonic() + _PATIENCE
        while self._heard is not None and self._heard[0] != self._sent and time.monotonic() < until:
            time.sleep(0.005)


class StatusLine:
    """The end in the process that copies the bytes. `fds` are to be polled; `receive` when one is readable."""

    def __init__(self, *, wanted: bool) -> None:
        self.fds: tuple[int, ...] = ()
        self.words = StatusText()
        self._terminal = -1
        self._heard: mmap.mmap | None = None
        self._drawn = b""  # the words that stand there
        self._last = 0.0  # when a byte passed that the terminal may show
        self._open_lines: set[int] = set()  # the streams whose last byte was no newline
        if not wanted:
            return
        with suppress(OSError):  # the terminal has no name here: there is no status line
            self._terminal = os.open(os.ttyname(2), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
            read_end, write_end = os.pipe()
            for fd in (read_end, write_end):
                os.set_blocking(fd, False)
            self._heard = mmap.mmap(-1, 1)
            self.fds, self.words = (read_end,), StatusText(write_end, self._heard)

    def close_sender(self) -> None:
        """Close the analyser's end, after the fork, in the process that copies the bytes."""
        if self.words.fd >= 0:
            os.close(self.words.fd)
            self.words = StatusText()

    def close(self) -> None:
        """Remove the line for good."""
        self.clear()
        for fd in (*self.fds, self._terminal):
            if fd >= 0:
                os.close(fd)
        self.fds, self._terminal = (), -1

    def clear(self) -> None:
        """Remove the line before a byte passes."""
        if self._drawn:
            self._drawn = b""
            self._write(_WIPE)

    def passed(self, stream: int, last_byte: int) -> None:
        """Note that a byte passed which may appear on the terminal."""
        self._last = time.monotonic()
        if last_byte == _NEWLINE:
            self._open_lines.discard(stream)
        else:
            self._open_lines.add(stream)

    def receive(self) -> None:
        """Receive the newest text, and draw it if the terminal is free."""
        try:
            received = os.read(self.fds[0], 65536)
        except BlockingIOError:
            return
        if not received:  # the analyser has gone
            self.close()
            return
        words = received.removesuffix(b"\n").rpartition(b"\n")[2]
        if not words:
            self.clear()
        elif self._terminal_is_free() and words != self._drawn and self._write(_WIPE + words + b"\r"):
            self._drawn = words
        if self._heard is not None:
            self._heard[0] = (self._heard[0] + received.count(b"\n")) % 256

    def _terminal_is_free(self) -> bool:
        return not self._open_lines and time.monotonic() - self._last >= QUIET

    def _write(self, data: bytes) -> bool:
        """Write to the terminal if it accepts data now and this is its foreground job; never disturb another job."""
        try:
            return os.tcgetpgrp(self._terminal) == os.getpgrp() and os.write(self._terminal, data) > 0
        except OSError:
            return False


def may_be_shown(fd: int) -> bool:
    """Return whether output written there may appear on a terminal: it is not a file on a disk."""
    try:
        return not stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError:
        return False
