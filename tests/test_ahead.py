"""What another process finds in a large file is what this one would find: reports are compared whole."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from vllm_doctor.diagnosis.engine import Diagnosis
from vllm_doctor.fastpath import ahead, line_skipper
from vllm_doctor.fastpath.ahead import Ahead
from vllm_doctor.reports.to_json import render

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
ROOT = Path(__file__).resolve().parent.parent
LOGS = sorted((ROOT / "fixtures" / "logs").rglob("*.log"))
ACCESS = b'(APIServer pid=7) INFO:     10.0.0.1:%d - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
STATISTICS = (b"(APIServer pid=7) INFO 11-20 11:38:49 [loggers.py:280] Engine 000: Avg prompt throughput: 9.1 tokens/s, Avg generation "
              b"throughput: 7.0 tokens/s, Running: %d reqs, Waiting: %d reqs, GPU KV cache usage: 7.1%%, Prefix cache hit rate: 0.0%%\n")

WIDE = b"a line longer than any terminal is wide" * 8 + b"\n"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "LARGE", 0)
    monkeypatch.setattr(ahead, "_CHUNK", 5000)
    monkeypatch.setattr(line_skipper, "READ_WHOLE", 30)


def server_log(seed: int) -> bytes:
    """Lines of some fixtures amid a server's traffic."""
    chance = random.Random(seed)
    lines = [WIDE, WIDE, *(ACCESS % port for port in range(40))]
    for log in chance.sample(LOGS, 3):
        for line in log.read_bytes().splitlines(keepends=True):
            lines += [ACCESS % chance.randrange(9999) for _ in range(chance.randrange(8))]
            lines += [STATISTICS % (chance.randrange(99), chance.randrange(3)) for _ in range(chance.randrange(2))]
            lines.append(line)
    return b"".join(lines)


def fed(path: Path, *, goes_ahead: bool, size: int = 4000) -> Iterator[Diagnosis]:
    """A diagnosis behind each piece of a file, read from where its second line begins."""
    with open(path, "rb") as file:
        file.readline()
        diagnosis = Diagnosis(path=str(path), ahead=Ahead(file) if goes_ahead else None)
        while data := file.read(size):
            diagnosis.feed(data)
            yield diagnosis


def report(path: Path, *, goes_ahead: bool) -> str:
    *_, diagnosis = fed(path, goes_ahead=goes_ahead)
    return render(diagnosis.finish())


def process_of(diagnosis: Diagnosis) -> int:
    found = diagnosis._skimmer._ahead
    assert found is not None
    return found._process if found._pipe else 0


@pytest.mark.parametrize("seed", range(12))
def test_no_report_changes(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(server_log(seed))
    assert report(path, goes_ahead=True) == report(path, goes_ahead=False)


@pytest.fixture(params=["re", "fast"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The search without the extra `fast`, and with it where that is installed."""
    monkeypatch.setenv(line_skipper.ENGINE, request.param)
    for cache in (line_skipper.scanner, line_skipper.mode_of):
        cache.cache_clear()
    yield
    for cache in (line_skipper.scanner, line_skipper.mode_of):
        cache.cache_clear()


@pytest.mark.parametrize("size", [900, 4000, 17000])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.usefixtures("engine")
def test_a_reader_that_waits_searches_a_part_itself(seed: int, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(ahead, "_waits", lambda _: chance.random() < 0.7)
    searched = []
    for scanner in (line_skipper.Scanner, line_skipper.FastScanner):
        telling = scanner.telling
        monkeypatch.setattr(scanner, "telling", lambda *given, telling=telling: searched.append(given[2:]) or telling(*given))
    path = tmp_path / "server.log"
    path.write_bytes(server_log(seed))
    *_, diagnosis = fed(path, goes_ahead=True, size=size)
    assert searched
    assert render(diagnosis.finish()) == report(path, goes_ahead=False)


def test_it_begins_anew_where_the_server_does_not_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[bool] = []
    begin = Ahead._begin
    monkeypatch.setattr(Ahead, "_begin", lambda self, scanner, *given: begun.append(scanner._skips) or begin(self, scanner, *given))
    path = tmp_path / "server.log"
    loading = b"(Worker pid=9) INFO 11-20 11:38:49 [weight_utils.py:1] a shard of %d MB\n"
    path.write_bytes(WIDE * 2 + b"".join(loading % size for size in range(3000)))
    assert report(path, goes_ahead=True) == report(path, goes_ahead=False)
    assert begun == [True, False]


def test_a_traceback_that_the_next_piece_goes_on_with_is_read_in_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = b"".join(b'(APIServer pid=7)   File "/opt/venv/x.py", line %d, in f\n(APIServer pid=7)     f()\n' % line for line in range(20))
    failed = (b"(APIServer pid=7) Traceback (most recent call last):\n" + calls +
              b"(APIServer pid=7) ValueError: 1\n" + ACCESS % 7)
    ready = b"(APIServer pid=7) INFO:     Application startup complete.\n"
    path = tmp_path / "server.log"
    path.write_bytes(WIDE * 2 + ready + ACCESS % 7 * 40 + failed * 200)
    whole = []
    read = line_skipper.Skimmer._traceback
    monkeypatch.setattr(line_skipper.Skimmer, "_traceback", lambda *given: whole.append(read(*given)) or whole[-1])
    text = report(path, goes_ahead=True)
    assert sum(map(bool, whole)) > 160  # without it about a half
    monkeypatch.undo()
    assert text == report(path, goes_ahead=False)


def test_another_process_does_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_waits", lambda _: False)
    path = tmp_path / "server.log"
    path.write_bytes(WIDE * 2 + b"".join(ACCESS % port for port in range(3000)) + STATISTICS % (1, 1) * 100)
    for piece, diagnosis in enumerate(fed(path, goes_ahead=True)):
        if piece == 5:
            assert process_of(diagnosis)
            for scanner in (line_skipper.Scanner, line_skipper.FastScanner):
                monkeypatch.setattr(scanner, "telling", lambda *_: pytest.fail("searched here as well"))
    monkeypatch.undo()
    diagnosis.finish()
    assert diagnosis.runs[-1].load.stats_lines == 100


def test_the_other_process_may_die_at_any_time(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(server_log(1))
    whole = report(path, goes_ahead=False)
    for death in (1, 5, 30):
        killed = 0
        for piece, diagnosis in enumerate(fed(path, goes_ahead=True)):
            if piece >= death and not killed and (killed := process_of(diagnosis)):
                os.kill(killed, signal.SIGKILL)
        assert killed
        assert render(diagnosis.finish()) == whole


def test_a_file_that_grows_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    data = server_log(2)
    path.write_bytes(data[:len(data) // 2])
    with open(path, "ab") as writer:
        for piece, read in enumerate(fed(path, goes_ahead=True)):
            diagnosis = read
            if piece == 3:
                writer.write(data[len(data) // 2:])
                writer.flush()
    assert render(diagnosis.finish()) == report(path, goes_ahead=False)


def test_other_bytes_than_were_searched_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(server_log(3))
    with open(path, "rb") as file:
        diagnosis = Diagnosis(ahead=Ahead(file))
        for piece in range(200):
            diagnosis.feed(b"".join(b"%d other %d\n" % (piece, line) * (line % 5) for line in range(90)))
    read = diagnosis.finish()
    assert read.source.lines == 200 * sum(line % 5 for line in range(90))


def test_a_line_without_an_end_is_left_to_the_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_LONG", 6000)
    path = tmp_path / "server.log"
    path.write_bytes(server_log(4) + b"x" * 30_000 + b"\n" + server_log(5))
    assert report(path, goes_ahead=True) == report(path, goes_ahead=False)


def test_where_most_lines_must_be_read_the_other_process_ends(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(WIDE * 2 + STATISTICS % (1, 1) * 2000)
    for piece, read in enumerate(fed(path, goes_ahead=True)):
        diagnosis = read
        if piece in {5, 60}:
            assert (process_of(diagnosis) != 0) is (piece == 5)
    assert render(diagnosis.finish()) == report(path, goes_ahead=False)


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(server_log(6))
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    *_, diagnosis = fed(path, goes_ahead=True)
    diagnosis.finish()
    assert process_of(diagnosis) == 0
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


def test_it_can_be_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_DOCTOR_JOBS", "1")
    assert not ahead.is_possible()
