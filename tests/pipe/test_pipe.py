from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vllm_doctor
from vllm_doctor import pipe
from vllm_doctor.pipe import Gap, Reader
from vllm_doctor.pipe import analyser_channel as frame_format
from vllm_doctor.pipe.analyser import Analyser

ROOT = str(Path(vllm_doctor.__file__).resolve().parents[1])

# argv: result file, analyser, "pump" and its options as JSON, or "run" and the command.
DRIVER = """
import hashlib, json, os, signal, sys, time
from vllm_doctor.pipe import Gap, pump, run_command

result, how, what = sys.argv[1:4]

def note(suffix, **values):
    with open(result + suffix + ".part", "w") as file:
        json.dump(values, file)
    os.rename(result + suffix + ".part", result + suffix)

def read(reader, status):
    digest, size, gaps, text = hashlib.sha256(), 0, [], []
    for piece in reader:
        if isinstance(piece, Gap):
            gaps.append(list(piece))
        else:
            digest.update(piece)
            size += len(piece)
            text.append(piece)
    note(".read", sha=digest.hexdigest(), size=size, gaps=gaps, nice=os.nice(0), missed=reader.missed,
         tail=b"".join(text)[-400:].decode("latin-1"))
    return status

def analyse(reader):
    note(".pid", pid=os.getpid())
    if how == "read":
        return read(reader, 0)
    if how == "finds":
        return read(reader, 1)
    if how == "suicide":
        next(iter(reader))
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "raises":
        next(iter(reader))
        raise ValueError("hf_secret")
    if how == "early":
        next(iter(reader))
        print("must not reach stdout", flush=True)
        os.write(2, b"a cause is certain\\n")
        return 1
    if how == "slow":
        time.sleep(0.7)
        return read(reader, 0)
    if how == "hangs":
        time.sleep(30)
    raise SystemExit("unknown analyser")

note(".up", pid=os.getpid())
if what == "pump":
    note("", **pump(analyse, **json.loads(sys.argv[4]))._asdict())
else:
    status = run_command(sys.argv[4:], analyse)
    note("", status=status)
    sys.exit(status)
"""


class Doctor:
    """The driver as a process of its own."""

    def __init__(self, tmp_path: Path, analyser: str, *command: str, **options: Any) -> None:
        self.base = tmp_path / "result"
        popen = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        popen |= options.pop("popen", {})
        what = ["run", *command] if command else ["pump", json.dumps(options)]
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV"))} | {"PYTHONPATH": ROOT}
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(self.base), analyser, *what],
            env=env,
            start_new_session=True,  # a group of its own, and no terminal
            **popen,
        )

    def note(self, suffix: str = "") -> dict[str, Any]:
        path = Path(f"{self.base}{suffix}")
        deadline = time.monotonic() + 10
        while not path.exists():
            assert time.monotonic() < deadline, f"no {path.name}"
            time.sleep(0.005)
        return json.loads(path.read_text())

    def await_handler(self, number: int) -> None:
        """Wait until the process handles a signal: the analyser is forked before, and may run before."""
        deadline = time.monotonic() + 10
        while not self._handles(number):
            assert time.monotonic() < deadline, f"signal {number} has no handler"
            time.sleep(0.001)

    def _handles(self, number: int) -> bool:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return bool(int(status.partition("SigCgt:")[2].split()[0], 16) >> (number - 1) & 1)

    def talk(self, data: bytes = b"") -> tuple[bytes, str]:
        out, err = self.process.communicate(data, timeout=15)
        return out or b"", (err or b"").decode()


@pytest.fixture
def start(tmp_path: Path):
    doctors: list[Doctor] = []

    def _start(analyser: str, *command: str, **options: Any) -> Doctor:
        doctors.append(Doctor(tmp_path, analyser, *command, **options))
        return doctors[-1]

    yield _start
    for doctor in doctors:
        if doctor.process.poll() is None:
            os.killpg(doctor.process.pid, signal.SIGKILL)
        doctor.process.wait()
        for stream in (doctor.process.stdin, doctor.process.stdout, doctor.process.stderr):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def feed(doctor: Doctor, data: bytes, pause_after: int, pause: threading.Event | float) -> threading.Thread:
    """Write `data` from a thread, with a pause in the middle."""

    def run() -> None:
        try:
            doctor.process.stdin.write(data[:pause_after])
            doctor.process.stdin.flush()
            pause.wait(5) if isinstance(pause, threading.Event) else time.sleep(pause)
            doctor.process.stdin.write(data[pause_after:])
            doctor.process.stdin.close()
        except BrokenPipeError:
            pass

    thread = threading.Thread(target=run)
    thread.start()
    return thread


# ---- every byte, unchanged


@pytest.mark.parametrize("seed", [1, 2])
def test_random_bytes_in_random_chunks_pass_unchanged(start, seed):
    rng = random.Random(seed)
    data = rng.randbytes(3_000_000)
    doctor = start("read")
    seen: list[bytes] = []
    collect = threading.Thread(target=lambda: seen.append(doctor.process.stdout.read()))
    collect.start()
    at = 0
    while at < len(data):
        size = rng.choice((1, 7, 100, 4096, 65_537, 400_000))
        at += os.write(doctor.process.stdin.fileno(), data[at : at + size])
        if rng.random() < 0.02:
            time.sleep(0.002)
    doctor.process.stdin.close()
    collect.join()
    assert sha(seen[0]) == sha(data)
    assert doctor.note(".read") | {"tail": ""} == {
        "sha": sha(data), "size": len(data), "gaps": [], "nice": os.nice(0), "missed": 0, "tail": "",
    }  # fmt: skip
    assert doctor.note()["bytes_passed"] == len(data)


def test_from_a_file_to_a_file(start, tmp_path):
    data = random.Random(3).randbytes(700_000)
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(data)
    with source.open("rb") as stdin, target.open("wb") as stdout:
        doctor = start("finds", popen={"stdin": stdin, "stdout": stdout})
        doctor.talk()
    assert target.read_bytes() == data
    assert doctor.note(".read")["sha"] == sha(data)
    assert doctor.note() == {
        "status": 1, "bytes_passed": 700_000, "bytes_not_analysed": 0, "analyser_died": False, "stopped_by": None,
    }  # fmt: skip


def test_an_empty_input(start):
    doctor = start("read")
    assert doctor.talk() == (b"", "")
    assert (doctor.note()["status"], doctor.note()["bytes_passed"]) == (0, 0)


def test_a_line_passes_before_the_next_one_comes(start):
    doctor = start("read")
    for number in range(3):
        line = b"line %d, no newline yet" % number
        os.write(doctor.process.stdin.fileno(), line)
        assert os.read(doctor.process.stdout.fileno(), 100) == line
    doctor.talk()
    assert doctor.note()["status"] == 0


def test_stdout_ends_before_the_verdict(start):
    doctor = start("slow")
    began = time.monotonic()
    doctor.process.stdin.write(b"a line\n")
    doctor.process.stdin.close()
    assert doctor.process.stdout.read() == b"a line\n"
    assert time.monotonic() - began < 0.6
    assert doctor.note(".read")["size"] == 7


# ---- faults of the analyser


@pytest.mark.parametrize(
    ("analyser", "message"),
    [("suicide", "was killed by signal 9"), ("raises", "internal error in the analyser: ValueError at ")],
)
def test_the_log_survives_the_analyser(start, analyser, message):
    data = random.Random(4).randbytes(5_000_000)
    doctor = start(analyser)
    out, err = doctor.talk(data)
    assert sha(out) == sha(data)
    assert message in err
    assert "hf_secret" not in err
    result = doctor.note()
    assert (result["status"], result["analyser_died"], result["bytes_passed"]) == (2, True, len(data))
    assert 0 < result["bytes_not_analysed"] < len(data)


def test_analyser_killed_from_outside_while_bytes_flow(start):
    data = random.Random(5).randbytes(4_000_000)
    doctor = start("hangs")
    killed = threading.Event()
    thread = feed(doctor, data, 2_000_000, killed)
    os.kill(doctor.note(".pid")["pid"], signal.SIGKILL)
    killed.set()
    assert sha(doctor.process.stdout.read()) == sha(data)
    thread.join()
    assert doctor.note()["analyser_died"] is True
    assert "signal 9" in doctor.process.stderr.read().decode()


def test_an_early_verdict_stands_and_the_log_goes_on(start):
    data = random.Random(6).randbytes(2_000_000)
    doctor = start("early")
    ended = threading.Event()
    thread = feed(doctor, data, 1000, ended)
    analyser = Path(f"/proc/{doctor.note('.pid')['pid']}")
    while analyser.exists():
        time.sleep(0.01)
    ended.set()
    assert sha(doctor.process.stdout.read()) == sha(data)
    thread.join()
    result = doctor.note()
    assert (result["status"], result["analyser_died"]) == (1, False)
    assert result["bytes_not_analysed"] == len(data) - 1000
    assert doctor.process.stderr.read() == b"a cause is certain\n"


def test_once_ends_with_the_analyser(start):
    doctor = start("early", once=True)
    os.write(doctor.process.stdin.fileno(), b"ERROR\n")
    assert doctor.process.wait(5) == 0  # stdin still open
    assert doctor.process.stdout.read() == b"ERROR\n"
    assert doctor.note()["status"] == 1


def test_once_does_not_end_when_the_analyser_dies(start):
    doctor = start("suicide", once=True)
    thread = feed(doctor, b"ERROR\nmore\n", 6, 0.3)
    assert doctor.process.stdout.read() == b"ERROR\nmore\n"
    thread.join()
    assert doctor.note()["analyser_died"] is True


def test_a_slow_analyser_slows_nothing_and_misses_the_oldest(start):
    lines = [b"%06d %s\n" % (n, b"x" * 90) for n in range(60_000)]
    data = b"".join(lines)
    doctor = start("slow", backlog=500_000)
    began = time.monotonic()
    thread = feed(doctor, data, 0, 0.0)
    out = doctor.process.stdout.read()
    assert time.monotonic() - began < 0.65  # the analyser sleeps 0.7 s
    thread.join()
    assert sha(out) == sha(data)
    read, result = doctor.note(".read"), doctor.note()
    assert result["bytes_passed"] == len(data)
    assert result["bytes_not_analysed"] > 3_000_000
    assert read["tail"].endswith(lines[-1].decode())  # the newest are there
    assert read["nice"] == 5  # it left the processor to the copying, most of it
    assert sum(size for size, _ in read["gaps"]) == read["missed"] >= result["bytes_not_analysed"]
    # the line that the gap cut is ended by one newline: at most one more byte for each gap
    assert len(data) <= read["size"] + read["missed"] <= len(data) + len(read["gaps"])


# ---- faults of stdout


def test_closed_stdout_stops_reading_and_the_analyser_still_reports(start):
    doctor = start("finds")
    os.write(doctor.process.stdin.fileno(), b"first\n")
    assert os.read(doctor.process.stdout.fileno(), 100) == b"first\n"
    doctor.process.stdout.close()
    os.write(doctor.process.stdin.fileno(), b"second\n")
    assert doctor.process.wait(5) == 0
    with pytest.raises(BrokenPipeError):  # so does the server feel it, as with cat
        os.write(doctor.process.stdin.fileno(), b"third\n")
    assert doctor.note(".read")["tail"] == "first\nsecond\n"
    result = doctor.note()
    assert (result["status"], result["bytes_passed"]) == (1, 6)
    assert doctor.process.stderr.read() == b""


def test_a_full_disk_is_said_once_and_reading_goes_on(start):
    with open("/dev/full", "wb") as full:
        doctor = start("read", popen={"stdout": full})
        _, err = doctor.talk(b"a line\n" * 200_000)
    assert err.count("\n") == 1
    assert "cannot write the log on: no space left on device" in err
    assert doctor.note(".read")["size"] == 1_400_000
    assert doctor.note()["status"] == 2


def test_stdout_that_was_closed_from_the_start(start):
    doctor = start("read", popen={"stdout": None, "preexec_fn": lambda: os.close(1)})
    _, err = doctor.talk(b"a line\n")
    assert "cannot write the log on: is closed" in err
    assert doctor.note(".read")["size"] == 7
    assert doctor.note()["status"] == 2


def test_unreadable_input_is_reported(start, tmp_path):
    with open(tmp_path / "write-only", "wb") as file:
        doctor = start("read", popen={"stdin": file})
    _, err = doctor.talk()
    assert err == "vllm-doctor: cannot read the log: is closed\n"
    assert doctor.note()["status"] == 2


def test_non_blocking_stdout_and_stdin(start):
    data = random.Random(7).randbytes(3_000_000)
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    in_read, in_write = os.pipe()
    os.set_blocking(in_read, False)
    doctor = start("read", popen={"stdout": write_end, "stdin": in_read})
    os.close(write_end)
    os.close(in_read)
    writer = threading.Thread(target=lambda: (_write_all(in_write, data), os.close(in_write)))
    writer.start()
    seen = bytearray()
    while chunk := os.read(read_end, 30_000):
        seen += chunk
        if len(seen) < 300_000:
            time.sleep(0.005)
    os.close(read_end)
    writer.join()
    assert sha(bytes(seen)) == sha(data)
    assert doctor.note(".read")["sha"] == sha(data)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


# ---- signals


def test_sigint_to_the_group_and_the_last_lines_pass(start):
    doctor = start("finds")
    os.write(doctor.process.stdin.fileno(), b"INFO serving\n")
    assert os.read(doctor.process.stdout.fileno(), 100) == b"INFO serving\n"
    doctor.note(".pid")
    os.killpg(doctor.process.pid, signal.SIGINT)
    time.sleep(0.05)
    out, err = doctor.talk(b"INFO shutting down\n" * 5000)
    assert out == b"INFO shutting down\n" * 5000
    assert err == ""
    assert doctor.note(".read")["size"] == 13 + 19 * 5000
    assert doctor.note()["status"] == 1


def test_sigterm_passes_on_what_is_there_then_ends(start):
    doctor = start("finds")
    os.write(doctor.process.stdin.fileno(), b"x" * 50_000)
    doctor.note(".pid")
    doctor.await_handler(signal.SIGTERM)
    os.kill(doctor.process.pid, signal.SIGTERM)
    assert doctor.process.wait(5) == 0  # stdin still open
    assert doctor.process.stdout.read() == b"x" * 50_000
    assert doctor.note(".read")["size"] == 50_000
    assert (doctor.note()["status"], doctor.note()["stopped_by"]) == (1, signal.SIGTERM)


def test_sigterm_ends_although_the_input_never_pauses(start):
    doctor = start("read", popen={"stdin": os.open("/dev/zero", os.O_RDONLY), "stdout": subprocess.DEVNULL})
    doctor.await_handler(signal.SIGTERM)
    os.kill(doctor.process.pid, signal.SIGTERM)
    assert doctor.process.wait(8) == 0
    assert doctor.note()["stopped_by"] == signal.SIGTERM


def test_a_hanging_analyser_is_given_up(monkeypatch, tmp_path):
    monkeypatch.setattr("vllm_doctor.pipe.analyser.PATIENCE", 0.3)
    source, sink = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"a line\n")
    result = pipe.pump(
        lambda _reader: time.sleep(30) or 0,
        stdin=os.open(source, os.O_RDONLY),
        stdout=os.open(sink, os.O_WRONLY | os.O_CREAT),
    )
    assert result.analyser_died
    assert result.status == 2
    assert sink.read_bytes() == b"a line\n"


def test_signal_handlers_and_descriptors_are_as_before(tmp_path):
    source = tmp_path / "in"
    source.write_bytes(b"a line\n")
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers], set(os.listdir("/proc/self/fd"))
    result = pipe.pump(
        lambda reader: sum(map(len, reader)),
        stdin=os.open(source, os.O_RDONLY),
        stdout=os.open(os.devnull, os.O_WRONLY),
    )
    assert result == (7, 7, 0, False, None)
    assert ([signal.getsignal(number) for number in numbers], set(os.listdir("/proc/self/fd"))) == before


# ---- run_command


def run(start, code: str, analyser: str = "read", **options: Any) -> Doctor:
    return start(analyser, sys.executable, "-S", "-c", code, **options)


def test_run_keeps_the_streams_apart_and_the_exit_status(start):
    doctor = run(
        start,
        "import os,sys\n"
        "os.write(1, b'out 1\\npart')\nos.write(2, b'err 1\\n')\nos.write(1, b'ly\\n')\nos.write(2, b'no newline')\n"
        "sys.exit(3)",
    )
    out, err = doctor.talk()
    assert out == b"out 1\npartly\n"
    assert err == "err 1\nno newline"
    assert doctor.process.returncode == 3
    tail = doctor.note(".read")["tail"]
    assert sorted(tail.splitlines()) == ["err 1", "no newline", "out 1", "partly"]  # no line was torn


def test_run_passes_bytes_unchanged(start, tmp_path):
    data = random.Random(8).randbytes(3_000_000)
    (tmp_path / "data").write_bytes(data)
    out, err = start("slow", "cat", str(tmp_path / "data")).talk()
    assert (sha(out), err) == (sha(data), "")


def test_run_stdin_reaches_the_command(start):
    out, _ = start("read", "cat").talk(b"typed\n")
    assert out == b"typed\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_run_a_killed_command(start, number):
    doctor = run(start, f"import os; os.write(1, b'dying\\n'); os.kill(os.getpid(), {int(number)})")
    out, err = doctor.talk()
    assert (out, err) == (b"dying\n", "")
    assert doctor.process.returncode == 128 + number


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGWINCH])
def test_run_forwards_signals(start, number):
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip(f"{number.name} is ignored here, as under nohup")
    doctor = run(
        start,
        "import os,signal,sys,time\n"
        f"def got(n, f):\n    os.write(1, b'got %d\\n' % n)\n    sys.exit(40)\n"
        f"signal.signal({int(number)}, got)\nos.write(1, b'ready\\n')\ntime.sleep(20)",
    )
    assert os.read(doctor.process.stdout.fileno(), 100) == b"ready\n"
    os.kill(doctor.process.pid, number)
    out, err = doctor.talk()
    assert (out, err) == (b"got %d\n" % number, "")
    assert doctor.process.returncode == 40
    assert doctor.note(".read")["tail"] == f"ready\ngot {number:d}\n"


def test_run_default_sigint_status(start):
    doctor = run(
        start,
        "import os,signal,time\nsignal.signal(2, signal.SIG_DFL)\nos.write(1, b'ready\\n')\ntime.sleep(20)",
    )
    assert os.read(doctor.process.stdout.fileno(), 100) == b"ready\n"
    os.kill(doctor.process.pid, signal.SIGINT)
    doctor.talk()
    assert doctor.process.returncode == 130


def test_run_missing_command(start):
    doctor = start("read", "no-such-command-here", "--flag")
    assert doctor.talk() == (b"", "vllm-doctor: no-such-command-here: command not found\n")
    assert doctor.process.returncode == 127
    assert not Path(f"{doctor.base}.pid").exists()  # no analyser, no empty report


def test_run_not_executable(start, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    doctor = start("read", str(script))
    assert doctor.talk() == (b"", f"vllm-doctor: {script}: Permission denied\n")
    assert doctor.process.returncode == 126


def test_run_survives_its_analyser(start):
    doctor = run(
        start,
        "import os,time\nfor n in range(300): os.write(1, b'line %d\\n' % n); time.sleep(0.001)",
        "suicide",
    )
    out, err = doctor.talk()
    assert out == b"".join(b"line %d\n" % n for n in range(300))
    assert err.count("\n") == 1
    assert "signal 9" in err
    assert doctor.process.returncode == 0


def test_run_when_stdout_is_closed_the_command_feels_it_and_stderr_goes_on(start):
    doctor = run(
        start,
        "import os,signal,sys,time\n"
        "os.write(1, b'one\\n')\nsys.stdin.readline()\n"
        "try:\n  for n in range(1000): os.write(1, b'two\\n'); time.sleep(0.002)\n"
        "except BrokenPipeError:\n  os.write(2, b'felt it\\n'); os._exit(5)",
    )
    assert os.read(doctor.process.stdout.fileno(), 100) == b"one\n"
    doctor.process.stdout.close()
    doctor.process.stdin.write(b"go\n")
    doctor.process.stdin.close()
    assert doctor.process.wait(5) == 5
    assert doctor.process.stderr.read() == b"felt it\n"


def test_run_does_not_wait_for_what_the_command_leaves_behind(start):
    began = time.monotonic()
    doctor = start("read", "/bin/sh", "-c", "sleep 6 & echo done; exit 4")
    out = os.read(doctor.process.stdout.fileno(), 100)
    assert doctor.process.wait(5) == 4
    assert out == b"done\n"
    assert time.monotonic() - began < 4


def test_ctrl_c_in_a_terminal_reaches_the_command_once(tmp_path):
    master, slave = os.openpty()
    code = (
        "import os,signal,time\nn=[]\nsignal.signal(2, lambda *a: (n.append(1), os.write(1, b'int\\n')))\n"
        "os.write(1, b'ready\\n')\nend=time.time()+0.5\n"
        "while time.time() < end: time.sleep(0.05)\nos._exit(len(n))"
    )

    def own_the_terminal() -> None:
        fcntl.ioctl(0, 0x540E, 0)  # TIOCSCTTY

    doctor = Doctor(
        tmp_path, "read", sys.executable, "-S", "-c", code,
        popen={"stdin": slave, "stdout": slave, "stderr": slave, "preexec_fn": own_the_terminal},
    )  # fmt: skip
    os.close(slave)
    seen = b""
    while b"ready" not in seen:
        assert select.select([master], [], [], 5)[0]
        seen += os.read(master, 100)
    os.write(master, b"\x03")
    assert doctor.process.wait(5) == 1
    os.close(master)


# ---- the reader's end alone


def _reader(*frames: tuple[int, bytes | tuple[int, int]], whole_lines: bool = False) -> Reader:
    read_end, write_end = os.pipe()
    for kind, content in frames:
        if isinstance(content, bytes):
            os.write(write_end, frame_format.FRAME.pack(kind, len(content), 0) + content)
        else:
            os.write(write_end, frame_format.FRAME.pack(kind, *content))
    os.close(write_end)
    return Reader(read_end, whole_lines=whole_lines)


def drain(reader: Reader) -> list[bytes | Gap]:
    pieces = list(reader)
    os.close(reader._fd)
    return pieces


GAP, CUT = frame_format.GAP, frame_format.GAP | frame_format.CUT


def test_a_gap_between_lines():
    assert drain(_reader((0, b"1\n"), (GAP, (4, 2)), (0, b"4\n"))) == [b"1\n", Gap(4, 2), b"4\n"]


def test_a_gap_inside_a_line_ends_the_line_and_resumes_at_the_next():
    # 1\n 2a|2b\n 3\n 4a|4b\n 5\n : line 5 must be counted as the fifth
    pieces = drain(_reader((0, b"1\n2a"), (CUT, (7, 2)), (0, b"4b\n5\n")))
    assert pieces == [b"1\n2a\n", Gap(10, 2), b"5\n"]
    assert 1 + sum(p.lines if isinstance(p, Gap) else p.count(b"\n") for p in pieces[:-1]) == 5


def test_two_gaps_in_a_row_and_a_gap_at_the_end():
    assert drain(_reader((CUT, (5, 1)), (0, b"no newline"), (CUT, (3, 0)), (0, b"x\ny\n"))) == [
        Gap(5 + len("no newline") + 3 + len("x\n"), 2),
        b"y\n",
    ]
    assert drain(_reader((0, b"a"), (CUT, (3, 1)))) == [b"a\n", Gap(3, 0)]


def test_a_stream_without_a_gap_is_not_touched_by_the_others():
    reader = _reader((0, b"out\n"), (1 | CUT, (6, 1)), (0, b"out\n"), (1, b"rest\nerr\n"), whole_lines=True)
    assert drain(reader) == [b"out\nout\n", Gap(11, 2), b"err\n"]


def test_lines_of_two_streams_do_not_mix():
    frames = [(0, b"ab"), (1, b"12"), (0, b"c\nd"), (1, b"3\n"), (1, b"45"), (0, b"e")]
    assert b"".join(drain(_reader(*frames, whole_lines=True))) == b"abc\n123\nde\n45"


def test_a_very_long_line_is_not_held_for_ever():
    reader = _reader((0, b"x" * 60_000), whole_lines=True)
    reader._MAX_HELD = 10_000
    assert drain(reader) == [b"x" * 60_000]


def test_what_is_there_is_not_waited_for_and_gaps_are_counted():
    reader = _reader((0, b"abcdef"), (GAP, (3, 1)), (0, b"gh"))
    assert reader.wait(0) is True
    assert drain(reader) == [b"abcdef\n", Gap(size=3, lines=0), b"gh"]
    assert reader.missed == 3


def test_a_frame_cut_short_is_read_as_far_as_it_goes():
    read_end, write_end = os.pipe()
    os.write(write_end, frame_format.FRAME.pack(0, 100, 0) + b"half")
    os.close(write_end)
    assert drain(Reader(read_end)) == [b"half"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=200), max_size=60), st.integers(0, 3000), st.randoms())
def test_whatever_is_dropped_the_rest_is_whole_lines_with_right_numbers(chunks, bound, rng):
    """The hand-over against a tiny backlog: what arrives are lines of the original, at their own numbers."""
    original = b"".join(chunks)
    lines = original.split(b"\n")
    analyser = Analyser.__new__(Analyser)
    analyser.__dict__.update(
        _partial=memoryview(b""), _partial_size=0, _gaps={}, _frames=deque(), _queued=0, _bound=bound,
        not_analysed=0, exit_code=None, _pid=0, _yields=True,
    )  # fmt: skip
    read_end, analyser.fd = os.pipe()
    os.set_blocking(analyser.fd, False)
    blocked = [True]
    real_flush = analyser.flush
    analyser.flush = lambda: blocked[0] or real_flush()  # type: ignore[method-assign]
    for chunk in chunks:
        blocked[0] = rng.random() < 0.7
        analyser.queue(0, memoryview(chunk))
    blocked[0] = False
    analyser.flush()
    os.close(analyser.fd)
    reader = Reader(read_end)
    number, text, got, sizes = 0, b"", b"", 0
    for piece in drain(reader):
        if isinstance(piece, Gap):
            assert not text  # lines before a gap are ended
            number += piece.lines
            sizes += piece.size
            continue
        got += piece
        text += piece
        while b"\n" in text:
            line, text = text.split(b"\n", 1)
            assert lines[number].startswith(line)
            number += 1
    assert not text or lines[number].startswith(text)
    assert sizes == reader.missed >= analyser.not_analysed
    assert len(original) <= len(got) + sizes <= len(original) + len(chunks)
    if not analyser.not_analysed:
        assert got == original
