"""Find the log files of a Slurm job, and how it ended."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial

from vllm_doctor.errors import InputError, reason
from vllm_doctor.hosts.client import ByteStream, client, followed_by_lines, text_output
from vllm_doctor.hosts.states import exit_report
from vllm_doctor.logs.inputs import Log
from vllm_doctor.text.terminal_safe import safe_text

_JOB = re.compile(r"\d{1,12}(?:_\d{1,9})?(?:\+\d{1,6})?")  # with the index of an array, the part of a mixed job
_FIELD = re.compile(r"(?:^|\s)(?P<name>StdOut|StdErr|JobState|Reason|ExitCode|ArrayJobId|ArrayTaskId)="
                    r"(?P<value>.*?)(?=\s[A-Z][\w:/]*=|\s*$)")  # a path may have blanks
_CHUNK = 1 << 16


def job_logs(job: str) -> Iterator[Log]:
    """Yield the log in each output file of a job; behind it stands how the job ended, as lines. Raises InputError.

    Each task of an array has files of its own. `scontrol` knows a job for some minutes after its end only.
    """
    if not _JOB.fullmatch(job):
        raise InputError(f"--slurm {safe_text(job)}: not a job id, such as 4711 or 4711_3")
    found = text_output([client("scontrol"), "--oneliner", "show", "job", job])
    tasks = [{match["name"]: match["value"] for match in _FIELD.finditer(line)} for line in found.splitlines()]
    endings: dict[str, Sequence[str]] = {}
    for task in tasks:
        if task.get("ArrayTaskId", "0").isdecimal():  # else the tasks of an array that wait
            endings |= dict.fromkeys(_paths(task), _ending(_id(task, job), task))
    if not endings:
        raise InputError(f"--slurm {job}: scontrol names no output file of it")
    for path, lines in endings.items():
        yield Log(ByteStream(followed_by_lines(_file(path), partial(tuple, lines))), path)


def _paths(fields: dict[str, str]) -> list[str]:
    """Return the output files of a job or task."""
    return [path for name in ("StdOut", "StdErr") if (path := fields.get(name, "")) not in {"", "/dev/null"}]


def _id(fields: dict[str, str], job: str) -> str:
    """Return the id of a task as Slurm writes it; of another job, the one that was asked for."""
    whole, task = fields.get("ArrayJobId", ""), fields.get("ArrayTaskId", "")
    return f"{whole}_{task}" if whole.isdecimal() and task.isdecimal() else job


def _ending(job: str, fields: dict[str, str]) -> Sequence[str]:
    state = fields.get("JobState", "")
    if state in {"", "RUNNING", "PENDING", "COMPLETED", "COMPLETING", "CANCELLED"}:
        return ()
    if state == "OUT_OF_MEMORY":
        return (f"slurmstepd: error: Detected 1 oom_kill event in StepId={job}.batch",)
    code, _, signal = fields.get("ExitCode", "0:0").partition(":")
    number = int(code) if code.isdecimal() else 0
    if not number and signal.isdecimal():
        number = 128 + int(signal) if int(signal) else 1
    return exit_report(f"Slurm job {job}: {state}", number, fields.get("Reason") or state)


def _file(path: str) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            while data := file.read(_CHUNK):
                yield data
    except OSError as error:
        raise InputError(f"{path}: {reason(error)}; Slurm writes it on the job's first node") from error
