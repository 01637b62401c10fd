"""Commands of the program, each in a process of its own that need not load it: forked of one that has.

For tests of what a command reads and says; how a process begins, ends and treats its streams is told by a fresh one.
"""

from __future__ import annotations

import json
import os
import resource
import runpy
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

SECONDS = 40
MEMORY = 3_000_000 << 10  # bytes


class Ended(NamedTuple):
    """What came of a command: its exit status (negative: the signal), standard output and standard error."""

    status: int
    out: bytes
    err: bytes


class Commands:
    """Runs commands in a folder, one after the other."""

    def __init__(self, folder: Path, scratch: Path, env: dict[str, str]) -> None:
        self._files = [scratch / "out", scratch / "err"]
        self._server = subprocess.Popen([sys.executable, __file__, *map(str, self._files)], cwd=folder, env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, *arguments: str, folder: str = ".") -> Ended:
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.write(json.dumps([folder, *arguments]) + "\n")
        self._server.stdin.flush()
        status = int(self._server.stdout.readline())
        return Ended(status, *(path.read_bytes() for path in self._files))

    def close(self) -> None:
        self._server.communicate()


def _serve(out: str, err: str) -> None:
    """Fork for each line of arguments and tell the exit status. Returns in the child, whose streams are the files."""
    from vllm_doctor.cli.diagnose_logs import render
    from vllm_doctor.diagnosis.engine import diagnose

    render([diagnose(b"ERROR 05-06 10:00:01 [core.py:489] ValueError: x\n")], "text", {"color": "never", "width": 100, "verbose": True, "language": "en"})
    while line := sys.stdin.readline():
        pid = os.fork()
        if pid == 0:
            for fd, path, mode in ((0, os.devnull, os.O_RDONLY), (1, out, os.O_WRONLY), (2, err, os.O_WRONLY)):
                file = os.open(path, mode | os.O_CREAT | os.O_TRUNC)
                os.dup2(file, fd)
                os.close(file)
            sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - the stream of the command
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            signal.alarm(SECONDS)
            folder, *arguments = json.loads(line)
            os.chdir(folder)
            sys.argv = ["vllm-doctor", *arguments]
            runpy.run_module("vllm_doctor", run_name="__main__")
            sys.exit("the program did not end itself")
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
