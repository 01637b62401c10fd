"""Run the diagnosis step of action.yml: read the log once, write all formats, the job summary and the outputs.

Run by the environment action.yml made, with the inputs in INPUT_… variables; what a log says never reaches a shell.
Exits with 0 when there is a report, whatever it says (action.yml fails the job later, after the upload), else with 2.
"""

from __future__ import annotations

import glob
import json
import os
import shlex
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

from vllm_doctor.reports.escape import workflow_data

TEXT = "output.log"  # the log that came as text
FILES = {"json": "report.json", "html": "report.html", "sarif": "report.sarif", "markdown": "report.md", "junit": "report.xml"}


def main() -> int:
    """Diagnose the log of INPUT_LOG and return the exit status."""
    folder = Path(tempfile.mkdtemp(prefix="vllm-doctor-", dir=os.environ.get("RUNNER_TEMP")))
    try:
        logs = find_logs(os.environ.get("INPUT_LOG", ""), folder)
        options = shlex.split(os.environ.get("INPUT_OPTIONS", ""))
    except ValueError as error:
        problem(str(error))
        return 2
    annotate = os.environ.get("INPUT_ANNOTATIONS", "true") == "true"
    reports = [item for format_, name in FILES.items() for item in ("--report", f"{format_}={folder / name}")]
    command = [sys.executable, "-m", "vllm_doctor", "diagnose", *options, *reports, "--format", "github" if annotate else "text"]
    if fail_on := os.environ.get("INPUT_FAIL_ON"):
        command += ["--fail-on", fail_on]
    command += ["--", *logs]
    status = subprocess.run(command, check=False).returncode
    if not (folder / FILES["json"]).is_file():
        return status or 2
    document = json.loads((folder / FILES["json"]).read_text(encoding="utf-8"))
    if Path(logs[0]).parent == folder and document["status"] == "unknown":
        problem("the input `log` names no file, and is no log of vLLM")
        return 2
    if os.environ.get("INPUT_SUMMARY", "true") == "true":
        append("GITHUB_STEP_SUMMARY", (folder / FILES["markdown"]).read_text(encoding="utf-8"))
    cause, command_line = first_cause(document)
    for name, value in {"status": str(status), "cause": cause, "fix-command": command_line, "folder": str(folder),
                        "report": str(folder / FILES["json"]), "sarif": str(folder / FILES["sarif"])}.items():
        append("GITHUB_OUTPUT", output(name, value))
    return 0


def find_logs(text: str, folder: Path) -> list[str]:
    """Return the files that INPUT_LOG names (one path or glob per line), or a file with its text. Raises ValueError.

    Several lines of which the first names no file are the log itself: no other line of it is looked up as a glob.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError("the input `log` is empty")
    found = files(lines[0])
    if not found and len(lines) > 1 and not any(map(os.path.isfile, lines)):
        path = folder / TEXT
        path.write_text(text, encoding="utf-8")
        return [str(path)]
    for line in lines:
        if not files(line):
            raise ValueError(f"no file matches {line[:200]!r}")
    return list(dict.fromkeys(path for line in lines for path in files(line)))


def files(line: str) -> list[str]:
    """Return the files that match a path or a glob."""
    if os.path.isfile(line):
        return [line]
    try:
        return sorted(filter(os.path.isfile, glob.glob(line, recursive=True)))
    except (OSError, ValueError):  # a line of a log may be no name at all: too long, a null character
        return []


def first_cause(document: dict[str, Any]) -> tuple[str, str]:
    """Return the id and the first fix's command of the first known cause; "" for unknown ones."""
    for report in document.get("reports", [document]):
        for finding in report["findings"]:
            if finding["id"] == report["primary"]:
                return finding["id"], next((fix["command"] for fix in finding["fixes"] if fix["command"]), "")
    return "", ""


def output(name: str, value: str) -> str:
    """Return an output in the runner's format; the random delimiter cannot occur in the value."""
    mark = f"end-{uuid.uuid4()}"
    return f"{name}<<{mark}\n{value}\n{mark}\n"


def problem(text: str) -> None:
    """Print an annotation about invalid inputs."""
    print(f"::error title=vllm-doctor::{workflow_data(text)}", flush=True)


def append(variable: str, text: str) -> None:
    """Append to the file that a runner variable names, if it is set."""
    if path := os.environ.get(variable):
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    sys.exit(main())
