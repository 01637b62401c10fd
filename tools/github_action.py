"""The step of action.yml that diagnoses: reads the log once, writes every format, the job's summary and its outputs.

Run by the environment action.yml made, with the inputs in INPUT_… variables; what a log says never reaches a shell.
Exits with 0 whatever was found (action.yml fails the job later, after the upload), with 2 when there is no log.
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

FILES = {"json": "report.json", "html": "report.html", "sarif": "report.sarif", "markdown": "report.md", "junit": "report.xml"}


def main() -> int:
    """Diagnose what INPUT_LOG says."""
    folder = Path(tempfile.mkdtemp(prefix="vllm-doctor-", dir=os.environ.get("RUNNER_TEMP")))
    try:
        logs = find_logs(os.environ.get("INPUT_LOG", ""), folder)
        options = shlex.split(os.environ.get("INPUT_OPTIONS", ""))
    except ValueError as error:
        print(f"vllm-doctor: {error}", file=sys.stderr)
        return 2
    annotate = os.environ.get("INPUT_ANNOTATIONS", "true") == "true"
    reports = [item for format_, name in FILES.items() for item in ("--report", f"{format_}={folder / name}")]
    command = [sys.executable, "-m", "vllm_doctor", "diagnose", *options, *reports, "--format", "github" if annotate else "text",
               "--fail-on", os.environ.get("INPUT_FAIL_ON") or "error", "--", *logs]
    status = subprocess.run(command, check=False).returncode
    if not (folder / FILES["json"]).is_file():
        return status or 2
    document = json.loads((folder / FILES["json"]).read_text(encoding="utf-8"))
    if os.environ.get("INPUT_SUMMARY", "true") == "true":
        append("GITHUB_STEP_SUMMARY", (folder / FILES["markdown"]).read_text(encoding="utf-8"))
    cause, command_line = first_cause(document)
    for name, value in {"status": str(status), "cause": cause, "fix-command": command_line, "folder": str(folder),
                        "report": str(folder / FILES["json"])}.items():
        append("GITHUB_OUTPUT", output(name, value))
    return 0 if status == 1 else status


def find_logs(text: str, folder: Path) -> list[str]:
    """The files that INPUT_LOG names, a path or a glob a line; or its text put into a file. Raises ValueError.

    Several lines of which none names a file are the log itself; one line always names files.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError("the input `log` is empty")
    found = {line: sorted(path for path in ([line] if Path(line).exists() else glob.glob(line, recursive=True))
                          if Path(path).is_file()) for line in lines if len(line) < 4096 and "\0" not in line}
    missing = [line for line in lines if not found.get(line)]
    if len(lines) > 1 and len(missing) == len(lines):
        path = folder / "output.log"
        path.write_text(text, encoding="utf-8")
        return [str(path)]
    if missing:
        raise ValueError(f"no file matches {missing[0]!r}")
    return list(dict.fromkeys(path for line in lines for path in found[line]))


def first_cause(document: dict[str, Any]) -> tuple[str, str]:
    """(the cause's id, the command its first fix offers) of the first report that knows one; "" for what is unknown."""
    for report in document.get("reports", [document]):
        for finding in report["findings"]:
            if finding["id"] == report["primary"]:
                return finding["id"], next((fix["command"] for fix in finding["fixes"] if fix["command"]), "")
    return "", ""


def output(name: str, value: str) -> str:
    """An output as the runner reads it; the end mark is random, so that no value can close it."""
    mark = f"end-{uuid.uuid4()}"
    return f"{name}<<{mark}\n{value}\n{mark}\n"


def append(variable: str, text: str) -> None:
    """Add to the file that a variable of the runner names, where there is one."""
    if path := os.environ.get(variable):
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    sys.exit(main())
