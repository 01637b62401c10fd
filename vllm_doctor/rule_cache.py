"""The index of a checkout's rules, kept in the user's cache: making it (`rule_compiler`) takes seconds.

Its first line tells the names, sizes and times of all files it was made from and with, so a changed file is never
missed. Where the cache cannot be written, the index is made each time.
"""

from __future__ import annotations

import json
import os
import zlib

import vllm_doctor


def cached(folder: str) -> bytes:
    """The index of a folder of rules: from the cache, else made and put there. Raises RuleError."""
    stamp = _stamp(folder)
    place = os.path.join(_cache(), f"rules-{zlib.crc32(folder.encode()):08x}.jsonl")
    if (kept := _kept(place, stamp)) is not None:
        return kept
    import contextlib  # noqa: PLC0415 - only when something has changed
    from pathlib import Path  # noqa: PLC0415

    from vllm_doctor.rule_compiler import make  # noqa: PLC0415

    made = make(Path(folder))
    with contextlib.suppress(OSError):
        _save(place, stamp + made)
    return made


def _kept(place: str, stamp: bytes) -> bytes | None:
    """The index in the cache, if it was made from the same files."""
    try:
        if _private(os.path.dirname(place)):
            with open(place, "rb") as file:
                if file.readline() == stamp:
                    return file.read()
    except OSError:
        pass
    return None


def _stamp(folder: str) -> bytes:
    told = [vllm_doctor.__version__]
    for entry in (*_rules(folder), *_modules()):
        status = entry.stat()
        told.append(f"{entry.path} {status.st_size} {status.st_mtime_ns}")
    return json.dumps(told).encode() + b"\n"


def _rules(folder: str) -> list[os.DirEntry[str]]:
    """What is read."""
    with os.scandir(folder) as entries:
        here = sorted(entries, key=lambda entry: entry.name)
    below = [found for entry in here if entry.is_dir() for found in _rules(entry.path)]
    return [*(entry for entry in here if entry.name.endswith(".yaml")), *below]


def _modules() -> list[os.DirEntry[str]]:
    """What reads it."""
    with os.scandir(os.path.dirname(os.path.realpath(__file__))) as entries:
        return sorted((entry for entry in entries if entry.name.endswith(".py")), key=lambda entry: entry.name)


def _cache() -> str:
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "vllm-doctor")


def _private(folder: str) -> bool:
    """Whether nobody else could have written there."""
    status = os.stat(folder)
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _save(path: str, made: bytes) -> None:
    """Write beside and rename, so that no other process reads half a file."""
    import tempfile  # noqa: PLC0415 - as above

    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True, mode=0o700)
    with tempfile.NamedTemporaryFile("wb", dir=folder, delete=False) as file:
        file.write(made)
    os.replace(file.name, path)
