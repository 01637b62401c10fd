"""The environment of the measurements: program, logs, scale and number of rounds."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

MB = 10**6
_LOGS = Path(__file__).with_name("logs.py")
_FOLLOW_THE_RULES = {"anchors", "near-misses"}


@dataclass(frozen=True, slots=True)
class Kit:
    """The settings of a run: `program` is the installed command, `cache` a folder for logs, `scale` 1 for full size."""

    program: Path
    cache: Path
    scale: float
    rounds: int

    @property
    def python(self) -> str:
        """Return the interpreter of the installation."""
        return str(self.program.parent / "python")

    def scaled(self, number: float) -> int:
        """Return a number of bytes or lines multiplied by the scale."""
        return int(number * self.scale)

    def generator(self, kind: str, size: int) -> list[str]:
        """Return the command that writes a log to stdout, as a separate process to keep this one's memory small.

        `size` is in bytes, of near misses in lines.
        """
        return [self.python, str(_LOGS), kind, str(size)]

    def log(self, kind: str, size: int) -> Path:
        """Return the file of a log, generated if it does not exist."""
        path = self.cache / f"{kind}-{size}-{crc32(_LOGS.read_bytes()):08x}.log"  # another generator, another log
        if not path.exists() or kind in _FOLLOW_THE_RULES:
            self.cache.mkdir(parents=True, exist_ok=True)
            begun = path.with_suffix(".part")
            with open(begun, "wb") as file:
                subprocess.run(self.generator(kind, size), stdout=file, check=True)
            begun.replace(path)
        return path


def in_words(size: float) -> str:
    """Return a size in bytes with a readable unit."""
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"
