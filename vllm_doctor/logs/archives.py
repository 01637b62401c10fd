"""The files in a zip or tar archive, each a log of its own.

Nothing is written to disk, and a member's name, which a stranger chose, is a text to show, never a path. How many files
and how many bytes are read is bounded: a small archive may hold more than any disk does.
"""

from __future__ import annotations

import io
import lzma
import stat
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO

from vllm_doctor.errors import InputError
from vllm_doctor.logs.compression import Readable, Unpacked, kind_of
from vllm_doctor.logs.tar_members import BLOCK, Members, is_tar
from vllm_doctor.messages import message
from vllm_doctor.text.terminal_safe import safe_text

MOST_MEMBERS = 256  # files of an archive that are read
LEAST_BOUND = 256 << 20  # bytes that may be unpacked of any archive
TIMES_PACKED = 50  # of a large one, so many times its size: twice what logs shrink to
_MOST_HELD = 128 << 20  # bytes of a zip archive from a pipe: its list of files stands at its end
_ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_STEP = 4096
_LONGEST_NAME = 200


def is_zip(head: bytes) -> bool:
    """Return whether a file that begins like this is a zip archive."""
    return head.startswith(_ZIP)


class Budget:
    """What may be read of an archive of so many bytes, and what was."""

    def __init__(self, packed: int) -> None:
        self.most = max(LEAST_BOUND, packed * TIMES_PACKED)
        self.left = self.most
        self.files = 0
        self.spent = False  # there was more than may be read

    def notes(self) -> tuple[str, ...]:
        """Return notes on what was left out."""
        texts = []
        if self.spent:
            texts.append(message("Unpacked, the archive is larger than {size} MiB; the bytes behind were not read.",
                                 size=self.most >> 20))
        if self.files > MOST_MEMBERS:
            texts.append(message("The archive holds more than {count} files; those behind were not read.",
                                 count=MOST_MEMBERS))
        return tuple(texts)


class Bounded:
    """A file of which no more is read than a budget has left."""

    def __init__(self, file: Readable, budget: Budget) -> None:
        self._file = file
        self._budget = budget

    @property
    def damaged(self) -> bool:
        """Return whether it is incomplete; what the budget leaves out does not count as damage."""
        return not self._budget.spent and bool(getattr(self._file, "damaged", False))

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; none at the end, or when the budget is spent."""
        if self._budget.spent:
            return b""
        data = self._file.read(size)
        self._budget.spent = len(data) > self._budget.left
        data = data[:self._budget.left]
        self._budget.left -= len(data)
        return data


class MemberLog:
    """A file of an archive, which may be compressed once more, as rotated logs are. It is opened when it is read."""

    def __init__(self, file: Readable, name: str, budget: Budget) -> None:
        self.name = name
        self.notes: tuple[str, ...] = ()  # what the report must say, once it is read
        self._file = file
        self._budget = budget
        self._opened = False

    @property
    def damaged(self) -> bool:
        """Return whether it is incomplete."""
        return not self._budget.spent and bool(getattr(self._file, "damaged", False))

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; none at the end."""
        if not self._opened:
            self._opened = True
            head = self._file.read(BLOCK)
            self._file = WithHead(head, self._file)
            if kind := kind_of(head):
                self._file = Bounded(Unpacked(self._file, kind, self.name), self._budget)
                head = self._file.read(BLOCK)
                self._file = WithHead(head, self._file)
            if is_zip(head) or is_tar(head):
                self._file = io.BytesIO()
                self.notes = (message("{name}: an archive within an archive: unpack it", name=self.name),)
        return self._file.read(size)


class WithHead:
    """A file whose first bytes were read already."""

    def __init__(self, head: bytes, rest: Readable) -> None:
        self._head = head
        self._rest = rest

    @property
    def damaged(self) -> bool:
        """Return whether it is incomplete."""
        return bool(getattr(self._rest, "damaged", False))

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; none at the end."""
        if self._head:
            data, self._head = self._head[:size], self._head[size:]
            return data
        return self._rest.read(size)


class Archive:
    """The logs of an archive, one after the other: ask for the next when one is read.

    Once all are read, `damaged` tells whether the archive is not whole, `budget` what was left out.
    """

    def __init__(self, name: str, packed: int) -> None:
        self.name = name
        self.budget = Budget(packed)
        self.damaged = False

    def __iter__(self) -> Iterator[MemberLog]:
        for file, name in self._files():
            self.budget.files += 1
            if self.budget.files > MOST_MEMBERS:
                return
            yield MemberLog(file, f"{self.name}!{_shown(name)}", self.budget)
            if self.budget.spent:
                return
        if not self.budget.files:
            raise InputError(f"{self.name}: the archive {'is cut or damaged' if self.damaged else 'holds no file'}")

    def _files(self) -> Iterator[tuple[Readable, str]]:
        raise NotImplementedError


class TarArchive(Archive):
    """A tar archive, from its first byte on."""

    def __init__(self, file: Readable, name: str, packed: int) -> None:
        super().__init__(name, packed)
        self._file = Bounded(file, self.budget)

    def _files(self) -> Iterator[tuple[Readable, str]]:
        members = Members(self._file)
        for member in members:
            yield member, member.name
        self.damaged = not self.budget.spent and (members.damaged or self._file.damaged)


class ZipArchive(Archive):
    """A zip archive, in a file that can be read from any place. Raises InputError when it is none."""

    def __init__(self, file: IO[bytes], name: str, packed: int) -> None:
        super().__init__(name, packed)
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise InputError(f"{name}: the archive is cut or damaged, nothing of it can be read") from error

    def _files(self) -> Iterator[tuple[Readable, str]]:
        for info in self._zip.infolist():
            if not info.filename.endswith("/") and not stat.S_ISLNK(info.external_attr >> 16):
                yield Bounded(_Zipped(self._zip, info), self.budget), info.filename


class _Zipped:
    """A file of a zip archive."""

    def __init__(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
        self._archive = archive
        self._info = info
        self._file: IO[bytes] | None = None
        self.damaged = False

    def read(self, size: int) -> bytes:
        try:
            if self._file is None:
                self._file = self._archive.open(self._info)
            return self._file.read(min(size, _STEP))
        except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError):
            self.damaged = True
            return b""
        except OSError as error:
            if error.errno is not None:  # a disk's; that of a damaged bz2 member has none
                raise
            self.damaged = True
            return b""


def read_into_memory(file: Readable, name: str) -> io.BytesIO:
    """Read an entire zip archive from a pipe into memory. Raises InputError if it is too large for that."""
    data_read = bytearray()
    while data := file.read(1 << 20):
        data_read += data
        if len(data_read) > _MOST_HELD:
            raise InputError(f"{name}: a zip archive of more than {_MOST_HELD >> 20} MiB cannot be read from a pipe")
    return io.BytesIO(data_read)


def _shown(name: str) -> str:
    return safe_text(name.replace("\n", " "))[:_LONGEST_NAME]
