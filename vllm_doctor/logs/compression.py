"""Compressed bytes, unpacked as far as they are whole: what is cut or damaged ends the reading, not the diagnosis.

The bytes come from a file, a pipe or memory, and are read once, forward. gz, xz, bz2 and zst, of one or more members.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Iterator
from typing import Any, Protocol

from vllm_doctor.errors import InputError

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "gz"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"BZh", "bz2"),
    (b"\x28\xb5\x2f\xfd", "zst"),
)
_PIECE = 1024  # packed bytes a step: unpacked they are some 10 MB at the very worst, in each of the formats
_BROKEN = {"error", "LZMAError", "ZstdError"}  # of zlib, lzma and zstandard, which is imported when needed


class Readable(Protocol):
    """Anything that bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, at most `size`; none at the end."""


def kind_of(head: bytes) -> str:
    """Return the compression format of a file that begins with these bytes; "" if it is not compressed."""
    return next((name for magic, name in _MAGIC if head.startswith(magic)), "")


class Unpacked:
    """The bytes inside a compressed file. `damaged` tells, once all is read, that the file is not whole."""

    def __init__(self, packed: Readable, kind: str, name: str) -> None:
        self._packed = packed
        self._kind = kind
        self._name = name
        self._ready = bytearray()
        self._pieces = self._unpack()
        self.damaged = False

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; none at the end."""
        while len(self._ready) < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._ready += piece
        data = bytes(self._ready[:size])
        del self._ready[:size]
        return data

    def _unpack(self) -> Iterator[bytes]:
        unpacker, begun = _unpacker(self._kind, self._name), False
        while packed := self._packed.read(_PIECE):
            while packed := packed if begun else packed.lstrip(b"\0"):  # zeros may follow a member, as a tape's rest
                data, whole = _unpacked(unpacker, packed)
                yield data
                begun = True
                if not whole:
                    self.damaged = True
                    return
                if not unpacker.eof:
                    break
                packed = unpacker.unused_data
                unpacker, begun = _unpacker(self._kind, self._name), False
        self.damaged = begun


def _unpacked(unpacker: Any, packed: bytes) -> tuple[bytes, bool]:
    """Return the decompressed content of the next bytes, and whether they were intact."""
    before = unpacker.copy() if hasattr(unpacker, "copy") else None
    try:
        return unpacker.decompress(packed), True
    except (EOFError, OSError):  # bz2's
        return b"", False
    except Exception as error:
        if type(error).__name__ not in _BROKEN:
            raise
    return _up_to_the_damage(before, packed) if before is not None else b"", False


def _up_to_the_damage(unpacker: Any, packed: bytes) -> bytes:
    """Return what gz bytes hold before the first damaged one: often only the checksum at the end is damaged."""
    data = bytearray()
    try:
        for place in range(len(packed)):
            data += unpacker.decompress(packed[place:place + 1])
    except zlib.error:
        pass
    return bytes(data)


def _unpacker(kind: str, name: str) -> Any:
    if kind == "gz":
        return zlib.decompressobj(wbits=31)
    if kind == "xz":
        return lzma.LZMADecompressor()
    if kind == "bz2":
        return bz2.BZ2Decompressor()
    try:
        import zstandard  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise InputError(f"{name}: reading .zst needs the extra: pip install 'vllm-log-doctor[zstd]'") from error
    return zstandard.ZstdDecompressor().decompressobj()
