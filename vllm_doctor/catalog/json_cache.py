"""Cache what is made of files as JSON in the user's cache folder.

The first line of a cache file has this package's version and the names, sizes and times of the files, so every change
is noticed. If the cache cannot be written, the value is made at each start.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from vllm_doctor.version import __version__


def cached(source: Path, files: Iterable[Path], make: Callable[[], Any]) -> Any:
    """Return the JSON value that `make` returns for a file or folder, from the cache if it is up to date.

    `files` are those that the value depends on.
    """
    try:
        folder = _cache_folder()
    except RuntimeError:  # the user has no home directory
        return json.loads(json.dumps(make(), default=str))
    path = folder / f"{source.stem}-{zlib.crc32(str(source).encode()):08x}.json"
    stamp = _stamp(files)
    found = _read(path, stamp)
    if found is None:
        text = json.dumps(make(), default=str)
        with contextlib.suppress(OSError):
            _write(path, stamp + text.encode())
        found = json.loads(text)
    return found


def _read(path: Path, stamp: bytes) -> Any:
    """Return the cached value if it was made from the same files and only the user can write to the cache."""
    try:
        status = path.parent.stat()
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return None
        with path.open("rb") as file:
            return json.load(file) if file.readline() == stamp else None
    except (OSError, ValueError):
        return None


def _stamp(files: Iterable[Path]) -> bytes:
    states = [(str(path), status.st_size, status.st_mtime_ns) for path in sorted(files) for status in [path.stat()]]
    return json.dumps([__version__, states]).encode() + b"\n"


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vllm-doctor"


def _write(path: Path, content: bytes) -> None:
    """Write to a temporary file and rename it, so that no other process reads half a file."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.NamedTemporaryFile("wb", dir=path.parent, delete=False) as file:
        try:
            file.write(content)
            file.close()
            Path(file.name).replace(path)
        except OSError:
            Path(file.name).unlink(missing_ok=True)
            raise
