"""One launch from its failure to its cure: started, read live by `vllm-doctor watch`, mended as offered, started again."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import models
from actions import ACTIONS
from environment import Environment, home
from events import EVENTS
from launches import Launch, Release
from server import Server, complete, free_port

DOCTOR = Path(sys.executable).parent  # vllm-doctor is installed where these tests run
_CLEARED = ("VLLM_", "HF_", "PYTHON", "VIRTUAL_ENV")
TAIL = 40  # lines of a log that a failed test shows


class DisprovedError(AssertionError):
    """The claim does not hold for a launch; carries the end of the log."""

    def __init__(self, what: str, server: Server) -> None:
        tail = "\n".join(server.text().splitlines()[-TAIL:])
        super().__init__(f"{what}\n$ {server.command}\n{tail}")


@dataclass(frozen=True)
class Outcome:
    """A row of the table."""

    launch: Launch
    cause: str | None
    fix: str
    cured: bool | None  # None: nothing can be carried out here
    seconds: float
    fixes: list[dict[str, Any]]
    log: Path


class Trial:
    """A launch in a folder of its own."""

    def __init__(self, release: Release, environment: Environment, sound: Path, launch: Launch, folder: Path) -> None:
        self.launch = launch
        self.prefix = environment.bin.parent
        self.folder = folder
        self.sound = sound
        self.port = free_port()
        self.models = folder / "models"
        self.before = launch.before
        self.holder: socket.socket | None = None
        self.environment = self._exported(release, environment)
        self._servers = 0

    def run(self) -> Outcome:
        """Fail, be read, be cured. Raises DisprovedError."""
        began = time.monotonic()
        try:
            report = self._fail()
            fix, cured = self._cure(report)
        finally:
            self.free_the_port()
        return Outcome(self.launch, report["primary"], fix, cured, time.monotonic() - began, _fixes(report), self.folder / "start-1" / "server.log")

    def put(self, text: str) -> str:
        """A text of the launches file with this trial's folders and port in it."""
        return (text.replace("{models}", str(self.models)).replace("{port}", str(self.port))
                .replace("{folder}", str(self.folder)))

    def write(self, files: dict[str, str]) -> None:
        """Write files of the launch into its folder."""
        for name, text in files.items():
            (self.folder / name).write_text(self.put(text), encoding="utf-8")

    def free_the_port(self) -> None:
        """End the program that holds the port, if there is one."""
        if self.holder:
            self.holder.close()

    def start(self) -> Server:
        """The launch, with its models and files."""
        self.models.mkdir(parents=True)
        models.lay_out(self.sound, models.named_in(self.launch.command), self.models)
        self.write(self.launch.files)
        if self.launch.occupied:
            self.holder = socket.create_server(("", self.port))
        return self._start(self.put(self.launch.command))

    def _exported(self, release: Release, environment: Environment) -> dict[str, str]:
        """What the shell has exported: nothing of vLLM's but what the release and the launch say."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_CLEARED)}
        path = [str(environment.bin), str(DOCTOR), os.environ["PATH"]]
        wanted = {"PATH": os.pathsep.join(path), "VLLM_CACHE_ROOT": str(home() / f"cache-{release.version}"),
                  **release.environment, **self.launch.environment}
        return kept | {name: self.put(value) for name, value in wanted.items() if value is not None}

    def _start(self, command: str) -> Server:
        self._servers += 1
        folder = self.folder / f"start-{self._servers}"
        folder.mkdir()
        return Server(command, self.environment, folder, self.before)

    def _fail(self) -> dict[str, Any]:
        launch = self.launch
        server = self.start()
        try:
            if launch.when:
                came = server.wait_for_health() if launch.when == "serving" else server.wait_for_text(launch.when)
                if not came:
                    raise DisprovedError(f"{launch.when!r} never came", server)
            if launch.do:
                EVENTS[launch.do](server)
            if launch.serves:
                server.stop()
            elif not server.wait_for_end():
                raise DisprovedError("it did not fail", server)
        finally:
            server.kill()
        report = self._told_the_command(server)
        found = {name: report["facts"].get(name) for name in launch.facts}
        wanted = {name: self.put(value) if isinstance(value, str) else value for name, value in launch.facts.items()}
        if report["primary"] != launch.cause:
            raise DisprovedError(f"cause {report['primary']}, not {launch.cause}", server)
        if found != wanted:
            raise DisprovedError(f"facts {found}, not {wanted}", server)
        return report

    def _told_the_command(self, server: Server) -> dict[str, Any]:
        """The report; where the log did not show the command, one of `diagnose` that is told it, as the README says."""
        report = server.report()
        fixes = _fixes(report)
        if not any(fix["flags"] or fix["unset"] for fix in fixes) or any(fix["command"] for fix in fixes):
            return report
        told = subprocess.run(["vllm-doctor", "diagnose", str(server.log), "--command", server.command, "--format", "json"],
                              env=self.environment, capture_output=True, text=True, check=False)
        again = json.loads(told.stdout)
        if again["primary"] != report["primary"]:
            raise DisprovedError(f"watch says {report['primary']}, diagnose {again['primary']}", server)
        return dict(again)

    def _cure(self, report: dict[str, Any]) -> tuple[str, bool | None]:
        launch = self.launch
        offered = _fixes(report)
        ids = [fix["id"] for fix in offered]
        expected = [*launch.passed_over, launch.fix] if launch.fix else []
        if ids[:len(expected)] != expected:
            raise AssertionError(f"offered {ids}, not {expected} first")
        if not launch.fix:
            return "", None
        fix = offered[len(expected) - 1]
        if launch.not_cured:
            return fix["title"], None
        if not fix["command"]:
            ACTIONS[fix["action"]](self)
        server = self._start(fix["command"] or self.put(launch.command))
        try:
            if not server.wait_for_health():
                raise DisprovedError(f"{fix['id']} does not cure it", server)
            status, answer = complete(server.port)
            if status != 200:
                raise DisprovedError(f"a completion is answered {status}: {answer}", server)
        finally:
            server.stop()
        return self.neutral(fix["command"] or fix["title"]), True

    def neutral(self, text: str) -> str:
        """A text without this machine's folders."""
        return text.replace(str(self.models), "/models").replace(str(self.folder), "/srv").replace(str(self.port), "8000")


def as_typed(launch: Launch, command: str) -> str:
    """The launch as a line of a terminal, with what it exports."""
    shown = [f"{name}={shlex.quote(str(value))}" for name, value in launch.environment.items() if value is not None]
    return " ".join([*shown, command])


def _fixes(report: dict[str, Any]) -> list[dict[str, Any]]:
    cause = next((finding for finding in report["findings"] if finding["id"] == report["primary"]), None)
    return list(cause["fixes"]) if cause else []
