"""Read small files that a user names, such as settings and rules, and write reports.

A folder of somebody else's may hold a pipe that never ends, or a link to a device that never does.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from vllm_doctor.errors import InputError, failed
from vllm_doctor.messages import message

MOST_BYTES = 4 << 20
DEEPEST = 1000  # brackets within brackets: parsers of YAML, TOML and JSON call themselves for each


def read_bytes(path: str | os.PathLike[str], most: int = MOST_BYTES) -> bytes:
    """Return the content of a file. Raises InputError, in one line, if it is not a regular file of at most `most`."""
    name = os.fspath(path)
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):  # asked first: opening may wait, or start a device
            raise InputError(message("{name}: is not a regular file", name=name))
        with open(os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError(message("{name}: is not a regular file", name=name))
            data = file.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise InputError(failed(name, error)) from error
    if len(data) > most:
        raise InputError(message("{name}: is larger than {size} MiB", name=name, size=most >> 20))
    return data


def files_below(folder: Path, suffix: str) -> list[Path]:
    """Return the files of a folder and those below it, in order; links to folders are not followed. Raises OSError."""

    def refuse(error: OSError) -> None:
        raise error

    return sorted(Path(place, name) for place, _, names in os.walk(folder, onerror=refuse)
                  for name in names if name.endswith(suffix))


def is_too_deep(text: str) -> bool:
    """Return whether a text nests brackets deeper than any real document."""
    depth = 0
    for character in text:
        if character in "[{(":
            depth += 1
            if depth > DEEPEST:
                return True
        elif character in "]})" and depth:
            depth -= 1
    return False


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file as UTF-8. Raises InputError if that fails."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InputError(failed(os.fspath(path), error)) from error
