"""`diagnose --docker`, with the real client against an engine of ours; `--journal` and `--slurm` with recorded answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import docker_api
import pytest
from click.testing import CliRunner

from vllm_doctor.cli.root import cli
from vllm_doctor.errors import InputError
from vllm_doctor.hosts.client import checked_name, followed_by_lines, stream_output, text_output

START = "INFO 11-20 10:00:00 [api_server.py:1837] vLLM API server version 0.14.1\n"
LOADING = START + "(EngineCore_DP0 pid=31) INFO 11-20 10:00:09 [gpu_model_runner.py:3562] Starting to load model m...\n"
READY = "INFO:     Application startup complete.\n"


def diagnosed(*options: str) -> tuple[int, list[dict[str, Any]], str]:
    done = CliRunner().invoke(cli, ["diagnose", "--isolated", "--format", "jsonl", *options])
    return done.exit_code, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], done.stderr


def program(folder: Path, name: str, script: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that print recorded answers, first in PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


@pytest.mark.skipif(shutil.which("docker") is None, reason="the docker client is not installed")
def test_a_container_s_output_and_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    containers = {
        "killed": ({"Running": False, "ExitCode": 137, "OOMKilled": True}, [(2, LOADING)]),
        "well": ({"Running": True, "ExitCode": 0}, [(1, START), (2, READY)]),
        "stopped": ({"Running": False, "ExitCode": 143}, [(1, START), (2, READY)]),
    }
    with docker_api.serving(tmp_path / "s", containers) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
        status, [report], _ = diagnosed("--docker", "killed")
        assert (status, report["primary"], report["source"]["path"]) == (1, "host-ram-oom-kill", "docker killed")
        status, reports, _ = diagnosed("--docker", "well", "--docker", "stopped")
        assert status == 0
        assert [report["status"] for report in reports] == ["serving", "serving"]
        status, _, error = diagnosed("--docker", "none")
        assert (status, error) == (2, "vllm-doctor: docker: Error response from daemon: No such container: none\n")


def test_podman_is_asked_where_docker_is_not_installed(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(recorded, "podman", f"""if [ "$1" = inspect ]; then echo '[{{"State": {{"Running": true}}}}]'
else printf '%s' '{START}{READY}'; fi""")
    monkeypatch.setenv("PATH", str(recorded))
    program(recorded, "docker", "")
    (recorded / "docker").unlink()
    status, [report], _ = diagnosed("--docker", "vllm")
    assert (status, report["status"], report["source"]["path"]) == (0, "serving", "podman vllm")


def test_the_journal_of_a_unit(recorded: Path) -> None:
    killed = "vllm.service: A process of this unit has been killed by the OOM killer.\n"
    program(recorded, "journalctl", f"""[ "$*" = "--unit=vllm.service --boot --no-pager --output=cat" ] || exit 9
printf '%s' '{LOADING}{killed}'""")
    status, [report], _ = diagnosed("--journal", "vllm.service")
    assert (status, report["source"]["lines"]) == (1, 3)


def test_a_unit_without_entries_is_one_line(recorded: Path) -> None:
    program(recorded, "journalctl", "echo '-- No entries --'")
    status, _, error = diagnosed("--journal", "vlm.service")
    assert (status, error) == (
        2, "vllm-doctor: --journal vlm.service: the journal has no entries of this unit since the last boot\n")


def test_the_files_of_a_slurm_job(recorded: Path, tmp_path: Path) -> None:
    out, err = tmp_path / "vllm-4711.out", tmp_path / "vllm-4711.err"
    out.write_text(LOADING.rstrip("\n"))
    err.write_text(READY)
    program(recorded, "scontrol", f"""[ "$*" = "--oneliner show job 4711" ] || exit 9
echo 'JobId=4711 JobName=vllm JobState=OUT_OF_MEMORY Reason=OutOfMemory ExitCode=0:125 StdErr={err} StdOut={out}'""")
    status, reports, _ = diagnosed("--slurm", "4711")
    assert status == 1
    assert [report["source"]["path"] for report in reports] == [str(out), str(err)]
    assert reports[0]["primary"] == "host-ram-oom-kill"
    assert reports[0]["findings"][0]["evidence"][0]["line"] == 3


def test_each_task_of_an_array_job_has_a_report(recorded: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "task 1.out", tmp_path / "task 2.out"
    first.write_text(LOADING)
    second.write_text(READY)
    program(recorded, "scontrol", f"""
echo 'JobId=4712 ArrayJobId=4711 ArrayTaskId=1 JobName=vllm JobState=OUT_OF_MEMORY ExitCode=0:125 StdErr={first} StdIn=/dev/null StdOut={first}'
echo 'JobId=4713 ArrayJobId=4711 ArrayTaskId=2 JobName=vllm JobState=RUNNING ExitCode=0:0 StdErr={second} StdIn=/dev/null StdOut={second}'
echo 'JobId=4711 ArrayJobId=4711 ArrayTaskId=3-9 JobName=vllm JobState=PENDING ExitCode=0:0 StdErr=/x StdIn=/dev/null StdOut=/x'""")
    status, reports, _ = diagnosed("--slurm", "4711")
    assert status == 1
    assert [(report["source"]["path"], report["primary"]) for report in reports] == [(str(first), "host-ram-oom-kill"), (str(second), None)]


def test_a_job_that_slurm_has_forgotten_is_one_line(recorded: Path) -> None:
    program(recorded, "scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    status, _, error = diagnosed("--slurm", "12")
    assert (status, error) == (2, "vllm-doctor: scontrol: slurm_load_jobs error: Invalid job id specified\n")


@pytest.mark.parametrize("option", ["--docker", "--journal", "--slurm"])
@pytest.mark.parametrize("name", ["--all", "-f", "a b", "../x", "x;reboot", "$(reboot)", "\x1b[2J", ""])
def test_a_name_is_never_read_as_something_else(option: str, name: str) -> None:
    status, _, error = diagnosed(f"{option}={name}")
    assert status == 2
    assert error.count("\n") == 1
    assert "\x1b" not in error


def test_a_missing_client_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert diagnosed("--docker", "vllm")[2] == "vllm-doctor: docker or podman: not installed here, or not in PATH\n"


def test_a_log_that_is_not_read_to_its_end_leaves_no_process() -> None:
    pieces = stream_output(["yes", "a line"], [])
    assert next(pieces).startswith(b"a line\n")
    pieces.close()


def test_a_client_that_fails_in_the_middle_is_noted(recorded: Path) -> None:
    program(recorded, "journalctl", f"printf '%s' '{START}{READY}'; echo 'journal was rotated' >&2; exit 1")
    status, [report], _ = diagnosed("--journal", "vllm@a\\x2db.service")
    assert (status, report["status"]) == (0, "serving")
    assert report["notes"][-1] == "The log may be incomplete: journalctl: journal was rotated"


def test_a_container_that_is_removed_at_its_end_has_a_report(recorded: Path) -> None:
    program(recorded, "docker", f"""if [ "$1" = inspect ]; then
  [ -e {recorded}/read ] && {{ echo 'Error: No such object: vllm' >&2; exit 1; }}
  echo '[{{"State": {{"Running": true}}}}]'
else printf '%s' '{START}{READY}'; touch {recorded}/read; fi""")
    status, [report], _ = diagnosed("--docker", "vllm")
    assert (status, report["status"]) == (0, "serving")


def test_lines_behind_a_log_begin_on_their_own_line() -> None:
    assert b"".join(followed_by_lines([b"a", b"b"], lambda: ["c"])) == b"ab\nc\n"
    assert b"".join(followed_by_lines([b"a\n"], lambda: ["c"])) == b"a\nc\n"
    assert b"".join(followed_by_lines([b"a"], tuple)) == b"a"


def test_an_error_of_a_client_is_one_safe_line() -> None:
    with pytest.raises(InputError, match=r"^sh: bad<U\+001B> news$"):
        text_output(["sh", "-c", "printf 'bad\\033 news\\nmore' >&2; exit 3"])
    with pytest.raises(InputError, match="not a name, such as pod-1"):
        checked_name("-x", "--pod", "pod-1")
