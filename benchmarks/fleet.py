#!/usr/bin/env python3
"""Measure `vllm-doctor fleet` on many small logs: memory of the parent, CPU per log, the second run.

usage: python benchmarks/fleet.py [--logs N] [--largest BYTES] [--compared N] [--program PATH] [--jobs N] [--output FILE]

The logs are made from the fixtures of this repository, each with a host, a time and a process id of its own. CPU per log
is compared with one long `diagnose` of as many logs (the first --compared of them). The parent's memory does not depend
on the size of the logs: --largest limits it where time is short.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = os.sysconf("SC_PAGE_SIZE")
MB = 10**6
_TIME = re.compile(rb"\d\d-\d\d (\d\d:\d\d:\d\d)")
_PROCESS = re.compile(rb"pid=\d+")


@dataclass(frozen=True, slots=True)
class Run:
    """One command: its seconds, the CPU of all its processes, the peak memory of the first, its last line."""

    seconds: float
    cpu: float
    peak: int
    last_line: str


def main() -> None:
    """Make the logs, run the commands, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=20_000)
    parser.add_argument("--largest", type=int, default=40_000, help="bytes of the largest log (default: 40000)")
    parser.add_argument("--compared", type=int, default=1000, help="logs of the long diagnose (default: 1000)")
    parser.add_argument("--program", default=shutil.which("vllm-doctor"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, help="write the figures to this file as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vllm-doctor-fleet-") as folder:
        lines = list(figures(Path(folder), options))
    text = "| figure | measured | target |\n| --- | --- | --- |\n" + "\n".join(lines) + "\n"
    print(text)
    if options.output:
        options.output.write_text(f"# Many logs\n\nWritten by `python benchmarks/fleet.py`.\n\n{text}", encoding="utf-8")


def figures(folder: Path, options: argparse.Namespace) -> list[str]:
    """Return the rows of the table."""
    logs, out = folder / "logs", folder / "out"
    paths = generate(logs, options.logs, options.largest)
    command = [options.program, "fleet", str(logs), "--out", str(out), "--jobs", str(options.jobs), "--fail-on", "never"]
    first, second = run(command), run(command)
    print(first.last_line, second.last_line, sep="\n", file=sys.stderr)
    few = paths[:options.compared]
    listed = folder / "few"
    listed.mkdir()
    for path in few:
        os.link(path, listed / f"{path.parent.name}-{path.name}")
    long = run([options.program, "diagnose", *sorted(map(str, listed.iterdir())), "--format", "jsonl", "--fail-on", "never"])
    fleet = run([options.program, "fleet", str(listed), "--jobs", str(options.jobs), "--fail-on", "never"])
    size = sum(path.stat().st_size for path in paths)
    return [
        f"| {options.logs:,} logs of {size / options.logs / 1000:.0f} KB: memory of the parent | {first.peak / MB:.0f} MB | <= 150 MB |",
        f"| the same: time with {options.jobs} processes | {first.seconds:.0f} s, {first.cpu / options.logs * 1000:.1f} ms CPU a log | |",
        f"| the second run, nothing new | {second.seconds:.2f} s, {second.peak / MB:.0f} MB | <= 2 s |",
        (f"| CPU of fleet against one diagnose of {len(few):,} logs | {fleet.cpu / long.cpu:.2f} x "
         f"({fleet.cpu:.1f} / {long.cpu:.1f} s) | <= 1.15 x |"),
    ]


def generate(folder: Path, count: int, largest: int) -> list[Path]:
    """Write the logs, 100 to a host, and return their paths."""
    sources = [path.read_bytes() for path in sorted((ROOT / "fixtures" / "logs").rglob("*.log"))
               if path.stat().st_size < largest]
    paths = []
    for number in range(count):
        host = folder / f"host=node{number // 100}"
        host.mkdir(parents=True, exist_ok=True)
        day = b"%02d-%02d" % (1 + number // 28 % 12, 1 + number % 28)
        text = _TIME.sub(day + rb" \1", sources[number % len(sources)])
        paths.append(host / f"{number}.log")
        paths[-1].write_bytes(_PROCESS.sub(b"pid=%d" % (1000 + number), text))
    return paths


def run(command: list[str]) -> Run:
    """Run a command to its end."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with tempfile.TemporaryFile() as output, subprocess.Popen(command, stdout=output) as process:
        peak = [0]
        watcher = threading.Thread(target=_watch, args=(process.pid, peak), daemon=True)
        watcher.start()
        if process.wait():
            raise SystemExit(f"{command[1]} ended with {process.returncode}")
        watcher.join()
        output.seek(0)
        last = output.read().decode().rstrip("\n").rpartition("\n")[2][:200]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Run(time.monotonic() - begun, cpu, peak[0], last)


def _watch(pid: int, peak: list[int]) -> None:
    """Record the peak of the memory of one process: all of it, shared pages too."""
    try:
        while True:
            peak[0] = max(peak[0], int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE)
            time.sleep(0.02)
    except (OSError, IndexError):  # it has ended
        return


if __name__ == "__main__":
    main()
