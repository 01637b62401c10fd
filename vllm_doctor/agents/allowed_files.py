"""The files that an agent may have read: those below the folders that the user allowed."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import IO

from vllm_doctor.errors import InputError, reason
from vllm_doctor.reports.escape import one_line


class AllowedFiles:
    """Opens files below the `roots` only; links that lead elsewhere are not followed. Raises InputError."""

    def __init__(self, roots: Sequence[str]) -> None:
        for root in roots:
            if not os.path.isdir(root):
                raise InputError(f"{one_line(root)}: is not a folder")
        self._roots = [os.path.realpath(root) for root in roots]

    def opened(self, path: str) -> IO[bytes]:
        """Open a regular file for reading."""
        real = self._real(path)
        try:
            descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise InputError(f"{one_line(path)}: {reason(error)}") from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise InputError(f"{one_line(path)}: is not a file")
        return os.fdopen(descriptor, "rb")

    def folder(self, path: str) -> str:
        """Return the real path of a folder."""
        real = self._real(path)
        if not os.path.isdir(real):
            raise InputError(f"{one_line(path)}: is not a folder")
        return real

    def _real(self, path: str) -> str:
        if "\0" in path:
            raise InputError("a path cannot hold a NUL character")
        for root in self._roots:  # a relative path is one below the first root that has it
            real = os.path.realpath(os.path.join(root, path))
            if os.path.commonpath((real, root)) == root and (os.path.exists(real) or root == self._roots[-1]):
                return real
        raise InputError(f"{one_line(path)}: not below a folder that the user allowed ({', '.join(self._roots)})")
