"""A log file that a running server writes, read as it grows.

The file may not exist yet, be renamed (logrotate's `create`), deleted, or cut to nothing (`copytruncate`, a restart
with `>`). It is read in pieces, so memory does not grow with it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress

from vllm_doctor.errors import InputError, failed
from vllm_doctor.messages import message
from vllm_doctor.pipe.analyser_channel import READ_SIZE
from vllm_doctor.pipe.status_line import StatusText

_LAST_SECONDS = 2.0  # for what is already written when we are asked to end


class GrowingFile:
    """The file at a path, whichever file that is at the time. The first piece ends at `first`, if that is given."""

    def __init__(self, path: str, first: int = 0) -> None:
        self._path = path
        self._first = first
        self._fd = -1
        self._inode = (0, 0)
        self._position = 0
        self._was_cut = False  # to nothing, and nothing but zeros was read since
        self._is_mid_line = False

    def read(self) -> bytes:
        """Return the next bytes that were added; b"" if there are none now. Raises InputError.

        When another file takes its place, this one is read to its end first, and until the other one has content: a
        server whose log was renamed goes on writing into the renamed file.
        """
        if self._fd < 0:
            self._open()
        data = self._added()
        if not data and self._is_replaced() and not (data := self._added()):  # asked again: added before it was renamed
            self.close()
            data = self._end_of_line()
        if data:
            self._is_mid_line = not data.endswith(b"\n")
        return data

    def close(self) -> None:
        """Close the file; `read` opens the one that is at the path then."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._position = -1, 0

    def _open(self) -> None:
        try:
            found = os.stat(self._path)
            if not stat.S_ISREG(found.st_mode):  # asked first: opening may wait, or start a device
                raise InputError(
                    message("{name}: is not a regular file: pipe it into vllm-doctor watch", name=self._path))
            self._fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            found = os.fstat(self._fd)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:  # ValueError: a null character in the name
            raise InputError(failed(self._path, error)) from error
        self._inode = (found.st_dev, found.st_ino)

    def _added(self) -> bytes:
        if self._fd < 0:
            return b""
        try:
            if os.fstat(self._fd).st_size < self._position:
                self._position, self._was_cut = 0, True
                return self._end_of_line()
            if self._was_cut:
                return self._behind_zeros()
            return self._piece()
        except OSError as error:
            raise InputError(failed(self._path, error)) from error

    def _piece(self) -> bytes:
        left = self._first - self._position
        data = os.pread(self._fd, left if 0 < left < READ_SIZE else READ_SIZE, self._position)
        self._position += len(data)
        return data

    def _behind_zeros(self) -> bytes:
        """Return what follows the zeros that a file has where its writer goes on at the old position after the cut."""
        with suppress(OSError):  # no data yet, or a file system without holes
            self._position = os.lseek(self._fd, self._position, os.SEEK_DATA)
        while piece := self._piece():
            if data := piece.lstrip(b"\0"):
                self._was_cut = False
                return data
        return b""

    def _end_of_line(self) -> bytes:
        """Return what ends a line whose rest will never come."""
        return b"\n" if self._is_mid_line else b""

    def _is_replaced(self) -> bool:
        """Return whether another file, with content, is at the path now."""
        try:
            found = os.stat(self._path)
        except OSError:  # deleted, or never there
            return False
        return self._fd >= 0 and (found.st_dev, found.st_ino) != self._inode and found.st_size > 0


class FollowedFile:
    """A growing file as a source of pieces, as `Reader` is for a pipe; here nothing ever waits.

    `problem` is why it cannot be read any more.
    """

    def __init__(self, path: str, first: int = 0) -> None:
        self.path = path
        self.status = StatusText()
        self.problem: InputError | None = None
        self._file = GrowingFile(path, first)
        self._next = b""
        self._ends_at = 0.0  # 0: not asked to end

    def end(self) -> None:
        """Read what is already written, then end."""
        self._ends_at = self._ends_at or time.monotonic() + _LAST_SECONDS

    def wait(self, seconds: float) -> bool:  # noqa: ARG002 - as Reader's
        """Return whether there is a piece now, or the end."""
        if not self._next and self.problem is None:
            try:
                self._next = self._file.read()
            except InputError as error:
                self.problem = error
        return bool(self._next) or self._is_over

    def __iter__(self) -> Iterator[bytes]:
        while self.wait(0) and self._next:
            piece, self._next = self._next, b""
            yield piece
            if self._ends_at and time.monotonic() > self._ends_at:
                break
        self._file.close()

    @property
    def _is_over(self) -> bool:
        return self.problem is not None or self._ends_at > 0
