"""A small GitHub runner: enough of one to run the steps of a composite action and read what they leave behind."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_EXPRESSION = re.compile(r"\$\{\{ *([^}]*?) *\}\}")


@dataclass
class Job:
    """What was seen of a job: each step's standard output, the uploads, the summary, the outputs, how it ended."""

    out: str = ""
    err: str = ""
    summary: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    uploads: list[dict[str, str]] = field(default_factory=list)
    failed_in: str = ""


def read_file_commands(text: str) -> dict[str, str]:
    """GITHUB_OUTPUT as actions/runner parses it: `name=value`, or `name<<MARK`, lines, `MARK`."""
    values: dict[str, str] = {}
    lines = iter(text.split("\n"))
    for line in lines:
        if not line:
            continue
        equals, heredoc = line.find("="), line.find("<<")
        if equals >= 0 and (heredoc < 0 or equals < heredoc):
            name, value = line.split("=", 1)
        elif heredoc >= 0:
            name, mark = line.split("<<", 1)
            assert name
            assert mark
            taken = []
            for inner in lines:
                if inner == mark:
                    break
                taken.append(inner)
            else:
                raise AssertionError(f"no end mark {mark}")
            value = "\n".join(taken)
        else:
            raise AssertionError(f"invalid format {line!r}")
        values[name] = value
    return values


class Runner:
    """Runs the steps in a workspace. `env` is added to each step's own."""

    def __init__(self, action: Path, workspace: Path, temp: Path, env: dict[str, str]) -> None:
        self.document: dict[str, Any] = yaml.safe_load(action.read_text(encoding="utf-8"))
        self.action, self.workspace, self.temp, self.env = action, workspace, temp, env

    def run(self, **inputs: str) -> Job:
        """The whole action, with inputs as `with:` gives them (underscores for hyphens)."""
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        assert set(given) <= set(self.document["inputs"])
        missing = [name for name, entry in self.document["inputs"].items() if entry.get("required") and name not in given]
        assert not missing
        self._inputs = {name: str(entry.get("default", "")) for name, entry in self.document["inputs"].items()} | given
        self._steps: dict[str, dict[str, str]] = {}
        job = Job()
        for number, step in enumerate(self.document["runs"]["steps"]):
            if "if" in step and not self._condition(step["if"]):
                continue
            if "uses" in step:
                job.uploads.append({"uses": step["uses"], **{key: self._filled(str(value)) for key, value in step["with"].items()}})
                continue
            if self._step(step, number, job) != 0:
                job.failed_in = step["name"]
                break
        job.outputs = {name: self._filled(entry["value"]) for name, entry in self.document["outputs"].items()}
        return job

    def _step(self, step: dict[str, Any], number: int, job: Job) -> int:
        files = {name: self.temp / f"{name}-{number}" for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ENV", "GITHUB_PATH")}
        for file in files.values():
            file.write_text("", encoding="utf-8")
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "an expression inside a script is an injection"
        script = self.temp / f"step-{number}.sh"
        script.write_text(step["run"], encoding="utf-8")
        env = {"PATH": os.environ["PATH"], "HOME": str(self.temp), "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"], "CI": "true", "GITHUB_ACTIONS": "true", "RUNNER_TEMP": str(self.temp),
               "GITHUB_WORKSPACE": str(self.workspace), "GITHUB_ACTION_PATH": str(self.action.parent), **self.env,
               **{name: self._filled(str(value)) for name, value in step.get("env", {}).items()}, **{name: str(file) for name, file in files.items()}}
        done = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)], env=env, cwd=self.workspace, capture_output=True,
                              timeout=120, check=False)
        job.out += done.stdout.decode("utf-8")
        job.err += done.stderr.decode("utf-8")
        job.summary += files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
        assert files["GITHUB_ENV"].read_text() == files["GITHUB_PATH"].read_text() == ""
        if "id" in step:
            self._steps[step["id"]] = read_file_commands(files["GITHUB_OUTPUT"].read_text(encoding="utf-8"))
        return done.returncode

    def _value(self, expression: str) -> str:
        kind, _, rest = expression.partition(".")
        if kind == "inputs":
            return self._inputs[rest]
        assert kind == "steps"
        step, _, name = rest.partition(".outputs.")
        return self._steps.get(step, {}).get(name, "")

    def _filled(self, text: str) -> str:
        return _EXPRESSION.sub(lambda match: self._value(match[1]), text)

    def _condition(self, text: str) -> bool:
        name, value = re.fullmatch(r"([\w.-]+) != '([^']*)'", text).groups()
        return self._value(name) != value
