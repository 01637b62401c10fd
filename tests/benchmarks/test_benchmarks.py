"""The benchmarks at toy size: every figure is taken, and the file says so. What they say of speed means nothing here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

from vllm_doctor.diagnosis.engine import diagnose

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
PROGRAM = Path(sys.executable).parent / "vllm-doctor"
ENGINES = ("default install", "[fast]")
CLOCKS = ("by the clock", "CPU time of all cores")
SHAPES = ("docker's JSON lines", "kubectl's timestamps", "compose's names", "journald's lines", "coloured processes", "no access lines",
          "a traceback for every 50 answers", "nine in ten lines unknown", "a restart every 23 KB")
NAMES = (
    *(f"diagnose of 2 MB, {engine}, against rg, {clock}" for engine in ENGINES for clock in CLOCKS),
    "memory for 0.02 MB", "memory for 0.2 MB", "memory for 2 MB", "memory for 8 MB",
    "time grows linearly: per MB, the longest against the second",
    "one line of 0.4 MB", "0.4 MB of random bytes", "near misses: 0.2 MB of lines with an anchor and no match",
    *(f"diagnose of 0.2 MB, {shape}, {engine}, against rg, {clock}" for shape in SHAPES
      for engine in ENGINES for clock in CLOCKS),
    'diagnose of a 25 KB log against python -c "import click"',
    "pipe throughput against tee /dev/null, analyser on",
    *(text for shape in ("near misses", "an ordinary log") for text in (
        f"server blocked by a burst of 0.1 MB ({shape}), against tee", f"p99 latency of a line behind a burst of 0.1 MB ({shape}), against tee")),
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(BENCHMARKS / "run.py"), *arguments], capture_output=True, text=True, check=False)


def generated(kind: str, size: int) -> bytes:
    return subprocess.run([sys.executable, str(BENCHMARKS / "logs.py"), kind, str(size)], capture_output=True, check=True).stdout


@pytest.fixture(scope="module", params=["scan,memory,hostile,cold,pipe", pytest.param("scan,memory,hostile,shapes,cold,pipe", marks=pytest.mark.exhaustive)])
def figures(request: pytest.FixtureRequest) -> str:
    """The kinds of figures that are taken; that of all shapes of logs is taken like that of one, each night."""
    names: str = request.param
    return names


@pytest.fixture(scope="module")
def results(figures: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    if which("rg") is None:
        pytest.skip("ripgrep, the peer of half of the figures, is not installed")
    if not PROGRAM.exists():
        pytest.skip("the command is not installed beside this interpreter")
    folder = tmp_path_factory.mktemp("benchmarks")
    done = run("--program", str(PROGRAM), "--cache", str(folder / "cache"), "--output", str(folder / "RESULTS.md"), "--scale", "0.002", "--rounds", "1", "--figures", figures)
    assert done.returncode == 0, done.stderr
    return (folder / "RESULTS.md").read_text(encoding="utf-8")


def rows(results: str) -> dict[str, list[str]]:
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in results.partition("## Where")[0].splitlines() if line.startswith("| ")]
    return {name: rest for name, *rest in cells[2:]}


def test_every_figure_is_in_the_table(figures: str, results: str) -> None:
    taken = rows(results)
    names = [name for name in NAMES if "shapes" in figures.split(",") or not any(f", {shape}, " in name for shape in SHAPES)]
    assert [re.sub(r"0\.2\d* MB of lines", "0.2 MB of lines", name) for name in taken] == names
    for measured, target, met in taken.values():
        if measured == "not measured: hyperscan is not installed":
            assert met == ""
            continue
        assert re.match(r"[+-]?\d", measured), measured
        assert met in ({"yes", "**no**"} if target else {""})


def test_a_trial_is_called_one_and_the_hand_written_part_is_kept(results: str) -> None:
    assert "All sizes are 0.002 times those of the targets: no measurement, only a trial." in results
    assert results.endswith((BENCHMARKS / "endurance.md").read_text(encoding="utf-8"))
    assert re.search(r"- commit: ", results)


def test_an_unknown_figure_is_refused() -> None:
    done = run("--figures", "scan,speed")
    assert done.returncode == 2
    assert "no figures are called speed" in done.stderr


@pytest.mark.parametrize("kind", ["plain", "docker", "kubectl", "compose", "journald", "coloured", "no-access", "fillers", "restarts"])
def test_a_generated_log_is_one_of_vllm(kind: str) -> None:
    log = generated(kind, 300_000)
    assert log == generated(kind, 300_000)
    assert 300_000 <= len(log) < 320_000
    report = diagnose(log)
    assert (report.status, report.facts["vllm_version"], report.facts["max_model_len"]) == ("failed", "0.32.0", 8192)
    assert report.primary == "runtime-cuda-oom"


def test_the_lines_of_a_generated_log() -> None:
    lines = generated("plain", 3_000_000).decode().splitlines()[200:]
    calls = sum("starlette" in line or "self.app" in line for line in lines)
    assert calls / len(lines) == pytest.approx(0.04, abs=0.01)
    lines = [line for line in lines if "starlette" not in line and "self.app" not in line]
    share = [sum(text in line for line in lines) / len(lines) for text in ('HTTP/1.1" 200 OK', "Avg prompt throughput")]
    assert share == [pytest.approx(0.9, abs=0.01), pytest.approx(0.03, abs=0.003)]
    assert 90 <= sum(map(len, lines)) / len(lines) <= 130


def test_near_misses_hold_an_anchor_and_nothing_fires() -> None:
    anchors = generated("anchors", 0).decode().splitlines()
    lines = generated("near-misses", 5000).decode().splitlines()
    assert len(lines) == 5000
    assert all(any(anchor in line for anchor in anchors) for line in lines[:300])
    assert diagnose("\n".join(lines).encode()).findings == ()
