"""Many logs: rows, tables, what is read again, shards, groups, the summary."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import click.testing
import pytest

from vllm_doctor import diagnose, fleet
from vllm_doctor.cli.root import cli
from vllm_doctor.errors import InputError
from vllm_doctor.fleet import engines
from vllm_doctor.fleet.labels import compile_label, labels_of
from vllm_doctor.fleet.rows import source_of
from vllm_doctor.fleet.sources import is_log_name
from vllm_doctor.fleet.tables import start_rows
from vllm_doctor.options import Options

COLUMNS = ["url", "run", "host", "service", "job", "status", "phase", "cause", "signature", "severity", "first_fix", "vllm_version", "model", "gpu_name", "first_time", "last_time", "start_seconds", "phase_seconds", "memory", "problem"]
BANNER = """\
INFO 11-24 00:10:00 [api_server.py:1090] vLLM API server version 0.11.0
INFO 11-24 00:10:20 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='m'
INFO 11-24 00:10:30 [gpu_model_runner.py:2602] Starting to load model m...
"""
NO_CACHE = BANNER + """\
INFO 11-24 00:10:50 [gpu_model_runner.py:2653] Model loading took 15.2683 GiB and 18.5 seconds
ERROR 11-24 00:10:55 [core.py:708] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.
"""
UNKNOWN = BANNER + "ERROR 11-24 00:10:35 [core.py:708] FrobError: the frobnicator of shard {n} lost its flux in stage {n} on node{n}\n"
HEALTHY = BANNER + """\
INFO 11-24 00:10:50 [gpu_model_runner.py:2653] Model loading took 15.2683 GiB and 18.5 seconds
INFO 11-24 00:11:00 [gpu_worker.py:298] Available KV cache memory: 4.50 GiB
INFO 11-24 00:11:10 [api_server.py:1912] Starting vLLM API server 0 on http://0.0.0.0:8000
INFO:     Application startup complete.
"""


@pytest.fixture
def logs(tmp_path):
    folder = tmp_path / "logs"
    for name, text in {"host=node1/a.log": NO_CACHE, "host=node2/b.log": HEALTHY, "host=node2/c.log": UNKNOWN.format(n=1),
                       "host=node3/d.log": UNKNOWN.format(n=2), "host=node3/e.log": NO_CACHE + HEALTHY}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "config.yaml").write_text("no: log\n")
    return folder


def run(*arguments):
    return click.testing.CliRunner().invoke(cli, ["fleet", *map(str, arguments)])


def last_line(*arguments):
    return run(*arguments).output.splitlines()[-1]


def test_a_row_has_the_columns_scripts_rely_on(logs):
    row, = fleet.rows(str(logs / "host=node1/a.log"))
    assert list(row)[:len(COLUMNS)] == COLUMNS
    assert {name: row[name] for name in ("run", "host", "status", "phase", "cause", "severity", "vllm_version", "model",
                                         "first_time", "last_time", "start_seconds", "phase_seconds", "problem")} == {
        "run": 1, "host": "node1", "status": "failed", "phase": "profiling",
        "cause": "budget-too-small-for-weights-and-activations", "severity": "error", "vllm_version": "0.11.0",
        "model": "m", "first_time": "11-24 00:10:00", "last_time": "11-24 00:10:55", "start_seconds": 55.0,
        "phase_seconds": {"args": 20.0, "config": 10.0, "weights": 20.0, "profiling": 5.0}, "problem": None}


def test_the_cause_of_every_start_is_the_one_diagnose_reports(logs):
    path = str(logs / "host=node3/e.log")
    rows = fleet.rows(path)
    assert [row["run"] for row in rows] == [1, 2]
    assert [(row["status"], row["cause"]) for row in rows] == [
        ("failed", "budget-too-small-for-weights-and-activations"), ("serving", None)]
    for row in rows:
        report = diagnose(path, Options(run=row["run"]))
        assert (row["status"], row["cause"], row["phase"]) == (report.status, report.primary, report.phase)


@pytest.mark.parametrize("name", ["two-servers.md", "log-then-question.txt", "tutorial-no-log.md"])
def test_a_page_has_a_row_for_each_start_that_diagnose_counts(name):
    path = Path(__file__).parent.parent / "pages" / "documents" / name
    rows = fleet.rows(str(path))
    assert [row["run"] for row in rows] == list(range(1, diagnose(str(path)).source.runs + 1))
    for row in rows:
        report = diagnose(str(path), Options(run=row["run"]))
        assert (row["status"], row["cause"]) == (report.status, report.primary)


def test_every_start_of_a_crash_loop_has_a_row(tmp_path):
    path = tmp_path / "loop.log"
    path.write_text(NO_CACHE * 40)
    rows = fleet.rows(str(path))
    assert [row["run"] for row in rows] == list(range(1, 41))
    assert {row["cause"] for row in rows} == {"budget-too-small-for-weights-and-activations"}


def test_rows_is_pure_and_pickles(logs):
    path = str(logs / "host=node1/a.log")
    again = pickle.loads(pickle.dumps(partial(fleet.rows, path)))  # noqa: S301 - our own
    assert again() == fleet.rows(path) == json.loads(json.dumps(fleet.rows(path)))


@pytest.mark.parametrize(("make", "problem"), [
    (lambda path: None, "no such file or directory"),
    (lambda path: path.mkdir(), "is not a regular file"),
    (lambda path: path.write_bytes(b"\x1f\x8b\x08"), "the archive is cut or damaged, nothing of it can be read"),
    (os.mkfifo, "is not a regular file"),
])
def test_a_log_that_cannot_be_read_is_a_row(tmp_path, make, problem):
    path = tmp_path / "bad.log"
    make(path)
    if path.is_dir():
        rows = fleet.rows(str(tmp_path / "bad.log"))
        assert rows[0]["problem"]
        return
    row, = fleet.rows(str(path))
    assert row["problem"] == problem
    assert (row["run"], row["status"], row["cause"]) == (None, None, None)


def test_a_cut_archive_is_read_as_far_as_it_goes(tmp_path):
    path = tmp_path / "cut.log.gz"
    path.write_bytes(gzip.compress(NO_CACHE.encode())[:-9])
    row, = fleet.rows(str(path))
    assert row["cause"] == "budget-too-small-for-weights-and-activations"
    assert row["note"] == "The archive is cut or damaged: the report is on what could be read of it."


def test_the_members_of_an_archive_are_logs(tmp_path):
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("a.log", NO_CACHE)
        archive.writestr("b.log", HEALTHY)
    rows = fleet.rows(str(tmp_path / "all.zip"))
    assert [(row["url"].rpartition("/")[2], row["status"]) for row in rows] == [
        ("all.zip!a.log", "failed"), ("all.zip!b.log", "serving")]


def test_a_second_run_reads_only_what_changed(logs, tmp_path):
    out = tmp_path / "out"
    assert last_line(logs, "--out", out) == "5 logs (5 new), 6 starts, 4 failed, 2 causes, 0 unreadable"
    before = (out / "starts.jsonl").read_bytes()
    assert last_line(logs, "--out", out) == "5 logs (0 new), 6 starts, 4 failed, 2 causes, 0 unreadable"
    assert (out / "starts.jsonl").read_bytes() == before
    os.utime(logs / "host=node1/a.log", (1, 1))
    assert last_line(logs, "--out", out) == "5 logs (1 new), 6 starts, 4 failed, 2 causes, 0 unreadable"
    (logs / "host=node2/c.log").unlink()
    assert last_line(logs, "--out", out) == "4 logs (0 new), 5 starts, 3 failed, 2 causes, 0 unreadable"
    assert {row["url"].rpartition("/")[2] for row in start_rows(out)} == {"a.log", "b.log", "d.log", "e.log"}


def test_a_touched_log_is_read_alone_and_its_rows_are_replaced(logs, tmp_path):
    read = []

    def spying(files, reading):
        read.append([file.url.rpartition("/")[2] for file in files])
        return engines.local(1)(files, reading)

    again = partial(fleet.fleet, [str(logs)], out=tmp_path / "out", engine=spying)
    again()
    again()
    (logs / "host=node1/a.log").write_text(NO_CACHE.replace("[core.py:708] ValueError", "[core.py:708] OtherError"))
    again()
    os.utime(logs / "host=node2/b.log", ns=(5, 5))
    again()
    assert read == [["a.log", "b.log", "c.log", "d.log", "e.log"], ["a.log"], ["b.log"]]
    fleet.fleet([str(logs)], out=tmp_path / "anew", engine=engines.local(1))
    for name in ("starts.jsonl", "findings.jsonl"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "anew" / name).read_bytes()


def test_a_second_run_masks_no_path_again(logs, tmp_path, monkeypatch):
    masked = []
    monkeypatch.setattr("vllm_doctor.fleet.read_fleet.source_of", lambda url: masked.append(url) or source_of(url))
    secret = logs / "token=hf_abcdefghijklmnopqrstuvwxyzABCDEFGH" / "f.log"
    secret.parent.mkdir()
    secret.write_text(NO_CACHE)
    assert [fleet.fleet([str(logs)], out=tmp_path / "out").new for _ in range(2)] == [6, 0]
    assert len(masked) == 6 + 1
    assert masked[-1] == str(secret)  # the tables do not show it


def test_a_changed_rule_reads_all_again(logs, tmp_path):
    out, rules = tmp_path / "out", tmp_path / "rules"
    rules.mkdir()
    own = (Path(__file__).parent.parent / "my-rule.yaml").read_text()
    (rules / "my-rule.yaml").write_text(own)
    assert last_line(logs, "--out", out, "--rules", rules).startswith("5 logs (5 new)")
    assert last_line(logs, "--out", out, "--rules", rules).startswith("5 logs (0 new)")
    (rules / "my-rule.yaml").write_text(own + "\n# a comment\n")
    assert last_line(logs, "--out", out, "--rules", rules).startswith("5 logs (5 new)")
    (rules / "my-rule.yaml").write_text(own.replace("something is wrong", "the frobnicator of shard"))
    assert [row["cause"] for row in start_rows(out)].count("my-rule") == 0
    run(logs, "--out", out, "--rules", rules)
    assert {row["url"].rpartition("/")[2] for row in start_rows(out) if row["cause"] == "my-rule"} == {"c.log", "d.log"}


def test_shards_merged_equal_the_whole(logs, tmp_path):
    whole, parts, merged = tmp_path / "whole", [tmp_path / f"part{n}" for n in (1, 2, 3)], tmp_path / "merged"
    all_of_it = run(logs, "--out", whole).output
    shards = [run(logs, "--out", part, "--shard", f"{number}/3") for number, part in enumerate(parts, 1)]
    assert {shard.exit_code for shard in shards} <= {0, 1}
    read = [{row["url"] for row in start_rows(part)} for part in parts]
    assert (sum(map(len, read)), max(map(len, read)) < 5) == (5, True)
    assert run("merge", *parts, "--out", merged).output == all_of_it
    for name in ("starts.jsonl", "findings.jsonl", "summary.html"):
        assert (merged / name).read_bytes() == (whole / name).read_bytes()


def test_the_tables_do_not_depend_on_the_number_of_processes(logs, tmp_path):
    for number in range(6):
        (logs / f"more{number}.log").write_text(NO_CACHE)
    for jobs in (1, 3):
        fleet.fleet([str(logs)], out=tmp_path / str(jobs), engine=engines.local(jobs))
    assert (tmp_path / "1/starts.jsonl").read_bytes() == (tmp_path / "3/starts.jsonl").read_bytes()
    assert (tmp_path / "1/findings.jsonl").read_bytes() == (tmp_path / "3/findings.jsonl").read_bytes()


def test_parquet_has_the_rows_of_the_lines(logs, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra [fleet] is not installed")
    run(logs, "--out", tmp_path)
    for name in ("starts", "findings"):
        table = parquet.read_table(tmp_path / f"{name}.parquet").to_pylist(maps_as_pydicts="strict")
        assert table == [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]


def test_groups_are_counted_by_rule_or_signature_the_largest_first(logs):
    for number in range(3, 6):
        (logs / f"f{number}.log").write_text(UNKNOWN.format(n=number))
    summary = fleet.fleet([str(logs)])
    first, second = summary.causes
    assert (first.id.partition("-")[0], first.logs, first.is_explained) == ("FrobError", 5, False)
    assert (second.id, second.logs, second.starts) == ("budget-too-small-for-weights-and-activations", 2, 2)
    assert summary.unexplained == [first]
    assert dict(second.hosts) == {"node1": 1, "node3": 1}


def test_a_baseline_names_new_and_gone_causes(logs, tmp_path):
    old = tmp_path / "old"
    run(logs, "--out", old)
    (logs / "host=node1/a.log").unlink()
    (logs / "host=node3/e.log").unlink()
    (logs / "g.log").write_text(BANNER + "ERROR 11-24 00:10:35 [core.py:708] OtherError: quite another matter came up\n")
    text = run(logs, "--baseline", old).output
    assert "Gone since the baseline: budget-too-small-for-weights-and-activations\n" in text
    assert [line.rsplit("  ", 1)[1] for line in text.splitlines() if line.startswith("✗")] == ["[still]", "[new]"]


def test_hosts_with_more_than_their_share_are_named(tmp_path):
    for number in range(40):
        path = tmp_path / f"host=node{number % 4}" / f"{number}.log"
        path.parent.mkdir(exist_ok=True)
        path.write_text(NO_CACHE if number % 4 == 2 else HEALTHY)
    host, = fleet.fleet([str(tmp_path)]).conspicuous_hosts()
    assert (host.host, host.failed, host.starts) == ("node2", 10, 10)


def test_secrets_stay_out_of_tables_and_summaries(tmp_path):
    secret = "hf_" + "A1b2C3d4E5" * 3 + "abcd"
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "a.log").write_text(BANNER + f"ERROR 11-24 00:10:35 [core.py:708] FrobError: bad token {secret} for api_key='{secret}'\n")
    (folder / f"token={secret}.log").write_text(NO_CACHE)
    for format_ in ("text", "markdown", "html", "jsonl"):
        assert secret not in run(folder, "--format", format_, "--out", tmp_path / "out").output
    for path in (tmp_path / "out").iterdir():
        assert secret.encode() not in path.read_bytes()


@pytest.mark.parametrize(("url", "labels"), [
    ("s3://b/host=n1/service=chat/job=7/x.log", ("n1", "chat", "7")),
    ("s3://b/host=n1.log.gz", ("n1", None, None)),
    ("/var/log/pods/prod_llama-0_3f2a/vllm/0.log", (None, "vllm", "llama-0")),
    ("logs/node-12/slurm-4711.out", ("node-12", None, "4711")),
    ("logs/ip-10-0-0-7/service-a/run.log", ("ip-10-0-0-7", "service-a", None)),
    ("logs/notes.log", (None, None, None)),
])
def test_labels_of_paths(url, labels):
    assert tuple(labels_of(url).values()) == labels


def test_a_label_expression_goes_first():
    assert labels_of("x/alpha/node1/b.log", compile_label(r"x/(?P<service>\w+)/"))["service"] == "alpha"
    with pytest.raises(InputError, match="name a group host, service or job"):
        compile_label("x/(.*)")


@pytest.mark.parametrize(("name", "is_log"), [("a.log", True), ("job-17", True), ("x-json.log", True), ("a.log.1", True),
                                              ("a.yaml", False), (".hidden", False), ("starts.jsonl", False)])
def test_which_files_of_a_folder_are_logs(name, is_log):
    assert is_log_name(name) is is_log


def test_exit_status(logs, tmp_path):
    healthy = logs / "host=node2/b.log"
    assert run(logs).exit_code == 1
    assert run(healthy).exit_code == 0
    assert run(logs, "--fail-on", "never").exit_code == 0
    assert run(healthy, tmp_path / "none.log").exit_code == 0
    assert run(tmp_path / "none.log").exit_code == 2
    assert run("merge", tmp_path).exit_code == 2


def test_a_process_that_dies_costs_one_row(tmp_path, monkeypatch):
    for number in range(6):
        (tmp_path / f"{number}.log").write_text(NO_CACHE)
    whole = engines.read

    def read(file, reading):
        if file.url.endswith("3.log") and not file.problem:
            os._exit(9)
        return whole(file, reading)

    monkeypatch.setattr(engines, "read", read)
    rows = []
    summary = fleet.fleet([str(tmp_path)], engine=engines.local(2), each=rows.append)
    assert summary.last_line() == "6 logs (6 new), 5 starts, 5 failed, 1 causes, 1 unreadable"
    assert rows[3]["problem"] == "the process that read it died (out of memory?)"


def test_a_rule_is_drafted_from_a_group(tmp_path):
    for number in range(1, 4):
        (tmp_path / f"{number}.log").write_text(UNKNOWN.format(n=number))
    (tmp_path / "9.log").write_text(BANNER + "ERROR 11-24 00:10:35 [core.py:708] FrobError: the frobnicator of shard 1 burns\n")
    out, rules = tmp_path / "out", tmp_path / "rules"
    run(tmp_path, "--out", out)
    group = next(start_rows(out))["group"]
    runner = click.testing.CliRunner()
    result = runner.invoke(cli, ["rules", "new", "frob-lost", "--from-group", group, "--tables", str(out), "--into", str(rules)])
    assert result.exit_code == 0
    text = (rules / "frob-lost.yaml").read_text()
    assert "FrobError: the frobnicator of shard.{0,200}?lost its flux in stage" in text
    assert text.count("fires: message") == 3
    tested = runner.invoke(cli, ["rules", "test", str(rules / "frob-lost.yaml")])
    assert (tested.exit_code, tested.output) == (0, "5 passed, 0 failed\n")
    wrong = runner.invoke(cli, ["rules", "new", "other", "--from-group", "FrobError-0", "--tables", str(out)])
    assert (wrong.exit_code, "no group `FrobError-0`; did you mean" in wrong.output) == (2, True)


def test_the_page_draws_causes_hosts_releases_and_start_up_times(logs, tmp_path):
    run(logs, "--out", tmp_path)
    page = (tmp_path / "summary.html").read_text()
    for text in ("<h2>Causes</h2>", "<h2>Failures over time</h2>", "<h2>Failures by host</h2>", "<h2>Failures by release</h2>",
                 "<h2>Start-up time by release</h2>", "4 of 6 starts failed", "median 70 s, 70 to 70 s, 2 starts",
                 "<title>11-24 00: 2 x budget-too-small-for-weights-and-activations</title>"):
        assert text in page
    assert page.index("<h2>Failures over time</h2>") < page.index("<h2>Causes</h2>") < page.index("<h2>Failures by host</h2>")
    assert 'http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;; style-src &#39;sha256-' in page
    assert "src=" not in page.replace("style-src", "").replace("default-src", "")


def test_there_is_no_progress_bar_without_a_terminal(logs):
    assert run(logs).stderr == ""


def test_a_terminal_shows_a_progress_bar(logs):
    terminal, end = os.openpty()
    with subprocess.Popen([sys.executable, "-m", "vllm_doctor", "fleet", str(logs)], stdout=subprocess.PIPE, stderr=end) as process:
        os.close(end)
        output = process.stdout.read()
    shown = b""
    while b"5/5" not in shown:
        shown += os.read(terminal, 4096)
    os.close(terminal)
    assert b"Reading logs" in shown
    assert output.endswith(b"5 logs (5 new), 6 starts, 4 failed, 2 causes, 0 unreadable\n")


def test_an_empty_shard_has_empty_tables(logs, tmp_path):
    parts = [tmp_path / str(number) for number in range(8)]
    for number, part in enumerate(parts):
        fleet.fleet([str(logs)], out=part, shard=fleet.Shard(number, 8))
    assert sum((part / "starts.jsonl").read_text() == "" for part in parts) >= 3
    assert fleet.merge(parts).last_line() == "5 logs (5 new), 6 starts, 4 failed, 2 causes, 0 unreadable"
    assert run(logs / "none*", "--shard", "1/2", "--out", tmp_path / "x").exit_code in {0, 2}


def test_an_interrupted_run_keeps_what_it_has_read(logs, tmp_path):
    fleet.fleet([str(logs / "host=node3")], out=tmp_path)

    def interrupted(files, reading):
        yield engines.read(files[0], reading)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fleet.fleet([str(logs)], out=tmp_path, engine=interrupted)
    assert [row["url"].rpartition("/")[2] for row in start_rows(tmp_path)] == ["a.log", "d.log", "e.log", "e.log"]
    assert last_line(logs, "--out", tmp_path) == "5 logs (2 new), 6 starts, 4 failed, 2 causes, 0 unreadable"


def test_a_group_is_an_error_if_any_of_its_starts_failed(tmp_path):
    for name, text in {"a": HEALTHY, "b": BANNER}.items():
        refused = 'ERROR 11-24 00:10:50 [serving.py:1] "auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set\n'
        (tmp_path / f"{name}.log").write_text(text + refused)
    one, other = (fleet.fleet([str(tmp_path / f"{name}.log") for name in names]) for names in ("ab", "ba"))
    assert [group.severity for group in one.groups] == [group.severity for group in other.groups]


def test_a_file_that_is_named_in_two_ways_is_read_once(logs, monkeypatch):
    monkeypatch.chdir(logs.parent)
    assert fleet.fleet(["logs", "./logs", str(logs)]).logs == 5


def test_a_table_without_a_column_is_refused(tmp_path):
    (tmp_path / "starts.jsonl").write_text('{"source": "a.log"}\n')
    result = run("merge", tmp_path)
    assert result.exit_code == 2


def test_a_file_that_could_not_be_read_is_read_again(tmp_path):
    log, out = tmp_path / "a.log", tmp_path / "out"
    log.symlink_to(tmp_path / "later.log")
    assert "1 unreadable" in run(log, "--out", out).output
    (tmp_path / "later.log").write_text(NO_CACHE)
    assert "0 unreadable" in run(log, "--out", out).output


@pytest.mark.parametrize(("path", "host"), [
    ("logs/vllm-server-0.8.5.log", None), ("logs/server-2025-01-02.log", None), ("gpu-80gb/x.log", None), ("node3/a.log", "node3"),
    ("logs/gpu-12.log", "gpu-12"), ("node01.2024-05-01.log", "node01"), ("logs/node3.1", "node3"), ("ip-10-0-0-7.log", "ip-10-0-0-7"),
])
def test_a_release_a_date_and_a_size_are_no_host(path, host):
    assert labels_of(path)["host"] == host


def test_no_file_is_lost_when_a_process_dies_while_others_are_submitted(tmp_path, monkeypatch):
    files = [tmp_path / f"{number:03}.log" for number in range(40)]
    for file in files:
        file.write_text(NO_CACHE)
    submitted = engines.ProcessPoolExecutor.submit
    broken = iter([False] * 5 + [True])

    def submit(self, *arguments):
        if next(broken, False):
            raise engines.BrokenProcessPool
        return submitted(self, *arguments)

    monkeypatch.setattr(engines.ProcessPoolExecutor, "submit", submit)
    assert fleet.fleet(list(map(str, files)), engine=engines.local(2)).logs == 40
