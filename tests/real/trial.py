"""One launch from its failure to its cure: started, read live by `vllm-doctor watch`, mended as offered, started again."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import models
from actions import ACTIONS
from cured import ASKED
from environment import Environment, home
from events import EVENTS
from expected import contradicted, offers, truths
from launches import Launch, Release
from server import Server, complete, free_port

DOCTOR = Path(sys.executable).parent  # vllm-doctor is installed where these tests run
_CLEARED = ("VLLM_", "HF_", "PYTHON", "VIRTUAL_ENV")
_BLANK = re.compile(r"<[^<>]+>")  # what a corrected command leaves to the reader
OK = 200
NO_COMMAND = 2  # the exit status of a usage that is refused
TAIL = 40  # lines of a log that a failed test shows


class DisprovedError(AssertionError):
    """The claim does not hold for a launch; carries the end of the log."""

    def __init__(self, what: str, server: Server) -> None:
        tail = "\n".join(server.text().splitlines()[-TAIL:])
        super().__init__(f"{what}\n$ {server.command}\n{tail}")


@dataclass
class Outcome:
    """A row of the table."""

    launch: Launch
    served: bool = False  # though it was to fail: the release tolerates it
    cause: str | None = None
    problems: list[str] = field(default_factory=list)  # what the report says wrongly, or does not say
    fix: str = ""
    cured: bool | None = None  # None: nothing to carry out, or nothing that can be carried out here
    why_not: str = ""
    seconds: float = 0.0
    report: dict[str, Any] = field(default_factory=dict)
    log: Path = Path()


class Trial:
    """A launch in a folder of its own."""

    def __init__(self, release: Release, environment: Environment, sound: Path, launch: Launch, folder: Path) -> None:
        self.release = release
        self.launch = launch
        self.prefix = environment.bin.parent
        self.folder = folder
        self.sound = sound
        self.port = free_port()
        self.models = folder / "models"
        self.before = self.put(launch.before)
        self.holder: socket.socket | None = None
        self.environment = self._exported(release, environment)
        self._servers = 0

    def run(self, *, cure: bool = True) -> Outcome:
        """Fail (or serve), be read, be cured."""
        began = time.monotonic()
        outcome = Outcome(self.launch, log=self.folder / "start-1" / "server.log")
        try:
            self._observe(outcome)
            if cure and not outcome.served and self.launch.causes:
                self._cure(outcome)
        finally:
            self.free_the_port()
        outcome.seconds = time.monotonic() - began
        return outcome

    def put(self, text: str) -> str:
        """A text of the catalogue with this trial's folders and port in it."""
        return (text.replace("{models}", str(self.models)).replace("{port}", str(self.port))
                .replace("{folder}", str(self.folder)))

    def write(self, files: dict[str, str]) -> None:
        """Write files of the launch into its folder."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.put(text), encoding="utf-8")

    def free_the_port(self) -> None:
        """End the program that holds the port, if there is one."""
        if self.holder:
            self.holder.close()

    def start(self) -> Server:
        """The launch, with its models and files."""
        self.models.mkdir(parents=True)
        wanted = " ".join([self.launch.command, *self.launch.files.values()])
        models.lay_out(self.sound, models.named_in(wanted), self.models)
        self.write(self.launch.files)
        if self.launch.occupied:
            self.holder = socket.create_server(("", self.port))
        return self._start(self.put(self.launch.command))

    def neutral(self, text: str) -> str:
        """A text without this machine's folders."""
        return text.replace(str(self.models), "/models").replace(str(self.folder), "/srv").replace(str(self.port), "8000")

    def _exported(self, release: Release, environment: Environment) -> dict[str, str]:
        """What the shell has exported: nothing of vLLM's but what the release and the launch say."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_CLEARED)}
        path = [str(environment.bin), str(DOCTOR), os.environ["PATH"]]
        wanted = {"PATH": os.pathsep.join(path), "VLLM_CACHE_ROOT": str(home() / f"cache-{release.version}"),
                  **release.environment, **environment.preload(release.preloaded), **self.launch.environment}
        return kept | {name: self.put(value) for name, value in wanted.items() if value is not None}

    def _start(self, command: str) -> Server:
        self._servers += 1
        folder = self.folder / f"start-{self._servers}"
        folder.mkdir()
        return Server(command, self.environment, folder, self.before)

    def _observe(self, outcome: Outcome) -> None:
        """Start it, do what the launch says, and judge the report."""
        server = self.start()
        truth: dict[str, Any] = {}
        try:
            outcome.served = self._wait(server)
            if outcome.served:
                truth = truths(server, self._model())
                complete(server.port)
            for deed in self.launch.do:
                EVENTS[deed](server)
            if outcome.served or self.launch.serves:
                server.stop()
            elif not server.wait_for_end():
                raise DisprovedError("it did not end", server)
        finally:
            server.kill()
        report = self._told_the_command(server)
        outcome.report, outcome.cause = report, report["primary"]
        healthy = outcome.served or not self.launch.causes
        outcome.problems = false_alarms(report) if healthy else missed(self.launch, self._expected_facts(), report)
        wrong = contradicted(truth, report["facts"])
        outcome.problems += [f"{name} is {so}, the report says {said}" for name, (so, said) in wrong.items()]

    def _wait(self, server: Server) -> bool:
        """Wait for the moment of the launch. Whether a server serves that was to fail."""
        launch = self.launch
        if launch.when == "serving":
            if not server.wait_for_health():
                raise DisprovedError("it never served", server)
        elif launch.when:
            if not server.wait_for_text(launch.when):
                raise DisprovedError(f"{launch.when!r} never came", server)
        elif is_server(launch):
            return server.wait_for_health()
        return False

    def _model(self) -> Path | None:
        names = models.named_in(self.launch.command)
        return self.models / min(names) if len(names) == 1 else None

    def _expected_facts(self) -> dict[str, Any]:
        return {name: self.put(value) if isinstance(value, str) else value for name, value in self.launch.facts.items()}

    def _told_the_command(self, server: Server) -> dict[str, Any]:
        """The report; where the log did not show the command, one of `diagnose` that is told it, as the README says."""
        report = server.report()
        fixes = fixes_of(report)
        if not any(fix["flags"] or fix["unset"] or fix["env"] for fix in fixes) or any(fix["command"] for fix in fixes):
            return report
        told = subprocess.run(["vllm-doctor", "diagnose", str(server.log), "--command", server.command, "--format", "json"],
                              env=self.environment, capture_output=True, text=True, check=False)
        if told.returncode == NO_COMMAND:  # a script, whose settings no command line holds
            return report
        again = json.loads(told.stdout)
        if again["primary"] != report["primary"]:
            raise DisprovedError(f"watch says {report['primary']}, diagnose {again['primary']}", server)
        return dict(again)

    def _cure(self, outcome: Outcome) -> None:
        """Carry out the first fix that this machine can carry out, and ask for what was asked for."""
        launch = self.launch
        offered = [fix for fix in fixes_of(outcome.report) if fix["id"] not in launch.passed_over]
        if not offered:
            outcome.cured, outcome.why_not = False, "no fix is offered"
            return
        fix = offered[0]
        outcome.fix = self.neutral(fix["command"] or fix["title"])
        if launch.not_cured:
            outcome.why_not = launch.not_cured
            return
        if not fix["command"]:
            if fix["action"] not in ACTIONS:
                outcome.why_not = f"nothing here carries out {fix['action'] or fix['title']}"
                return
            ACTIONS[fix["action"]](self)
        elif blank := _BLANK.search(fix["command"]):
            outcome.why_not = f"a person fills in {blank.group()}"
            return
        server = self._start(fix["command"] or self.put(launch.command))
        try:
            outcome.cured, outcome.why_not = self._does_what_was_asked(server)
        finally:
            server.stop()

    def _does_what_was_asked(self, server: Server) -> tuple[bool, str]:
        """Whether a mended launch serves, or ends well where it is no server; else what it said."""
        if not is_server(self.launch):
            if server.wait_for_end() and server.status == 0:
                return True, ""
        elif server.wait_for_health():
            status, answer = ASKED[self.launch.asked](server)
            answered = status == OK and "error" not in (answer or {})  # 0.16 answers 200 with the error of a dead engine
            return answered, "" if answered else f"a request is answered {status}: {str(answer)[:200]}"
        lines = server.text().strip().splitlines() or ["without a word"]
        return False, f"it ends: {self.neutral(lines[-1][:200])}"


def is_server(launch: Launch) -> bool:
    """Whether the command is to serve, rather than to do its work and end."""
    return ("vllm serve" in launch.command or "openai.api_server" in launch.command) and "--help" not in launch.command.split()


def missed(launch: Launch, facts: dict[str, Any], report: dict[str, Any]) -> list[str]:
    """What a report of a failure lacks, or says wrongly."""
    problems = []
    if report["primary"] not in launch.causes:
        problems.append(f"cause {report['primary']}, not {launch.cause}")
    found = {name: report["facts"].get(name) for name in facts}
    problems += [f"{name} is {value}, the report says {found[name]}" for name, value in facts.items() if found[name] != value]
    offered = fixes_of(report)[:3]
    if launch.fix and not any(offers(fix, wanted) for fix in offered for wanted in launch.fix):
        problems.append(f"fixes {[fix['id'] for fix in offered]}, none of the wanted")
    return problems


def false_alarms(report: dict[str, Any]) -> list[str]:
    """What a report of a server that nothing is wrong with should not say."""
    alarms = [finding["id"] for finding in report["findings"] if finding["severity"] == "error"]
    failure = report["failure"]
    if failure and failure["kind"] != "request":
        alarms.append(f"{failure['exception']}: {failure['message']}"[:120])
    if report["status"] == "failed":
        alarms.append("status failed")
    return [f"false alarm: {alarm}" for alarm in alarms]


def as_typed(launch: Launch, command: str) -> str:
    """The launch as a line of a terminal, with what it exports."""
    shown = [f"{name}={shlex.quote(str(value))}" for name, value in launch.environment.items() if value is not None]
    return " ".join([*shown, command])


def fixes_of(report: dict[str, Any]) -> list[dict[str, Any]]:
    """The fixes of the cause; where none is named, those of the failure."""
    cause = next((finding for finding in report["findings"] if finding["id"] == report["primary"]), None)
    return list(cause["fixes"] if cause else (report["failure"] or {}).get("fixes") or [])
