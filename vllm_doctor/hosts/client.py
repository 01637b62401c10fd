"""Call an installed client program and read what it prints."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from vllm_doctor.errors import InputError, reason
from vllm_doctor.messages import message
from vllm_doctor.text.terminal_safe import safe_text

_SECONDS = 30  # for an answer of some lines; a log takes as long as it takes
_NAME = re.compile(r"[A-Za-z0-9](?:[\w.:@-]|\\x[0-9a-f]{2}){0,252}")  # systemd escapes a character as \x2d
_LONGEST_REASON = 300
_CHUNK = 1 << 16


def checked_name(text: str, option: str, example: str) -> str:
    """Return the name if a host can have it. Raises InputError: it must not be read as an option or a path."""
    if not _NAME.fullmatch(text):
        raise InputError(f"{option} {safe_text(text)}: not a name, such as {example}")
    return text


def client(*programs: str) -> str:
    """Return the first of these programs that is installed. Raises InputError."""
    for program in programs:
        if shutil.which(program):
            return program
    raise InputError(f"{' or '.join(programs)}: not installed here, or not in PATH")


def text_output(argv: Sequence[str]) -> str:
    """Return what a command prints, as text. Raises InputError with the first line of its error."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise InputError(f"{argv[0]}: no answer within {_SECONDS} seconds") from error
    except OSError as error:
        raise InputError(f"{argv[0]}: {reason(error)}") from error
    if done.returncode:
        raise InputError(_refusal(argv[0], done.stderr or done.stdout, done.returncode))
    return done.stdout.decode("utf-8", "replace")


def json_output(argv: Sequence[str]) -> Any:
    """Return what a command prints as JSON. Raises InputError."""
    try:
        return json.loads(text_output(argv))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{argv[0]}: its answer is not JSON") from error


def stream_output(argv: Sequence[str], notes: list[str], *, joined: bool = False) -> Iterator[bytes]:
    """Yield what a command prints. Raises InputError if it fails without having printed anything.

    If it fails later, a note says so. With `joined`, what it writes to stderr is part of the log (as with
    `docker logs`); else that says why it failed.
    """
    is_empty = True
    with tempfile.TemporaryFile() as errors:
        with _started(argv, subprocess.STDOUT if joined else errors) as process:
            assert process.stdout is not None  # noqa: S101 - a pipe is asked for
            try:
                while data := os.read(process.stdout.fileno(), _CHUNK):
                    is_empty = False
                    yield data
                status = process.wait()
            finally:
                process.kill()  # if its output is not read to the end
        errors.seek(0)
        if status:
            refusal = _refusal(argv[0], errors.read(_CHUNK), status)
            if is_empty:
                raise InputError(refusal)
            notes.append(message("The log may be incomplete: {problem}", problem=refusal))


def followed_by_lines(pieces: Iterable[bytes], lines: Callable[[], Sequence[str]]) -> Iterator[bytes]:
    """Yield the pieces, then the lines, which are asked for at the end."""
    last = b"\n"
    for piece in pieces:
        last = piece[-1:] or last
        yield piece
    if behind := lines():
        yield b"\n" * (last != b"\n") + "".join(f"{line}\n" for line in behind).encode()


class ByteStream:
    """A file made of pieces of bytes, to be read once; `notes` say, at its end, what the report must say of it."""

    def __init__(self, pieces: Iterator[bytes], notes: Sequence[str] = ()) -> None:
        self.notes = notes
        self._pieces = pieces
        self._held = b""

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; none at the end."""
        data = self._held or next(self._pieces, b"")
        self._held = data[size:]
        return data[:size]


def _started(argv: Sequence[str], errors: Any) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
    except OSError as error:
        raise InputError(f"{argv[0]}: {reason(error)}") from error


def _refusal(program: str, output: bytes, status: int) -> str:
    """Return one line on a command that failed."""
    lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    return f"{program}: {safe_text(lines[0])[:_LONGEST_REASON]}" if lines else f"{program}: exit status {status}"
