"""Indexes of rules, kept in the user's cache: making one (`rule_compiler`) takes up to seconds.

The first line of a checkout's tells the names, sizes and times of all files it was made from and with, so a changed
file is never missed. That of a user's rules is kept by their content. Where the cache cannot be written, an index is
made each time.
"""

from __future__ import annotations

import json
import os
import zlib
from typing import TYPE_CHECKING

from vllm_doctor.errors import RuleError
from vllm_doctor.version import __version__

if TYPE_CHECKING:
    from vllm_doctor.rulebase.model import RuleBase

_OWN = "own-"
_MOST = 16  # indexes of users' rules that are kept


def cached(folder: str) -> bytes:
    """The index of a folder of rules: from the cache, else made and put there. Raises RuleError."""
    return _kept_or_made(f"rules-{zlib.crc32(folder.encode()):08x}", _stamp(folder), folder)


def cached_own(folder: str, base: RuleBase) -> bytes:
    """The index of a user's folder of rules: from the cache, else made and put there. Raises RuleError."""
    from hashlib import blake2b  # noqa: PLC0415 - only for rules of one's own

    content = blake2b(_told(_modules()), digest_size=16)
    content.update("\n".join((*base.names, *base.actions)).encode())  # what such rules may name
    for entry in _rules(folder):
        try:
            with open(entry.path, "rb") as file:
                read = file.read()
        except OSError as error:
            raise RuleError(f"{entry.path}: {error.strerror}") from error
        content.update(f"\n{os.path.relpath(entry.path, folder)} {len(read)}\n".encode(errors="surrogateescape") + read)
    told = content.hexdigest()
    return _kept_or_made(_OWN + told, told.encode() + b"\n", folder, base)


def _kept_or_made(name: str, stamp: bytes, folder: str, base: RuleBase | None = None) -> bytes:
    """The index of a folder, in which the user's rules beside `base` are, or without that our own."""
    place = os.path.join(_cache(), f"{name}.jsonl")
    if (kept := _kept(place, stamp)) is not None:
        return kept
    import contextlib  # noqa: PLC0415 - only when something has changed
    from pathlib import Path  # noqa: PLC0415

    from vllm_doctor.rulebase.compiler import make, make_own  # noqa: PLC0415

    made = make_own(Path(folder), base) if base else make(Path(folder))
    with contextlib.suppress(OSError):
        _save(place, stamp + made)
        _forget_old(os.path.dirname(place))
    return made


def _forget_old(cache: str) -> None:
    with os.scandir(cache) as entries:
        own = [(entry.stat().st_mtime_ns, entry.path) for entry in entries if entry.name.startswith(_OWN)]
    for _, path in sorted(own)[:-_MOST]:
        os.remove(path)


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
    return _told([*_rules(folder), *_modules()])


def _told(entries: list[os.DirEntry[str]]) -> bytes:
    """This release, and the names, sizes and times of files."""
    told = [__version__]
    for entry in entries:
        status = entry.stat()
        told.append(f"{entry.path} {status.st_size} {status.st_mtime_ns}")
    return json.dumps(told).encode() + b"\n"


def _rules(folder: str) -> list[os.DirEntry[str]]:
    """Return the rule files of a folder."""
    return _files(folder, ".yaml")


def _files(folder: str, ending: str) -> list[os.DirEntry[str]]:
    """Return the files of a folder and its subfolders whose names end so, in a fixed order."""
    with os.scandir(folder) as entries:
        here = sorted(entries, key=lambda entry: entry.name)
    below = [found for entry in here if entry.is_dir(follow_symlinks=False) for found in _files(entry.path, ending)]
    return [*(entry for entry in here if entry.name.endswith(ending)), *below]


def _modules() -> list[os.DirEntry[str]]:
    """Return every module of this package: any of them may decide what an index holds."""
    return _files(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), ".py")


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
