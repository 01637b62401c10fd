"""Where a log's bytes come from: a file, compressed or not, standard input, bytes in memory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
from collections.abc import Iterator
from typing import IO, Any, TypeGuard, cast

from vllm_doctor.errors import InputError

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "gz"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"BZh", "bz2"),
    (b"\x28\xb5\x2f\xfd", "zst"),
)
_DAMAGED = {"error", "LZMAError", "ZstdError"}  # of zlib, lzma and zstandard, which are loaded when needed


def is_path(source: Any) -> TypeGuard[str | os.PathLike[str]]:
    """Whether `source` names a file."""
    return isinstance(source, (str, os.PathLike))


def chunks(source: Any, size: int, name: str = "standard input") -> Iterator[bytes]:
    """The bytes of `source` in pieces of about `size`. Raises InputError in one line when it cannot be read.

    `name` is what an open file is called in that line.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        yield bytes(source)
        return
    if is_path(source):
        with open_log(os.fspath(source)) as file:
            yield from _read(file, size, os.fspath(source))
        return
    if hasattr(source, "read"):
        yield from _read(source, size, name)
        return
    yield from source


def is_plain(file: IO[bytes]) -> TypeGuard[io.BufferedReader]:
    """Whether a file's bytes are the log's, so that any part of it can be read at once."""
    return isinstance(file, io.BufferedReader) and stat.S_ISREG(os.fstat(file.fileno()).st_mode)


def open_log(path: str) -> IO[bytes]:
    """Open a log, decompressing what its first bytes say is compressed. Raises InputError."""
    try:
        if os.path.isdir(path):
            raise InputError(f"{path}: is a directory, not a log")
        with open(path, "rb") as file:
            head = file.read(8)
        kind = next((name for magic, name in _MAGIC if head.startswith(magic)), "")
        return _decompressed(path, kind) if kind else open(path, "rb")
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from error


def _decompressed(path: str, kind: str) -> IO[bytes]:
    if kind == "zst":
        return _zstd(path)
    unpacker = {"gz": gzip, "xz": lzma, "bz2": bz2}[kind]
    return cast("IO[bytes]", unpacker.open(path))


def _zstd(path: str) -> IO[bytes]:
    try:
        import zstandard  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise InputError(f"{path}: reading .zst needs the extra: pip install 'vllm-log-doctor[zstd]'") from error
    return cast("IO[bytes]", zstandard.open(path))


def _read(file: IO[bytes], size: int, name: str) -> Iterator[bytes]:
    try:
        while data := file.read(size):
            yield data
    except (OSError, EOFError) as error:
        raise InputError(f"{name}: {error}") from error
    except Exception as error:
        if type(error).__name__ in _DAMAGED:
            raise InputError(f"{name}: {error}") from error
        raise
