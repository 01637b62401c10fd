"""Cache the compiled rules of a checkout in the user's cache folder.

The first line of a cache file has this package's version and the names, sizes and times of all rule files and modules,
so every change is noticed. If the cache cannot be written, the rules are compiled at each start.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zlib
from pathlib import Path

from vllm_doctor.rulebase.compiler import Document, compile_rules
from vllm_doctor.version import __version__

_PACKAGE = Path(__file__).resolve().parent.parent


def cached_document(folder: Path) -> Document:
    """Return the compiled rules of a folder, from the cache if it is up to date. Raises RuleError."""
    path = _cache_folder() / f"rules-{zlib.crc32(str(folder).encode()):08x}.json"
    stamp = _stamp(folder)
    cached = _read(path, stamp)
    if cached is not None:
        return cached
    document: Document = compile_rules(folder)
    text = json.dumps(document, default=str)
    with contextlib.suppress(OSError):
        _write(path, stamp + text.encode())
    compiled: Document = json.loads(text)
    return compiled


def _read(path: Path, stamp: bytes) -> Document | None:
    """Return the cached rules if they were compiled from the same files and only the user can write to the cache."""
    try:
        status = path.parent.stat()
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return None
        with path.open("rb") as file:
            if file.readline() == stamp:
                document: Document = json.load(file)
                return document
    except (OSError, ValueError):
        pass
    return None


def _stamp(folder: Path) -> bytes:
    files = sorted([*folder.rglob("*.yaml"), *_PACKAGE.rglob("*.py")])
    states = [(str(path), status.st_size, status.st_mtime_ns) for path in files for status in [path.stat()]]
    return json.dumps([__version__, states]).encode() + b"\n"


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vllm-doctor"


def _write(path: Path, content: bytes) -> None:
    """Write to a temporary file and rename it, so that no other process reads half a file."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.NamedTemporaryFile("wb", dir=path.parent, delete=False) as file:
        file.write(content)
    Path(file.name).replace(path)
