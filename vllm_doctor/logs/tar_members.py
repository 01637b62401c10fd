"""The files in a tar archive, read once, forward, as they come from a file or a pipe.

Python's `tarfile` reads what an archive's own records ask for, however large, and parses them slowly where they are
planted. A log needs little of the format: names, sizes, and which members are files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vllm_doctor.logs.compression import Readable

BLOCK = 512
_FILES = (b"0", b"\0", b"7")  # the types of a member that is a plain file
_LONG_NAME, _PAX = b"L", b"x"
_LONGEST_RECORD = 1 << 16  # bytes of a record that names the next member
_STEP = 1 << 16


def is_tar(head: bytes) -> bool:
    """Return whether a file that begins like this is a tar archive."""
    return head[257:262] == b"ustar" and _sum_is_right(head[:BLOCK])


class Member:
    """A file in the archive: readable until the next one is asked for."""

    def __init__(self, name: str, archive: Readable, size: int) -> None:
        self.name = name
        self._archive = archive
        self.left = size  # bytes
        self.damaged = False

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; none at the end."""
        data = self._archive.read(min(size, self.left))
        self.damaged = self.damaged or (self.left > 0 and not data)
        self.left -= len(data)
        return data


class Members:
    """The files of an archive. `damaged` tells, once all are read, that it is not whole."""

    def __init__(self, archive: Readable) -> None:
        self._archive = archive
        self.damaged = False

    def __iter__(self) -> Iterator[Member]:
        name = ""
        while block := _exactly(self._archive, BLOCK):
            if block == bytes(BLOCK):  # the end
                return
            size = _size(block)
            if size is None:
                self.damaged = True
                return
            kind = block[156:157]
            member = Member(name or _name(block), self._archive, size)
            name = ""
            if kind in _FILES:
                yield member
            elif kind in (_LONG_NAME, _PAX) and size <= _LONGEST_RECORD:
                record = _exactly(member, size)
                name = _text(record.partition(b"\0")[0]) if kind == _LONG_NAME else _pax_path(record)
            while member.read(_STEP):
                pass
            padding = -size % BLOCK
            if member.damaged or len(_exactly(self._archive, padding)) < padding:
                self.damaged = True
                return
        self.damaged = True  # without the blocks of zeros that end it


def _exactly(file: Readable, size: int) -> bytes:
    """Return exactly `size` bytes, fewer only at the end of the file."""
    result = b""
    while len(result) < size and (data := file.read(size - len(result))):
        result += data
    return result


def _size(block: bytes) -> int | None:
    """Return the size of a member; None for a block that is not the header of a member."""
    if len(block) < BLOCK or not _sum_is_right(block):
        return None
    field = block[124:136]
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    return _octal(field)


def _sum_is_right(block: bytes) -> bool:
    return _octal(block[148:156]) == sum(block[:148]) + 8 * ord(" ") + sum(block[156:BLOCK])


def _octal(field: bytes) -> int | None:
    digits = field.strip(b" \0")
    if digits.strip(b"01234567"):
        return None
    return int(digits or b"0", 8)


def _name(block: bytes) -> str:
    name, prefix = (block[begin:end].partition(b"\0")[0] for begin, end in ((0, 100), (345, 500)))
    return _text(prefix + b"/" + name if prefix and block[257:263] == b"ustar\0" else name)


def _pax_path(record: bytes) -> str:
    r"""Return the `path` of records `LENGTH KEY=VALUE\n`; "" when there is none."""
    at = 0
    while at < len(record):
        digits, _, _ = record[at:at + 8].partition(b" ")
        if not digits.isdigit() or int(digits) <= len(digits):
            return ""
        key, _, value = record[at + len(digits) + 1:at + int(digits) - 1].partition(b"=")
        if key == b"path":
            return _text(value)
        at += int(digits)
    return ""


def _text(name: Any) -> str:
    return bytes(name).decode("utf-8", "replace")
