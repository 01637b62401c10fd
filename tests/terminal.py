"""A terminal for tests: a session of its own on a pseudo-terminal, and what a person would see on it."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import termios
import time
from pathlib import Path

_OVERRIDES = {"COLUMNS", "LINES", "NO_COLOR"}  # they win over the terminal's own; pytest-xdist sets COLUMNS=80


class Terminal:
    """Runs a shell command in the foreground of its own terminal. `raw` is all it wrote."""

    def __init__(self, command: str, *, term: str = "xterm", columns: int = 100) -> None:
        self.master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        env = {k: v for k, v in os.environ.items() if not k.startswith("COV") and k not in _OVERRIDES} | {"TERM": term}
        env["PYTHONPATH"] = str(Path(__file__).resolve().parent.parent)
        self.process = subprocess.Popen(["bash", "-c", command], stdin=slave, stdout=slave, stderr=slave, env=env,
                                        start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))  # noqa: PLW1509 - no threads here
        os.close(slave)
        self.raw = b""

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def watch(self, seconds: float = 20.0, until: bytes | None = None) -> bytes:
        """What it writes: for so long, or until `until` is there, which must come; returns what is new."""
        at, end = len(self.raw), time.monotonic() + seconds
        while time.monotonic() < end and (until is None or until not in self.raw[at:]):
            if select.select([self.master], [], [], 0.05)[0]:
                try:
                    data = os.read(self.master, 65536)
                except OSError:  # the terminal has been closed
                    break
                self.raw += data
        assert until is None or until in self.raw[at:], self.raw[at:]
        return self.raw[at:]

    def end(self) -> int:
        """Watch until the command ends; its exit status."""
        while self.process.poll() is None:
            self.watch(0.05)
        self.watch(0.1)
        os.close(self.master)
        return self.process.returncode

    def rows(self) -> list[str]:
        """The rows a person sees, with what was overwritten or wiped off gone."""
        rows, column = [""], 0
        text = self.raw.decode().replace("\x1b[K", "\x00")
        for character in text:
            if character == "\r":
                column = 0
            elif character == "\n":
                rows.append("")
            elif character == "\x00":
                rows[-1] = rows[-1][:column]
            else:
                rows[-1] = rows[-1][:column].ljust(column) + character + rows[-1][column + 1:]
                column += 1
        return rows
