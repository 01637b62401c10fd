"""A log file that grows: rotated, cut, late, hostile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import vllm_doctor
from vllm_doctor.errors import InputError
from vllm_doctor.pipe import FollowedFile, offset_of
from vllm_doctor.pipe.growing_file import GrowingFile

ROOT = Path(vllm_doctor.__file__).resolve().parents[1]


def added(file: GrowingFile) -> bytes:
    """All that can be read now."""
    pieces = []
    for _ in range(100):
        if not (piece := file.read()) and not (piece := file.read()):
            break
        pieces.append(piece)
    return b"".join(pieces)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


@pytest.fixture
def file(path: Path) -> Iterator[GrowingFile]:
    growing = GrowingFile(str(path))
    yield growing
    growing.close()


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as out:
        out.write(data)


def test_a_file_that_comes_late_is_read_from_its_beginning(path: Path, file: GrowingFile) -> None:
    assert added(file) == b""
    append(path, b"one\ntw")
    assert added(file) == b"one\ntw"
    append(path, b"o\n")
    assert added(file) == b"o\n"
    assert added(file) == b""


def test_a_renamed_file_is_read_to_its_end_before_the_new_one(path: Path, file: GrowingFile) -> None:
    append(path, b"one\n")
    assert added(file) == b"one\n"
    old = path.rename(path.with_suffix(".log.1"))
    append(old, b"late\n")
    path.touch()  # logrotate's create; the server still writes to the old file
    assert added(file) == b"late\n"
    append(old, b"later\n")
    assert added(file) == b"later\n"
    append(old, b"last")
    append(path, b"new\n")
    assert added(file) == b"last\nnew\n"


def test_a_deleted_file_is_waited_for(path: Path, file: GrowingFile) -> None:
    append(path, b"one\n")
    assert added(file) == b"one\n"
    path.unlink()
    assert added(file) == b""
    append(path, b"two\n")
    assert added(file) == b"two\n"


def test_a_file_that_is_cut_is_read_from_its_beginning(path: Path, file: GrowingFile) -> None:
    append(path, b"one\nhalf a li")
    assert added(file) == b"one\nhalf a li"
    path.write_bytes(b"")
    assert added(file) == b"\n"
    append(path, b"new\n")
    assert added(file) == b"new\n"


def test_a_writer_that_goes_on_behind_a_cut_leaves_a_hole_that_is_no_text(path: Path, file: GrowingFile) -> None:
    with path.open("wb") as out:  # `vllm serve > server.log`, copytruncate: its position stays
        out.write(b"x" * (1 << 20) + b"\n")
        out.flush()
        assert len(added(file)) == (1 << 20) + 1
        os.truncate(path, 0)
        assert added(file) == b""
        out.write(b"new\n")
        out.flush()
        assert path.stat().st_size > 1 << 20
        assert added(file) == b"new\n"
        out.write(b"next\n")
        out.flush()
        assert added(file) == b"next\n"


def test_pieces_are_bounded_and_the_first_one_ends_where_it_is_asked_to(path: Path) -> None:
    path.write_bytes(b"a" * 1_000_000)
    file = GrowingFile(str(path), first=300_000)
    sizes = [len(file.read()) for _ in range(6)]
    file.close()
    assert sizes == [262_144, 37_856, 262_144, 262_144, 175_712, 0]


@pytest.mark.parametrize(("make", "message"), [
    (os.mkfifo, "is not a regular file"),
    (lambda path: path.mkdir(), "is not a regular file"),
    (lambda path: path.symlink_to("/dev/zero"), "is not a regular file"),
])
def test_what_is_no_regular_file_is_refused_without_being_opened(path: Path, file: GrowingFile, make, message: str) -> None:
    make(path)
    with pytest.raises(InputError, match=message):
        file.read()


def test_an_end_reads_what_is_written_and_no_more(path: Path) -> None:
    append(path, b"one\n")
    file = FollowedFile(str(path))
    assert file.wait(0)
    file.end()
    assert list(file) == [b"one\n"]
    assert file.wait(0)


def test_a_file_that_becomes_unreadable_ends_with_the_reason(path: Path) -> None:
    append(path, b"one\n")
    file = FollowedFile(str(path))
    pieces = iter(file)
    assert next(pieces) == b"one\n"
    path.unlink()
    assert not file.wait(0)
    path.mkdir()
    append(path / "x", b"")
    file._file.close()  # as when another file took its place
    assert file.wait(0)
    assert next(pieces, None) is None
    assert "is not a regular file" in str(file.problem)


# ---- since


def test_where_a_time_is_reached(path: Path) -> None:
    now = datetime.now().astimezone()
    old, new = now - timedelta(hours=3), now - timedelta(minutes=5)
    first = f"INFO {old:%m-%d %H:%M:%S} [api_server.py:1] old\nno time\n".encode()
    path.write_bytes(first + f"(APIServer pid=7) ERROR {new:%m-%d %H:%M:%S} [core.py:1] new\n".encode())
    hour_ago = datetime.now().astimezone() - timedelta(hours=1)
    assert offset_of(str(path), hour_ago) == len(first)
    assert offset_of(str(path), hour_ago - timedelta(hours=9)) == 0
    assert offset_of(str(path), hour_ago + timedelta(minutes=59)) == path.stat().st_size
    assert offset_of(str(path) + "x", hour_ago) == 0


@pytest.mark.parametrize(("line", "newer"), [
    (b"2031-11-20T10:00:00.123Z stdout F x", True),
    (b"2020-11-20T10:00:00+05:30 x", False),
    (b"2031-13-45 99:99:99 x", False),
    (b"x" * 100 + b"2031-01-01 00:00:00", False),  # far from the beginning: may be a client's
])
def test_which_times_count(path: Path, line: bytes, newer: bool) -> None:
    path.write_bytes(line + b"\n")
    assert (offset_of(str(path), datetime(2030, 1, 1).astimezone()) == 0) is newer


def test_a_line_without_an_end_is_searched_in_pieces(path: Path) -> None:
    path.write_bytes(b"11-20 10:00:0" * 200_000)
    begun = time.monotonic()
    assert offset_of(str(path), datetime.now().astimezone()) == 2_600_000
    assert time.monotonic() - begun < 5


# ---- the command

LOG = (ROOT / "fixtures" / "logs" / "fatkv-cpu-space-1.log").read_bytes()
SAID = "CPU KV cache too small"


def opened_by(fd: Path) -> str:
    """Return what a file descriptor refers to; nothing if it was closed in the meantime."""
    try:
        return os.readlink(fd)
    except FileNotFoundError:
        return ""


class Watching:
    """`vllm-doctor watch --file …` as a process of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.err = folder / "err"
        with self.err.open("wb") as err:
            self.process = subprocess.Popen([sys.executable, "-m", "vllm_doctor", "watch", "--isolated", *options], cwd=folder, stderr=err,
                                            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)})

    def wait_for(self, text: str, times: int = 1) -> str:
        deadline = time.monotonic() + 40
        while self.err.read_text().count(text) < times:
            assert time.monotonic() < deadline, self.err.read_text()
            assert self.process.poll() is None, self.err.read_text()
            time.sleep(0.05)
        return self.err.read_text()

    def has_opened(self, path: Path) -> None:
        fds = Path(f"/proc/{self.process.pid}/fd")
        deadline = time.monotonic() + 40
        while fds.exists() and str(path) not in map(opened_by, fds.iterdir()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.6)

    def ended(self, number: int = signal.SIGINT) -> tuple[int, str]:
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=40)
        assert out == b""
        return self.process.returncode, self.err.read_text()


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[object]:
    started = []

    def start(*options: str) -> Watching:
        started.append(Watching(tmp_path, *options))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_late_and_rotated_file_is_reported_and_a_signal_ends_with_the_report(watching, path: Path, number: int) -> None:
    watch = watching("--file", "server.log")
    watch.wait_for("vllm-doctor: server.log: does not exist yet; waiting for it\n")
    half = LOG.index(b"\n", len(LOG) // 2) + 1
    append(path, LOG[:half])
    watch.has_opened(path)
    path.rename(path.with_suffix(".1"))
    append(path, LOG[half:])
    watch.wait_for(SAID)
    time.sleep(1.1)  # within a second the same report is not printed again
    status, err = watch.ended(number)
    assert status == 1
    assert err.count(f"✗ {SAID}") == 2
    assert "server.log:74  ValueError" in err


def test_several_files_have_their_names_and_once_ends_with_the_first_cause(watching, path: Path) -> None:
    append(path, LOG)
    healthy = path.with_name("rank 1.log")
    healthy.write_bytes((ROOT / "fixtures" / "logs" / "healthy" / "tiny-awq-serving.log").read_bytes())
    watch = watching("--file", "server.log", "--file", "rank 1.log", "--file", "rank 2.log", "--once")
    assert watch.process.wait(60) == 1
    err = watch.err.read_text()
    assert "--- vllm-doctor server.log ----" in err
    assert err.count(SAID) == 1
    assert "rank 1.log" not in err


def test_what_is_older_is_silent_and_what_comes_is_not(watching, path: Path) -> None:
    append(path, LOG)  # of another year's November
    watch = watching("--file", "server.log", "--since", "2030-01-01")
    watch.has_opened(path)
    assert SAID not in watch.err.read_text()
    append(path, LOG)
    watch.wait_for(SAID)


@pytest.mark.parametrize(("options", "message"), [
    (["--since", "10m"], "--since belongs to --file FILE"),
    (["--file", "a", "--since", "yesterday"], "neither a time such as"),
    (["--file", "a", "--file", "b", "--output", "c"], "--output takes the report of one log"),
    (["--file", "."], "vllm-doctor: .: is not a regular file"),
    (["--file", "a\x1b[2J"], "a<U+001B>[2J: does not exist yet"),
])
def test_wrong_use_is_reported(watching, options: list[str], message: str) -> None:
    watch = watching(*options)
    if "does not exist" in message:
        watch.wait_for(message)
    else:
        assert watch.process.wait(40) == 2
        assert message in watch.err.read_text()


def test_secrets_and_commands_in_a_file_are_masked_and_inert(watching, path: Path) -> None:
    secret = b"hf_" + b"Zq7" * 11 + b"a"
    append(path, b"::error::EVIL\n\x1b]0;EVIL\a" + LOG.replace(b"vllm serve", b"HF_TOKEN=" + secret + b" vllm serve", 1))
    watch = watching("--file", "server.log")
    watch.wait_for(SAID)
    _, err = watch.ended()
    assert secret.decode() not in err
    assert "\x1b" not in err
    assert not [line for line in err.splitlines() if line.startswith("::")]


def test_a_flood_does_not_grow_the_memory(watching, path: Path) -> None:
    line = b"INFO 11-20 10:00:00 [loggers.py:1] " + b"y" * 900 + b"\n"
    path.write_bytes(LOG + b"z" * (20 << 20) + b"\n" + line * 40_000)
    watch = watching("--file", "server.log")
    watch.wait_for(SAID)
    time.sleep(2)
    status = Path(f"/proc/{watch.process.pid}/status")
    if status.exists():
        peak = next(int(row.split()[1]) for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        assert peak < 300_000  # kB
    assert watch.ended()[0] == 1
