"""Write texts to files."""

from __future__ import annotations

import os

from vllm_doctor.errors import InputError


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file as UTF-8. Raises InputError if that fails."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: {(error.strerror or str(error)).lower()}") from error
