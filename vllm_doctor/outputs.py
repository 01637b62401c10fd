"""Where a text goes: a file, or one clear line on why it cannot."""

from __future__ import annotations

import os

from vllm_doctor.errors import InputError


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file as UTF-8. Raises InputError."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: {(error.strerror or str(error)).lower()}") from error
