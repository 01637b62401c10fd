"""Where a log's bytes come from: a file, compressed or not, an archive of several, standard input, bytes in memory.

What comes from a pipe comes once: its first bytes, which tell the format, are read and put back, never read again.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, TypeGuard, cast

from vllm_doctor.errors import InputError, failed
from vllm_doctor.logs.archives import Archive, TarArchive, WithHead, ZipArchive, is_zip, read_into_memory
from vllm_doctor.logs.compression import Readable, Unpacked, kind_of
from vllm_doctor.logs.tar_members import BLOCK, is_tar
from vllm_doctor.messages import message

DAMAGED = message("The archive is cut or damaged: the report is on what could be read of it.")


def is_path(source: Any) -> TypeGuard[str | os.PathLike[str]]:
    """Return whether `source` names a file."""
    return isinstance(source, (str, os.PathLike))


def chunks(source: Any, size: int, name: str = "standard input") -> Iterator[bytes]:
    """Yield the bytes of `source`, one log, in pieces of about `size`. Raises InputError if it cannot be read.

    `name` is the name of an open file in the error message, which has one line.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        source = io.BytesIO(source)
    if is_path(source) or hasattr(source, "read"):
        with one_log(source, name) as log:
            yield from log.chunks(size)
    else:
        yield from source


class Log:
    """One log to read. `notes` are, once it is read, what its report must say about the reading."""

    def __init__(self, file: Readable, name: str) -> None:
        self.name = name
        self.notes: tuple[str, ...] = ()
        self._file = file

    @property
    def plain(self) -> io.BufferedReader | None:
        """Return the file if its bytes are those of the log, so that any part of it can be read at once."""
        return self._file if isinstance(self._file, io.BufferedReader) and _is_regular(self._file) else None

    def chunks(self, size: int) -> Iterator[bytes]:
        """Yield its bytes in pieces of about `size`. Raises InputError in one line if they cannot be read."""
        empty = True
        try:
            while data := self._file.read(size):
                empty = False
                yield data
        except (OSError, RuntimeError) as error:  # RuntimeError: a zip's password, a method that zipfile does not know
            raise InputError(failed(self.name, error)) from error
        if getattr(self._file, "damaged", False):
            if empty:
                raise InputError(
                    message("{name}: the archive is cut or damaged, nothing of it can be read", name=self.name))
            self.notes = (DAMAGED,)
        self.notes = (*self.notes, *getattr(self._file, "notes", ()))


class Logs:
    """The logs of a source, one after the other: one, or several of an archive or a host.

    Ask for the next when one is read.
    """

    def __init__(self, logs: Log | Archive | Iterator[Log]) -> None:
        self._logs = logs

    def __iter__(self) -> Iterator[Log]:
        if isinstance(self._logs, Log):
            yield self._logs
        elif not isinstance(self._logs, Archive):
            yield from self._logs
        else:
            for member in self._logs:
                yield Log(member, member.name)

    @property
    def only(self) -> Log:
        """Return the only log. Raises InputError for an archive."""
        if not isinstance(self._logs, Log):
            name = getattr(self._logs, "name", "")
            raise InputError(
                message("{name}: is an archive of files: unpack it, and name the log", name=name))
        return self._logs

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notes for the report on each log, once all are read."""
        if not isinstance(self._logs, Archive):
            return ()
        return (*((DAMAGED,) if self._logs.damaged else ()), *self._logs.budget.notes())


@contextmanager
def open_logs(path: str) -> Iterator[Logs]:
    """Open a file, recognised by its first bytes: a log, compressed or not, or an archive. Raises InputError."""
    try:
        if os.path.isdir(path):
            raise InputError(message("{name}: is a directory, not a log", name=path))
        file = open(path, "rb")  # noqa: SIM115 - closed below; what fails meanwhile is not the opening
    except (OSError, ValueError) as error:
        raise InputError(failed(path, error)) from error
    with file:
        yield logs_in(file, path)


def logs_in(file: IO[bytes], name: str) -> Logs:
    """Return the logs in an open file. Raises InputError."""
    try:
        regular = _is_regular(file)
        head, whole = _with_head(file, regular)
        packed = _size(file) if regular else 0
        if is_zip(head):
            return Logs(ZipArchive(file if regular else read_into_memory(whole, name), name, packed))
        if kind := kind_of(head):
            unpacked = Unpacked(whole, kind, name)
            head = unpacked.read(BLOCK)
            whole = WithHead(head, unpacked)
        return Logs(TarArchive(whole, name, packed) if is_tar(head) else Log(whole, name))
    except OSError as error:
        raise InputError(failed(name, error)) from error


@contextmanager
def one_log(source: str | os.PathLike[str] | IO[bytes], name: str) -> Iterator[Log]:
    """Open the log in a path or an open file. Raises InputError, also for an archive of several logs."""
    if is_path(source):
        with open_logs(os.fspath(source)) as logs:
            yield logs.only
    else:
        yield logs_in(cast("IO[bytes]", source), name).only


def _with_head(file: IO[bytes], regular: bool) -> tuple[bytes, Readable]:
    """Return the first bytes, and the file from its first byte on."""
    if regular:
        begin = file.tell()
        head = file.read(BLOCK)
        file.seek(begin)
        return head, file
    head = b""
    while len(head) < BLOCK and (data := file.read(BLOCK - len(head))):
        head += data
    return head, WithHead(head, file)


def _size(file: IO[bytes]) -> int:
    begin = file.tell()
    size = file.seek(0, io.SEEK_END)
    file.seek(begin)
    return size


def _is_regular(file: IO[bytes]) -> bool:
    """Return whether the file can be read from any position."""
    if isinstance(file, io.BytesIO):
        return True
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except (AttributeError, OSError):  # no file of the system
        return False
