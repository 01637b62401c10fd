"""A server started as a user would, in a shell behind `vllm-doctor watch`, and the questions put to it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

STEP = 0.3  # seconds between two looks at a server
START = 600  # seconds a start may take on a busy machine
STOP = 60  # seconds between the end of the server and the end of the report


class Process(NamedTuple):
    """A running process: its number, its parent's, its command line."""

    pid: int
    parent: int
    title: str


class Server:
    """`COMMAND 2>&1 | vllm-doctor watch` in a session of its own; ended with all it started."""

    def __init__(self, command: str, environment: dict[str, str], folder: Path, before: str = "") -> None:
        self.command = command
        self.log = folder / "server.log"
        self.report_file = folder / "report.json"
        self.said = folder / "watch.txt"
        self.port = port_of(command)
        watch = f"vllm-doctor watch --format json --output {self.report_file} >{self.log} 2>{self.said}"
        script = "\n".join(filter(None, (before, f"{command} 2>&1 | {watch}")))
        self._process = subprocess.Popen(["bash", "-o", "pipefail", "-c", script], env=environment, cwd=folder,
                                         stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_heed_ctrl_c)  # noqa: PLW1509 - before any thread

    @property
    def status(self) -> int | None:
        """The shell's exit status; None while it runs."""
        return self._process.poll()

    def text(self) -> str:
        """The log so far, as the pipe passed it on."""
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def report(self) -> dict[str, Any]:
        """The last report of `watch`, which is there when the pipe has ended by itself."""
        return dict(json.loads(self.report_file.read_text(encoding="utf-8")))

    def wait_for_text(self, wanted: str, seconds: float = START) -> bool:
        """Whether that text came before the server ended."""
        return self._until(lambda: wanted in self.text(), seconds)

    def wait_for_health(self, seconds: float = START) -> bool:
        """Whether /health answered 200 before the server ended."""
        return self._until(lambda: get(self.port, "/health")[0] == 200, seconds)

    def wait_for_end(self, seconds: float = START) -> bool:
        """Whether the shell ended by itself."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.status is not None

    def processes(self) -> Iterator[Process]:
        """What runs in its session."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    stat = (entry / "stat").read_text().rpartition(")")[2].split()
                    if int(stat[3]) == self._process.pid:
                        title = (entry / "cmdline").read_text(errors="replace").replace("\0", " ").strip()
                        yield Process(int(entry.name), int(stat[1]), title)

    def signal(self, title: str, number: int) -> None:
        """Send a signal to its process of that title."""
        running = list(self.processes())
        for process in running:
            if title in process.title:
                os.kill(process.pid, number)
                return
        raise LookupError(f"no {title} among {[process.title[:60] for process in running]}")

    def terminate(self) -> None:
        """What `kill PID` does to the command before the pipe."""
        for process in self.processes():
            if process.parent == self._process.pid and str(self.report_file) not in process.title:
                os.kill(process.pid, signal.SIGTERM)

    def interrupt(self) -> None:
        """What Ctrl-C does: every process of the foreground gets SIGINT."""
        os.killpg(self._process.pid, signal.SIGINT)

    def stop(self) -> None:
        """End the server so that the report is written. Raises TimeoutError when it does not end; it is killed then."""
        if self.status is None:
            self.terminate()
        ended = self.wait_for_end(STOP)
        left = [process.title for process in self.processes()]
        self.kill()
        if not ended:
            raise TimeoutError(f"still there {STOP} s after SIGTERM: {left}")

    def kill(self) -> None:
        """End every process of the session at once."""
        for process in list(self.processes()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        self._process.wait()

    def _until(self, met: Any, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if met():
                return True
            if self.status is not None:
                return bool(met())
            time.sleep(STEP)
        return False


def _heed_ctrl_c() -> None:
    """Programs in the background of a script ignore SIGINT, and hand that on; a terminal's do not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def port_of(command: str) -> int:
    """The port that a command names, else vLLM's own."""
    found = re.search(r"--port[= ](\d+)", command)
    return int(found.group(1)) if found else 8000


def free_port() -> int:
    """A port that nobody holds."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def get(port: int, path: str, *, plain: bool = False) -> tuple[int, Any]:
    """Status and body of a question, read as JSON unless `plain`; 0 when nobody answers."""
    return _ask(urllib.request.Request(f"http://127.0.0.1:{port}{path}"), 5, plain=plain)


def post(port: int, path: str, body: dict[str, Any], seconds: float = START) -> tuple[int, Any]:
    """Status and body of a request; 0 when nobody answers."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    return _ask(request, seconds)


def complete(port: int, prompt: str = "hello", **settings: Any) -> tuple[int, Any]:
    """A completion of the first model that is served."""
    _, models = get(port, "/v1/models")
    body = {"model": models["data"][0]["id"], "prompt": prompt, "max_tokens": 4, **settings}
    return post(port, "/v1/completions", body)


def _ask(request: urllib.request.Request, seconds: float, *, plain: bool = False) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:  # noqa: S310 - this machine only
            text = answer.read()
            return answer.status, text.decode() if plain else json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")
    except (OSError, ValueError):
        return 0, None
