"""What `watch` says, and when: once when it is certain, whole at the end, no more than needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from vllm_doctor.cli.live_reporter import LiveReporter
from vllm_doctor.diagnosis.engine import Diagnosis
from vllm_doctor.diagnosis.live_verdict import failure_cause
from vllm_doctor.diagnosis.log_reading import LogReading
from vllm_doctor.options import Options
from vllm_doctor.pipe.status_line import StatusText

ROOT = Path(__file__).resolve().parents[2]
FAILED = (ROOT / "fixtures/logs/fatkv-cpu-space-1.log").read_bytes().splitlines(keepends=True)
SERVES = [b"(APIServer pid=7) INFO 11-20 08:00:00 [api_server.py:1977] vLLM API server version 0.12.0\n",
          b"(APIServer pid=7) INFO:     Application startup complete.\n"]
MARK = "--- vllm-doctor "


class Pieces:
    """A reader of pieces that are all there."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = iter(pieces)
        self.status = StatusText()

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def wait(self, seconds: float) -> bool:
        return True


def follow(pieces: list[bytes], *, format_: str = "text", once: bool = False, output: str | None = None) -> int:
    values = {"fail_on": "error", "verbose": False, "width": None, "color": "never", "quiet": False, "stall_after": None}
    return LiveReporter(Options(), format_, output, once, values).follow(Pieces(pieces))  # type: ignore[arg-type]


def statistics(second: int, waiting: int, usage: float, running: int = 40) -> bytes:
    at = f"{14 + second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return (f"(APIServer pid=7) INFO 11-20 {at} [loggers.py:248] Engine 000: Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: "
            f"200.0 tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: {usage}%, Prefix cache hit rate: 3.0%\n").encode()


@pytest.fixture
def eager(monkeypatch):
    """Weigh the rules after every piece of news, so that no clock has a part in what is said."""
    monkeypatch.setattr("vllm_doctor.cli.live_reporter._CHECK_SHARE", 0)
    monkeypatch.setattr("vllm_doctor.cli.live_reporter._SETTLE", 0)


def test_after_a_failure_the_rules_are_not_checked_for_lines_without_news(monkeypatch, capsys) -> None:
    monkeypatch.setattr("vllm_doctor.cli.live_reporter._SETTLE", 0)
    weighed = []
    monkeypatch.setattr("vllm_doctor.cli.live_reporter.failure_cause", lambda reading: weighed.append(1) or failure_cause(reading))
    noise = [b"(APIServer pid=7) INFO 11-20 10:00:00 [launcher.py:%d] Route: /v1/x, Methods: GET\n" % number for number in range(3000)]
    assert follow([*FAILED, *noise]) == 1
    assert len(weighed) < len(FAILED)
    err = capsys.readouterr().err
    assert err.count(MARK) == 2
    assert err.count("rule cpu-kv-cache-space-too-small ·") == 2


def test_a_steady_stream_of_news_is_checked_a_part_of_the_time(monkeypatch, capsys) -> None:
    spent = []

    def slowly(reading: LogReading) -> str | None:
        time.sleep(0.01)
        spent.append(0.01)
        return None

    monkeypatch.setattr("vllm_doctor.cli.live_reporter.failure_cause", slowly)
    began = time.monotonic()
    follow([statistics(number, 0, 50.0) for number in range(8000)])
    assert sum(spent) < 0.1 * (time.monotonic() - began) + 0.02


class Paused(Pieces):
    """A reader of pieces behind which the log pauses for some pulses, then goes on."""

    def __init__(self, pieces: list[bytes], pulses: int, rest: list[bytes]) -> None:
        super().__init__(pieces)
        self._left, self._before, self._rest = pulses, len(pieces), rest

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self._before -= 1
            yield piece
        yield from self._rest

    def wait(self, seconds: float) -> bool:
        if self._before or not self._left:
            return True
        time.sleep(seconds)
        self._left -= 1
        return False


ENDS_IN_TRACEBACK = (ROOT / "fixtures/logs/real-0.20.2-overrides-positions-in-words.log").read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize(("pulses", "rest", "reports"), [
    (4, [], 2),  # its first fix at the pause, all at the end
    (0, [], 1),
    (4, [b"(APIServer pid=7) ERROR: Application startup failed. Exiting.\n"], 2),
])
def test_a_log_that_pauses_after_its_traceback_is_reported_then(capsys, monkeypatch, *, pulses: int, rest: list[bytes], reports: int) -> None:
    monkeypatch.setattr("vllm_doctor.cli.live_reporter._PULSE", 0.05)
    monkeypatch.setattr("vllm_doctor.cli.live_reporter._PAUSE", 0.15)
    values = {"fail_on": "error", "verbose": False, "width": None, "color": "never", "quiet": False, "stall_after": 0}
    reporter = LiveReporter(Options(), "text", None, False, values)
    reporter.follow(Paused(ENDS_IN_TRACEBACK, pulses, rest))  # type: ignore[arg-type]
    err = capsys.readouterr().err
    assert err.count(MARK) == reports
    assert err.count("rule flag-value-invalid ·") == reports


def test_a_pause_between_the_lines_of_a_traceback_shows_no_failure() -> None:
    diagnosis = Diagnosis(live=True)
    for line in ENDS_IN_TRACEBACK[:-1]:
        diagnosis.feed(line)
        assert failure_cause(diagnosis.reading, paused=True) is None
    diagnosis.feed(ENDS_IN_TRACEBACK[-1])
    assert failure_cause(diagnosis.reading) is None
    assert failure_cause(diagnosis.reading, paused=True) == "flag-value-invalid"


@pytest.mark.usefixtures("eager")
def test_a_full_cache_is_told_once_then_that_it_is_over_then_all_at_the_end(capsys) -> None:
    full = {*range(60, 140), *range(200, 230), *range(300, 360)}
    lines = [statistics(number * 10, 20 + number % 50 if number in full else 0, 97.5 if number in full else 50.0) for number in range(400)]
    assert follow([*SERVES, *lines]) == 0
    first, over = capsys.readouterr().err.split("vllm-doctor: over for now: ")
    assert first.count(MARK) == 1
    assert "3 of 63 statistics lines show waiting requests" in first
    told, _, last = over.partition("\n")
    assert told == ("KV cache is full and requests wait for it (kv-cache-saturated), "
                    "13 minutes from 11-20 14:10 to 14:23, while up to 69 requests waited")
    assert last.count(MARK) == 1
    assert "28 minutes in 3 periods between 11-20 14:10 and 14:59, the longest of 13 minutes, while up to 69 requests waited" in " ".join(last.split())


@pytest.mark.usefixtures("eager")
def test_days_into_a_log_a_full_cache_is_told_all_the_same(capsys) -> None:
    served = b'(APIServer pid=7) INFO:     10.0.0.1:4242 - "POST /v1/completions HTTP/1.1" 200 OK\n' * 40
    lines = [statistics(number * 10, 7 if 700 <= number < 720 else 0, 97.5 if 700 <= number < 720 else 50.0) + served for number in range(800)]
    follow([*SERVES, *lines])
    first, over = capsys.readouterr().err.split("vllm-doctor: over for now: ")
    assert first.count(MARK) == 1
    assert "3 of 703 statistics lines show waiting requests" in first
    assert "3 minutes from 11-20 15:56 to 15:59, while up to 7 requests waited" in over.partition("\n")[0]
    assert over.count(MARK) == 1


@pytest.mark.usefixtures("eager")
def test_a_queue_behind_max_num_seqs_is_told_too(capsys) -> None:
    settings = b"(APIServer pid=7) INFO 11-20 08:00:00 [utils.py:253] non-default args: {'model': '/models/base', 'max_num_seqs': 8}\n"
    follow([SERVES[0], settings, SERVES[1], *[statistics(number * 10, 5, 12.0, running=8) for number in range(60)]])
    err = capsys.readouterr().err
    assert err.count("rule max-num-seqs-limits-concurrency ·") == 2
    assert "The queue lasted 10 minutes from 11-20 14:00 to 14:09, while up to 5 requests waited." in " ".join(err.split())


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("lines", [
    [statistics(number * 10, 0, 99.0) for number in range(60)],  # full, and it suffices
    [statistics(number * 10, 9 * (number % 10 == 0), 95.0) for number in range(100)],  # short peaks
    [statistics(number * 10, 0, 0.0, running=0) for number in range(60)],
], ids=["full", "peaks", "idle"])
def test_a_healthy_server_gets_nothing(capsys, lines) -> None:
    assert follow([*SERVES, *lines]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("eager")
def test_an_engine_that_dies_in_service_is_told_at_once(capsys) -> None:
    dead = (b"(EngineCore_DP0 pid=90) ERROR 11-20 15:00:00 [core.py:710] EngineCore encountered a fatal error.\n"
            b"(EngineCore_DP0 pid=90) ERROR 11-20 15:00:00 [core.py:710] Traceback (most recent call last):\n"
            b'(EngineCore_DP0 pid=90) ERROR 11-20 15:00:00 [core.py:710]   File "/opt/venv/lib/python3.12/site-packages/vllm/v1/engine/core.py", line 701, in run_engine_core\n'
            b"(EngineCore_DP0 pid=90) ERROR 11-20 15:00:00 [core.py:710]     engine_core.run_busy_loop()\n"
            b'(EngineCore_DP0 pid=90) ERROR 11-20 15:00:00 [core.py:710]   File "/opt/venv/lib/python3.12/site-packages/vllm/v1/worker/gpu_model_runner.py", line 1701, in execute_model\n'
            b"(EngineCore_DP0 pid=90) ERROR 11-20 15:00:00 [core.py:710]     hidden = self.model(tokens)\n"
            b"(EngineCore_DP0 pid=90) ERROR 11-20 15:00:00 [core.py:710] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 150.00 MiB. GPU 0 has a total capacity of 23.53 GiB of which 101.00 MiB is free.\n")
    assert follow([*SERVES, *[statistics(number * 10, 0, 50.0) for number in range(9)], dead, b"more\n"]) == 1
    err = capsys.readouterr().err
    assert err.count(MARK) == 2
    assert err.count("rule runtime-cuda-oom ·") == 2


def test_a_log_that_ends_at_once_gets_one_report(capsys) -> None:
    assert follow(FAILED) == 1
    err = capsys.readouterr().err
    assert err.count(MARK) == 1
    assert err.count("rule cpu-kv-cache-space-too-small ·") == 1


@pytest.mark.usefixtures("eager")
def test_json_is_one_report_a_line_at_each_change(capsys) -> None:
    follow(FAILED, format_="json")
    reports = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [report["primary"] for report in reports] == ["cpu-kv-cache-space-too-small"] * 2
    assert reports[-1]["source"]["lines"] == b"".join(FAILED).count(b"\n")
    lines = [statistics(number * 10, 9 * (20 <= number < 40), 97.5 if 20 <= number < 40 else 50.0) for number in range(80)]
    follow([*SERVES, *lines], format_="json")
    reports = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(report["primary"], report["source"]["lines"]) for report in reports] == [
        ("kv-cache-saturated", 25), ("kv-cache-saturated", 45), ("kv-cache-saturated", 82)]


def start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "vllm_doctor", "watch", *arguments], cwd=ROOT, stdin=subprocess.PIPE,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0)


@pytest.mark.parametrize(("log", "status", "primary"), [(FAILED, 1, "cpu-kv-cache-space-too-small"), (SERVES, 0, None)],
                         ids=["failed", "serves"])
def test_once_ends_with_the_first_certain_cause_or_when_it_serves(tmp_path, log, status, primary) -> None:
    output = tmp_path / "report.json"
    with start("--once", "--format", "json", "--output", str(output)) as process:
        process.stdin.write(b"".join(log))
        assert process.wait(30) == status  # its input is still open
        said = [json.loads(line) for line in process.stderr.read().splitlines()]
    assert [report["primary"] for report in said] == [primary]
    assert json.loads(output.read_text(encoding="utf-8")) == said[0]


def test_once_says_nothing_of_a_server_that_serves() -> None:
    with start("--once") as process:
        process.stdin.write(b"".join(SERVES))
        assert (process.wait(30), process.stderr.read()) == (0, b"")


def test_with_pipefail_the_pipe_fails_when_either_side_does(tmp_path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"".join(FAILED))
    command = f"set -o pipefail; (cat {log}; exit 37) 2>&1 | {sys.executable} -m vllm_doctor watch"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    for ending, status in (("", 1), ("--fail-on never", 37)):
        done = subprocess.run(["bash", "-c", f"{command} {ending}"], env=env, capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (status, b"".join(FAILED))
