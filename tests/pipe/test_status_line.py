"""The status line on a terminal: what a person sees, and that the log stays what it is."""

from __future__ import annotations

import mmap
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from terminal import Terminal

from vllm_doctor.cli.live_reporter import LiveReporter
from vllm_doctor.options import Options
from vllm_doctor.phases import PHASES
from vllm_doctor.pipe.start_progress import StartProgress
from vllm_doctor.pipe.status_line import StatusText
from vllm_doctor.rulebase.loader import builtin

ROOT = Path(__file__).resolve().parents[2]
WATCH = f"{sys.executable} -m vllm_doctor watch"
BANNER = b"INFO 05-06 10:00:00 [api_server.py:1] vLLM API server version 0.8.5\n"
WEIGHTS = b"INFO 05-06 10:00:09 [gpu_model_runner.py:1] Starting to load model m...\n"
BAR = b"\rLoading safetensors checkpoint shards:  45%% Completed | %d/9 [00:01<00:03,  1.0s/it]"
SHORT = b"up\n"
SERVES = b"INFO:     Application startup complete.\n"
READY = "vllm-doctor: Healthy: serving"
DRAWN = b"\r\x1b[K"


@pytest.fixture
def feed(tmp_path: Path):
    """A named pipe: its path for the shell, and a function that opens it for writing once a reader is there."""
    path = tmp_path / "log"
    os.mkfifo(path)
    opened: list[int] = []

    def write(data: bytes) -> None:
        if not opened:
            opened.append(os.open(path, os.O_WRONLY))
        if data:
            os.write(opened[0], data)
        else:
            os.close(opened[0])

    return path, write


@pytest.mark.parametrize("rest", ["", "| cat"])
def test_on_a_terminal_with_the_log_no_line_is_touched(feed, rest) -> None:
    path, write = feed
    terminal = Terminal(f"cat {path} | {WATCH} {rest}")
    write(BANNER)
    terminal.watch(until=b"then the model's configuration")
    write(WEIGHTS)
    terminal.watch(until=b"loading weights \xc2\xb7 0 s \xc2\xb7 then memory profiling")
    write(SHORT)
    terminal.watch(until=b"loading weights \xc2\xb7")
    write(SERVES)
    terminal.watch(until=b"vllm-doctor: Healthy: serving\r\n")
    assert DRAWN + b"loading" not in terminal.watch(1.2)
    write(b"")
    assert terminal.end() == 0
    rows = terminal.rows()
    if rest:  # what cat still holds back may come behind our own line
        rows.remove(READY)
        rows.insert(-1, READY)
    assert rows == [*(BANNER + WEIGHTS + SHORT + SERVES).decode().splitlines(), READY, ""]


def test_a_bar_that_stands_there_is_not_drawn_over(feed) -> None:
    path, write = feed
    terminal = Terminal(f"cat {path} | {WATCH}")
    write(BANNER + WEIGHTS)
    terminal.watch(until=b"loading weights")
    write(BAR % 4)
    terminal.watch(until=b"| 4/9")
    terminal.watch(1.2)
    assert DRAWN not in terminal.raw.rpartition(b"| 4/9")[2]
    write(b"\n")
    terminal.watch(until=b"loading weights 45 %")
    write(b"")
    terminal.end()
    assert terminal.rows()[2:] == [(BAR % 4).decode().strip(), ""]


def test_with_the_log_in_a_file_it_goes_on_through_the_bar(feed, tmp_path) -> None:
    path, write = feed
    terminal = Terminal(f"cat {path} | {WATCH} > {tmp_path}/out")
    write(BANNER + WEIGHTS + BAR % 4)
    terminal.watch(until=b"loading weights 45 %")
    write(b"\n" + SERVES)
    terminal.watch(until=READY.encode())
    write(b"")
    assert terminal.end() == 0
    assert terminal.rows() == [READY, ""]
    assert (tmp_path / "out").read_bytes() == BANNER + WEIGHTS + BAR % 4 + b"\n" + SERVES


def test_run_shows_it_between_both_streams(feed) -> None:
    path, write = feed
    terminal = Terminal(f"{sys.executable} -m vllm_doctor run -- sh -c 'cat {path}; echo bye >&2; exit 3'")
    write(BANNER + WEIGHTS)
    terminal.watch(until=b"loading weights")
    write(b"")
    assert terminal.end() == 3
    assert terminal.rows() == [*(BANNER + WEIGHTS + b"bye").decode().split("\n"), ""]


def test_there_is_none_where_it_is_not_wanted(feed) -> None:
    path, write = feed
    terminal = Terminal(f"cat {path} | {WATCH} -q")
    write(BANNER + WEIGHTS)
    terminal.watch(2.0)
    write(b"")
    terminal.end()
    assert terminal.raw == (BANNER + WEIGHTS).replace(b"\n", b"\r\n")


@pytest.mark.parametrize(("format_", "quiet", "tty", "term", "wanted"), [
    ("text", False, True, "xterm", True),
    ("json", False, True, "xterm", False),
    ("text", True, True, "xterm", False),
    ("text", False, False, "xterm", False),
    ("text", False, True, "dumb", False),
    ("text", False, True, None, False),
])
def test_when_it_is_wanted(monkeypatch, *, format_, quiet, tty, term, wanted) -> None:
    monkeypatch.setattr("sys.stderr", type("Stderr", (), {"isatty": lambda self: tty})())
    monkeypatch.delenv("TERM", raising=False)
    if term:
        monkeypatch.setenv("TERM", term)
    assert LiveReporter(Options(), format_, None, False, {"quiet": quiet}).status_line is wanted


def test_a_job_in_the_background_draws_nothing(feed) -> None:
    path, write = feed
    terminal = Terminal(f"set -m; stty tostop; cat {path} | {WATCH} > {path}.out & sleep 3; kill %1; exit 0")
    write(BANNER + WEIGHTS)
    terminal.end()
    assert b"then memory profiling" not in terminal.raw


def test_while_lines_come_it_is_not_drawn(feed) -> None:
    path, write = feed
    terminal = Terminal(f"cat {path} | {WATCH}")
    write(BANNER)
    terminal.watch(until=b"then the model's configuration")
    for number in range(20):
        write(b"line %d\n" % number)
        terminal.watch(0.08)
    assert DRAWN not in terminal.raw[terminal.raw.index(b"line 0\r\n"):terminal.raw.index(b"line 19\r\n")]
    write(b"")
    terminal.end()


def test_a_terminal_that_is_stopped_holds_up_no_log(feed, tmp_path) -> None:
    path, write = feed
    terminal = Terminal(f"cat {path} | {WATCH} > {tmp_path}/out")
    write(BANNER + WEIGHTS)
    terminal.watch(until=b"loading weights")
    terminal.type(b"\x13")  # Ctrl-S
    time.sleep(0.7)
    lines = b"".join(b"line %d\n" % number for number in range(30_000))
    write(lines)
    end = time.monotonic() + 5
    while (tmp_path / "out").stat().st_size < len(BANNER + WEIGHTS + lines) and time.monotonic() < end:
        time.sleep(0.05)
    assert (tmp_path / "out").read_bytes() == BANNER + WEIGHTS + lines
    terminal.type(b"\x11")
    write(b"")
    terminal.end()


def test_when_the_analyser_is_killed_the_line_is_wiped_off(feed) -> None:
    path, write = feed
    terminal = Terminal(f"cat {path} | {WATCH}")
    write(BANNER + WEIGHTS)
    terminal.watch(until=b"loading weights")
    pump = next(int(pid) for pid in Path(f"/proc/{terminal.process.pid}/task/{terminal.process.pid}/children").read_text().split()
                if b"watch" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(int(Path(f"/proc/{pump}/task/{pump}/children").read_text()), signal.SIGKILL)
    terminal.watch(until=b"signal 9")
    write(SHORT)
    write(b"")
    assert terminal.end() == 2
    rows = terminal.rows()
    assert rows[2].startswith("vllm-doctor: the analyser was killed by signal 9")
    assert rows[3] == "up"
    assert not any("profiling" in row for row in rows)


def test_a_report_takes_the_place_of_the_line(feed) -> None:
    path, write = feed
    terminal = Terminal(f"cat {path} | {WATCH} --stall-after 1")
    write(BANNER + WEIGHTS)
    terminal.watch(until=b"is stalled")
    write(b"")
    terminal.end()
    rows = terminal.rows()
    assert rows[:4] == [BANNER.decode().strip(), WEIGHTS.decode().strip(), "", "--- vllm-doctor " + "-" * 40]
    assert not any("then memory profiling" in row for row in rows)


def test_it_is_never_wider_than_the_terminal(feed) -> None:
    path, write = feed
    terminal = Terminal(f"cat {path} | {WATCH}", columns=20)
    write(BANNER)
    terminal.watch(until=b"\xc2\xb7")
    write(b"")
    terminal.end()
    assert max(len(part.decode()) for part in terminal.raw.split(b"\r\x1b[K")[1:-1]) <= 20  # with its carriage return


def test_a_crash_gets_one_report_at_the_terminal_s_width(feed) -> None:
    path, write = feed
    terminal = Terminal(f"cat {path} | {WATCH} > {path}.out", columns=72)
    lines = (ROOT / "fixtures/logs/fatkv-cpu-space-1.log").read_bytes().splitlines(keepends=True)
    for at in range(0, len(lines), 40):
        write(b"".join(lines[at:at + 40]))
        time.sleep(0.1)
    write(b"")
    assert terminal.end() == 1
    shown = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(terminal.rows()))
    assert shown.count("--- vllm-doctor ") == 1
    log = ROOT / "fixtures/logs/fatkv-cpu-space-1.log"
    whole = subprocess.run([sys.executable, "-m", "vllm_doctor", "diagnose", "--width", "72", log], capture_output=True, text=True, check=False)
    report = [row.replace(log.name, "standard input") for row in whole.stdout.splitlines() if "fatkv" not in row]
    assert [row for row in report[:9] if row not in shown.splitlines()] == []
    assert max(map(len, shown.splitlines())) <= 72


def test_a_flag_that_the_parser_rejects_gets_the_entire_command_of_run(tmp_path) -> None:
    vllm = tmp_path / "vllm"
    vllm.write_text("#!/bin/sh\necho 'usage: vllm serve [model_tag] [options]' >&2\n"
                    "echo 'vllm: error: unrecognized arguments: --max-modle-len 8192' >&2\nexit 2\n", encoding="utf-8")
    vllm.chmod(0o755)
    terminal = Terminal(f"PATH={tmp_path}:$PATH {sys.executable} -m vllm_doctor run -- vllm serve /models/tiny --port 9000 --max-modle-len 8192")
    assert terminal.end() == 2
    shown = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(terminal.rows()))
    assert shown.count("--- vllm-doctor ") == 1
    assert [row.strip() for row in shown.splitlines() if "vllm serve /models" in row or re.match(r" +[+-] +--", row)] == [
        "vllm serve /models/tiny --port 9000 \\", "-   --max-modle-len 8192", "+   --max-model-len 8192"]


def test_the_words_of_a_phase_and_how_far_it_is() -> None:
    progress = StartProgress(builtin().stalls, 100.0)
    assert progress.line(101.5) == "starting vLLM · 1 s · then the model's configuration"
    progress.see(b"", 1, "args", 102.0)
    assert progress.line(104.0) == "starting vLLM · 4 s · then the model's configuration"
    progress.see(b"\rLoading safetensors checkpoint shards:   5% Completed\rLoading safetensors checkpoint shards:  45% Comp", 1, "weights", 110.0)
    assert progress.line(235.0) == "loading weights 45 % · 2 min 05 s · then memory profiling"
    progress.see(b"100% of nothing", 1, "weights", 236.0)
    assert progress.line(237.0) == "loading weights 45 % · 2 min 07 s · then memory profiling"
    progress.see(b"", 2, "weights", 240.0)
    assert progress.line(240.0) == "loading weights · 0 s · then memory profiling"
    progress.see(b"checkpoint shards:  45%", 2, "runtime", 241.0)
    assert progress.line(241.0) == ""


@pytest.mark.parametrize("phase", [phase for phase in PHASES if phase != "runtime"])
def test_every_phase_of_a_start_has_its_words(phase) -> None:
    progress = StartProgress(builtin().stalls, 0.0)
    progress.see(b"", 1, phase, 0.0)
    assert progress.line(3.0).count(" · ") == 2
    assert len(progress.line(3.0)) < 80


def test_words_without_a_listener_wait_for_nobody() -> None:
    read_end, write_end = os.pipe()
    words = StatusText(write_end, mmap.mmap(-1, 1))
    words.show("said")
    os.close(read_end)
    began = time.monotonic()
    words.show("lost")
    words.remove()
    assert time.monotonic() - began < 0.3
    os.close(write_end)
