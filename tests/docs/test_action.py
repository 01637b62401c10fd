"""action.yml, run step by step as GitHub's runner does; its files and its command stream are parsed."""

from __future__ import annotations

import glob
import importlib.util
import json
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from runner import Job, Runner, read_file_commands
from test_formats import as_a_runner_reads, as_github_reads
from test_hostile import ATTACKS, SECRETS

ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / "action.yml"
LOGS = ROOT / "fixtures" / "logs"
LOG = (LOGS / "fatkv-cpu-space-1.log").read_bytes()
COMMAND = "VLLM_CPU_KVCACHE_SPACE=1 vllm serve /models/fatkv --port 8100 --max-model-len 8064"

spec = importlib.util.spec_from_file_location("github_action", ROOT / "tools" / "github_action.py")
github_action = importlib.util.module_from_spec(spec)
spec.loader.exec_module(github_action)

# Stands for `python3 -m venv` and pip: the environment it makes is this one.
PYTHON = """\
#!/bin/sh
echo "$@" >> "{record}"
if [ "$2" = venv ]; then
  mkdir -p "$3/bin" && cp "$0" "$3/bin/python"
elif [ "$2" != pip ]; then
  exec "{python}" "$@"
fi
"""


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    workspace, temp = tmp_path / "work space", tmp_path / "temp"
    workspace.mkdir()
    temp.mkdir()
    python = tmp_path / "python3"
    python.write_text(PYTHON.format(record=tmp_path / "calls", python=sys.executable), encoding="utf-8")
    python.chmod(0o755)
    (workspace / "server.log").write_bytes(LOG)
    return Runner(ACTION, workspace, temp, {"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)})


def uploaded(job: Job) -> set[str]:
    return {Path(path).name for path in glob.glob(job.uploads[0]["path"])}


def test_a_failed_server_fails_the_job_after_the_upload(runner: Runner) -> None:
    job = runner.run(log="server.log")
    assert job.failed_in == "Fail on what was found"
    assert job.outputs["cause"] == "cpu-kv-cache-space-too-small"
    assert job.outputs["fix-command"] == COMMAND
    report = json.loads(Path(job.outputs["report"]).read_text(encoding="utf-8"))
    assert report["primary"] == "cpu-kv-cache-space-too-small"
    assert report["source"]["path"] == "server.log"
    assert [(upload["uses"], upload["name"]) for upload in job.uploads] == [("actions/upload-artifact@v4", "vllm-doctor")]
    assert uploaded(job) == {"report.json", "report.html", "report.sarif", "report.md", "report.xml"}


def test_the_summary_and_the_annotations(runner: Runner) -> None:
    job = runner.run(log="server.log")
    commands = as_a_runner_reads(job.out)
    assert [level for level, _, _ in commands] == ["error"]
    assert commands[0][1] == {"file": "server.log", "line": "74",
                              "title": "CPU KV cache too small for --max-model-len 131072"}
    assert COMMAND in commands[0][2]
    assert [line for line in job.out.splitlines() if not line.startswith("::")] == []
    assert job.err == ""
    read = as_github_reads(job.summary)
    assert "h2" in read.names()
    assert COMMAND in "".join(read.blocks)


def test_it_installs_itself_from_where_it_lies(runner: Runner, tmp_path: Path) -> None:
    runner.run(log="server.log", fail_on="never")
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0] == f"-m venv {runner.temp}/vllm-doctor-venv"
    assert calls[1] == f"-m pip install --quiet --disable-pip-version-check {ROOT}"


@pytest.mark.parametrize(("inputs", "failed_in"), [
    ({"fail_on": "never"}, ""), ({"fail_on": "error"}, "Fail on what was found"), ({"fail_on": "nonsense"}, "Diagnose"),
    ({"options": "--only http-4xx-client-errors"}, "Fail on what was found"),  # a failure that is not explained is an error
    ({"options": "--no-such-option"}, "Diagnose"), ({"options": "'"}, "Diagnose"),
])
def test_how_it_ends(runner: Runner, inputs: dict[str, str], failed_in: str) -> None:
    assert runner.run(log="server.log", **inputs).failed_in == failed_in


def test_the_projects_settings_hold(runner: Runner) -> None:
    (runner.workspace / "vllm-doctor.toml").write_text('fail-on = "never"\n', encoding="utf-8")
    assert runner.run(log="server.log").failed_in == ""
    assert runner.run(log="server.log", fail_on="error").failed_in == "Fail on what was found"


def test_a_healthy_log_passes(runner: Runner) -> None:
    healthy = LOGS / "healthy" / "tiny-awq-serving.log"
    (runner.workspace / "ok.log").write_bytes(healthy.read_bytes())
    job = runner.run(log="ok.log")
    assert (job.failed_in, job.out, job.outputs["cause"], job.outputs["fix-command"]) == ("", "", "", "")
    assert job.summary.startswith("## Healthy: serving on port 8101. ")


def test_several_logs_by_glob_and_by_line(runner: Runner) -> None:
    (runner.workspace / "logs" / "deep er").mkdir(parents=True)
    for name in ("logs/a.log", "logs/deep er/b.log"):
        (runner.workspace / name).write_bytes(LOG)
    job = runner.run(log="logs/**/*.log\n\nserver.log\nserver.log\n")
    document = json.loads(Path(job.outputs["report"]).read_text(encoding="utf-8"))
    assert [report["source"]["path"] for report in document["reports"]] == ["logs/a.log", "logs/deep er/b.log", "server.log"]
    assert job.outputs["cause"] == "cpu-kv-cache-space-too-small"
    assert "(3 times)" in as_a_runner_reads(job.out)[0][1]["title"]


def test_the_output_of_a_step(runner: Runner) -> None:
    job = runner.run(log=LOG.decode() + "/**/*\n")
    assert job.outputs["cause"] == "cpu-kv-cache-space-too-small"
    assert "output.log" not in uploaded(job)


@pytest.mark.parametrize("log", ["", " \n", "nothing.log", "none/*.log", "server.log\nnothing.log", "nothing.log\nserver.log", "nothing.log\n*.log",
                                 ".", "x" * 5000])
def test_a_log_that_is_not_there_is_an_error(runner: Runner, log: str) -> None:
    job = runner.run(log=log)
    assert job.failed_in == "Diagnose"
    [(level, properties, message)] = as_a_runner_reads(job.out)
    assert (level, properties) == ("error", {"title": "vllm-doctor"})
    assert "empty" in message or "no file" in message
    assert job.outputs["report"] == ""


def test_one_unreadable_log_of_several_fails_after_the_upload(runner: Runner) -> None:
    (runner.workspace / "cut.log").write_bytes(b"\x1f\x8b\x08\x00cut")
    job = runner.run(log="cut.log\nserver.log", fail_on="never")
    assert job.failed_in == "Fail on what was found"
    assert job.outputs["cause"] == "cpu-kv-cache-space-too-small"
    assert "cut.log" in job.err


def test_switches(runner: Runner) -> None:
    job = runner.run(log="server.log", summary="false", annotations="false", artifact="")
    assert job.summary == ""
    assert job.uploads == []
    assert as_a_runner_reads(job.out) == []
    assert job.out.startswith("✗ CPU KV cache too small")


def test_a_hostile_log_commands_nothing(runner: Runner) -> None:
    secret = SECRETS["openai key"]
    attack = "\n".join(ATTACKS).encode("utf-8", "replace")
    name = "a ::error::EVIL ##[x]`$(EVIL);.log"
    (runner.workspace / name).write_bytes(
        b"$ vllm serve /models/x --api-key " + secret.encode() + b" --served-model-name '$(EVIL)'\n" + attack + b"\n" + LOG[LOG.index(b"\n") + 1:]
        + b"\nreport<<EOF\nEVIL\nEOF\ncause=EVIL\n::set-output name=cause::EVIL\n")
    for annotate in ("true", "false"):
        job = runner.run(log="*.log\n", annotations=annotate)
        assert {level for level, _, _ in as_a_runner_reads(job.out)} <= {"error", "warning", "notice"}
        assert as_a_runner_reads(job.err) == []
        assert job.outputs["cause"] == "cpu-kv-cache-space-too-small"
        everything = job.out + job.summary + "".join(path.read_text(encoding="utf-8") for path in Path(job.outputs["report"]).parent.iterdir())
        assert secret not in everything
        assert not {"script", "img", "b"} & set(as_github_reads(job.summary).names())


@given(st.text(max_size=80), st.text(max_size=80))
def test_an_output_comes_back_as_it_was(first: str, second: str) -> None:
    first, second = (text.encode("utf-8", "replace").decode().replace("\r", "") for text in (first, second))
    assert read_file_commands(github_action.output("a", first) + github_action.output("b", second)) == {"a": first, "b": second}


def test_it_is_a_whole_action() -> None:
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    assert {"log", "fail-on"} <= set(action["inputs"])
    assert {"cause", "fix-command", "report"} <= set(action["outputs"])
    assert all(entry["description"] for kind in ("inputs", "outputs") for entry in action[kind].values())
    assert action["runs"]["using"] == "composite"
