"""`watch` on a busy machine, and told to end: the report comes, and comes in time."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

LOG = (Path(__file__).resolve().parents[2] / "fixtures/logs/fatkv-cpu-space-1.log").read_bytes()
CAUSE = b"cpu-kv-cache-space-too-small"
VERDICT = b"CPU KV cache too small for"  # the report that comes before the end names no id
WATCH = [sys.executable, "-m", "vllm_doctor", "watch"]


@pytest.fixture
def busy() -> Iterator[None]:
    """All cores busy, twice over."""
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    yield
    for spinner in spinners:
        spinner.kill()
        spinner.wait()


def heard(process: subprocess.Popen[bytes], words: bytes, seconds: float) -> bytes:
    """What it says on stderr, until it holds these words."""
    assert process.stderr is not None
    said, until = b"", time.monotonic() + seconds
    while words not in said and time.monotonic() < until:
        if select.select([process.stderr], [], [], 0.1)[0]:
            data = os.read(process.stderr.fileno(), 65536)
            if not data:
                break
            said += data
    return said


def started(*arguments: str, bufsize: int = -1) -> subprocess.Popen[bytes]:
    """A `watch` that reads: what it was given first has passed."""
    process = subprocess.Popen([*WATCH, *arguments], bufsize=bufsize, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"first\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"first\n"
    return process


def test_the_verdict_does_not_wait_for_an_idle_machine(busy: None) -> None:
    with started() as process:
        process.stdin.write(LOG)
        process.stdin.flush()
        began = time.monotonic()
        assert VERDICT in heard(process, VERDICT, 60)
        spent = time.monotonic() - began
        process.stdin.close()
        process.stdout.read()
    assert spent < 5 + 2 * os.getloadavg()[0]  # 5 s where the spinners are all that runs


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_it_with_the_report(number: int) -> None:
    with started("--fail-on", "never") as process:
        process.stdin.write(LOG.replace(b"\n", b"\r\n"))
        process.stdin.flush()
        assert len(process.stdout.read(len(LOG))) == len(LOG)
        process.send_signal(number)  # the input stays open
        err = process.stderr.read()
        assert process.wait(60) == 0
    assert err.count(CAUSE) >= 1
    assert err.rstrip().count(b"--- vllm-doctor ") >= 1


@pytest.mark.parametrize("flood", [False, True])
def test_ctrl_c_ends_it_at_once_while_its_input_is_open(flood: bool) -> None:
    with started("--fail-on", "never") as process:
        process.stdin.write(LOG)
        process.stdin.flush()
        assert len(process.stdout.read(len(LOG))) == len(LOG)
        assert VERDICT in heard(process, VERDICT, 60)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        if flood:
            os.set_blocking(process.stdin.fileno(), False)
            process.stdin.write(b"INFO 10-08 20:36:41 [a.py:1] x\n" * 500)
            process.stdin.flush()
        assert CAUSE in process.stderr.read()
        assert process.wait(60) == 0
        assert time.monotonic() - began < 2 + os.getloadavg()[0]  # 2 s on an idle machine


def test_the_servers_last_lines_pass_behind_the_report_of_ctrl_c() -> None:
    with started("--fail-on", "never") as process:
        process.send_signal(signal.SIGINT)
        process.stderr.read()
        assert process.wait(60) == 0
        process.stdin.write(b"INFO shutting down\n")
        process.stdin.close()
        assert process.stdout.read() == b"INFO shutting down\n"


def test_output_that_nobody_reads_does_not_cost_the_report() -> None:
    with started(bufsize=0) as process:
        process.stdin.write(LOG)
        os.set_blocking(process.stdin.fileno(), False)
        while process.stdin.write(b"x" * 65535 + b"\n"):
            pass  # until every pipe is full
        process.send_signal(signal.SIGTERM)
        assert CAUSE in process.stderr.read()
        assert process.wait(60) == 1
