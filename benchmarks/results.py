"""Write the figures as a table, and as RESULTS.md with a description of the machine."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
_HEAD = "| figure | measured | target | met |\n| --- | --- | --- | --- |\n"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure. `met` is None without a target, or if nothing could be measured."""

    name: str
    measured: str
    target: str = ""
    met: bool | None = None

    def row(self) -> str:
        """Return the figure's row of the table."""
        answer = {True: "yes", False: "**no**", None: ""}[self.met]
        return f"| {self.name} | {self.measured} | {self.target} | {answer} |"


def table(figures: Iterable[Figure]) -> str:
    """Return the figures as a Markdown table."""
    return _HEAD + "\n".join(figure.row() for figure in figures) + "\n"


def write(path: Path, figures: Sequence[Figure], *, rounds: int, scale: float) -> None:
    """Write RESULTS.md: the figures, the machine, and the hand-written section on endurance."""
    size = "" if scale == 1 else f" All sizes are {scale:g} times those of the targets: no measurement, only a trial.\n"
    path.write_text(f"""\
# Benchmark results

Written by `python benchmarks/run.py`; only the part on endurance is by hand (`endurance.md`).{size}
Each run alternates with the run of its peer; ratios are medians over {rounds} rounds (cold start: 5 times as many). CPU is
user and system time, MB are 10^6 bytes. The logs are made up as `logs.py` says.

{table(figures)}
## Where and when

{_facts()}

{(HERE / "endurance.md").read_text(encoding="utf-8")}""", encoding="utf-8")


def _facts() -> str:
    versions = {"Python": platform.python_version(), "ripgrep": _first_output_line("rg", "--version"), "tee": _first_output_line("tee", "--version")}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return "\n".join((
        f"- commit: {_first_output_line('git', '-C', str(HERE), 'log', '-1', '--format=%h of %cs')}{_changes()}",
        f"- machine: {os.cpu_count()} × {_processor()}, {memory:.0f} GB, {platform.system()} {platform.release()}",
        f"- load: {', '.join(f'{load:.1f}' for load in os.getloadavg())} (over the last 1, 5 and 15 minutes, at the end)",
        f"- versions: {', '.join(f'{name} {version}' for name, version in versions.items())}",
    ))


def _first_output_line(*command: str) -> str:
    """Return the first line that a command prints, without the command's name; a note if there is none."""
    try:
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return "not known"
    return lines[0].removeprefix("ripgrep ").removeprefix("tee ") if lines else "not known"


def _changes() -> str:
    return ", with changes" if _first_output_line("git", "-C", str(HERE.parent), "status", "--porcelain", "-uno") != "not known" else ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
