"""action.yml, run step by step as GitHub's runner does; its files and its command stream are parsed."""

from __future__ import annotations

import glob
import importlib.util
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar, NamedTuple

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
    return runner_in(tmp_path)


class Failed(NamedTuple):
    """The job of a server that failed, which several tests look at."""

    job: Job
    folder: Path
    runner: Runner


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Failed:
    folder = tmp_path_factory.mktemp("failed")
    runner = runner_in(folder)
    return Failed(runner.run(log="server.log"), folder, runner)


def runner_in(tmp_path: Path) -> Runner:
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


def test_a_failed_server_fails_the_job_after_the_upload(failed: Failed) -> None:
    job = failed.job
    assert job.failed_in == "Fail on what was found"
    assert job.outputs["cause"] == "cpu-kv-cache-space-too-small"
    assert job.outputs["fix-command"] == COMMAND
    report = json.loads(Path(job.outputs["report"]).read_text(encoding="utf-8"))
    assert report["primary"] == "cpu-kv-cache-space-too-small"
    assert report["source"]["path"] == "server.log"
    assert [(upload["uses"], upload["name"]) for upload in job.uploads] == [("actions/upload-artifact@bbbca2ddaa5d8feaa63e36b76fdaad77386f024f", "vllm-doctor")]
    assert uploaded(job) == {"report.json", "report.html", "report.sarif", "report.md", "report.xml"}


def test_the_summary_and_the_annotations(failed: Failed) -> None:
    job = failed.job
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


def test_it_installs_itself_from_where_it_lies(failed: Failed) -> None:
    calls = (failed.folder / "calls").read_text().splitlines()
    assert calls[0] == f"-m venv {failed.runner.temp}/vllm-doctor-venv"
    assert calls[1] == f"-m pip install --quiet --disable-pip-version-check --constraint {ROOT}/constraints.txt {ROOT}"


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
    assert {"cause", "fix-command", "report", "sarif"} <= set(action["outputs"])
    assert all(entry["description"] for kind in ("inputs", "outputs") for entry in action[kind].values())
    assert action["runs"]["using"] == "composite"


def test_it_is_valid_by_the_published_schema() -> None:
    done = subprocess.run([sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-actions", str(ACTION)], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout


# ---- the comment on the pull request

TOKEN = "ghs_" + "Zq7" * 12
COMMENT = {"comment_token": TOKEN}


class GitHub(BaseHTTPRequestHandler):
    """The two questions and two orders of GraphQL that the comment needs; `comments` are (body, is ours)."""

    comments: list[tuple[str, bool]]
    refuses = False
    tokens: set[str]

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.tokens.add(self.headers["Authorization"])
        values = asked["variables"]
        if self.refuses:
            self.send_error(403)
            return
        if asked["query"].startswith("query"):
            assert (values["owner"], values["name"], values["number"]) == ("me", "serving", 7)
            at = int(values["after"] or 0)
            nodes = [{"id": f"c{n}", "body": body, "viewerDidAuthor": ours} for n, (body, ours) in enumerate(self.comments)][at:at + 2]
            data = {"repository": {"pullRequest": {"id": "p7", "comments": {
                "pageInfo": {"hasNextPage": at + 2 < len(self.comments), "endCursor": str(at + 2)}, "nodes": nodes}}}}
        elif "addComment" in asked["query"]:
            assert values["id"] == "p7"
            self.comments.append((values["body"], True))
            data = {"addComment": {}}
        else:
            number = int(values["id"].removeprefix("c"))
            assert self.comments[number][1]
            self.comments[number] = (values["body"], True)
            data = {"updateIssueComment": {}}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"data": data}).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def github(runner: Runner, tmp_path: Path) -> Iterator[type[GitHub]]:
    class Ours(GitHub):
        comments: ClassVar[list[tuple[str, bool]]] = [("I saw this too", False), ("<!-- vllm-doctor --> mine", False), ("third", False)]
        tokens: ClassVar[set[str]] = set()

    with HTTPServer(("127.0.0.1", 0), Ours) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        event = tmp_path / "event.json"
        event.write_text('{"pull_request": {"number": 7}}', encoding="utf-8")
        runner.env |= {"GITHUB_GRAPHQL_URL": f"http://127.0.0.1:{server.server_port}/graphql", "GITHUB_REPOSITORY": "me/serving",
                       "GITHUB_EVENT_PATH": str(event)}
        yield Ours
        server.shutdown()


def test_one_comment_is_written_and_then_updated(runner: Runner, github: type[GitHub]) -> None:
    job = runner.run(log="server.log", **COMMENT)
    assert (job.failed_in, job.err) == ("Fail on what was found", "")
    assert len(github.comments) == 4
    body, _ = github.comments[3]
    assert body.startswith("<!-- vllm-doctor -->\n## CPU KV cache too small")
    assert COMMAND in "".join(as_github_reads(body).blocks)
    (runner.workspace / "server.log").write_bytes((LOGS / "healthy" / "tiny-awq-serving.log").read_bytes())
    assert runner.run(log="server.log", **COMMENT).failed_in == ""
    assert len(github.comments) == 4
    assert github.comments[3][0].startswith("<!-- vllm-doctor -->\n## Healthy")
    assert github.comments[1] == ("<!-- vllm-doctor --> mine", False)  # whoever copies the mark owns no comment of ours
    assert github.tokens == {f"Bearer {TOKEN}"}


def test_jobs_of_a_matrix_have_a_comment_each(runner: Runner, github: type[GitHub]) -> None:
    for key in ("cuda", "rocm", "cuda", "--><script>"):
        runner.run(log="server.log", comment_key=key, **COMMENT)
    assert [body.splitlines()[0] for body, ours in github.comments if ours] == [
        "<!-- vllm-doctor cuda -->", "<!-- vllm-doctor rocm -->", "<!-- vllm-doctor -->"]


def test_no_token_no_pull_request_or_no_finding_is_no_comment(runner: Runner, github: type[GitHub], tmp_path: Path) -> None:
    runner.run(log="server.log")
    assert github.tokens == set()
    (runner.workspace / "ok.log").write_bytes((LOGS / "healthy" / "tiny-awq-serving.log").read_bytes())
    runner.run(log="ok.log", **COMMENT)
    (tmp_path / "event.json").write_text('{"ref": "refs/heads/main"}', encoding="utf-8")
    assert as_a_runner_reads(runner.run(log="server.log", **COMMENT).out)[-1][0] == "error"
    assert len(github.comments) == 3


def test_what_github_refuses_is_a_warning(runner: Runner, github: type[GitHub]) -> None:
    github.refuses = True
    job = runner.run(log="server.log", **COMMENT)
    assert job.failed_in == "Fail on what was found"
    [_, (level, _, message)] = as_a_runner_reads(job.out)
    assert (level, message) == ("warning", "no comment on the pull request: HTTP status 403")
    assert TOKEN not in job.out + job.err


def test_a_comment_of_a_hostile_log_is_inert_and_bounded(runner: Runner, github: type[GitHub]) -> None:
    secret = SECRETS["openai key"]
    attack = "\n".join(["@maintainer -->", *ATTACKS]).encode("utf-8", "replace")
    logs = [runner.workspace / f"{number}.log" for number in range(40)]
    for log in logs:
        log.write_bytes(b"$ vllm serve /models/x --api-key " + secret.encode() + b"\n" + attack + b"\n" + LOG[LOG.index(b"\n") + 1:])
    runner.run(log="*.log", **COMMENT)
    body = github.comments[3][0]
    assert len(body) < 65_536
    assert secret not in body
    assert not {"script", "img"} & set(as_github_reads(body).names())
    assert "(cut: the job's summary has all of it)" in body
