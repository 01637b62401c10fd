"""Run commands in turns and measure their time and memory."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one run."""

    cpu: float  # seconds, user and system
    wall: float  # seconds
    peak: float  # MB of memory


def environment(engine: str = "re") -> dict[str, str]:
    """Return this process's environment without variables that slow down startup; `engine` is the search engine."""
    kept = {name: value for name, value in os.environ.items()
            if name not in {"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONWARNINGS"}}
    return {**kept, "VLLM_DOCTOR_ENGINE": engine}


def run(command: Sequence[str], *, engine: str = "re", stream: Sequence[str] = ()) -> Cost:
    """Run a command to its end and discard its output; `stream` is a command whose output it reads.

    Raises RuntimeError when it fails; status 1 is no failure: rg found nothing, diagnose found something.
    """
    source = subprocess.Popen(stream, stdout=subprocess.PIPE) if stream else None
    begun = time.perf_counter()
    process = subprocess.Popen(command, env=environment(engine), stdin=source.stdout if source else subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if source and source.stdout:
        source.stdout.close()
        source.wait()
    if process.returncode not in {0, 1}:
        raise RuntimeError(f"{' '.join(command)} ended with status {process.returncode}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024 / 1e6)


def interleaved(measures: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Return the results of each measurement per round; each round runs all measurements in turn."""
    taken: dict[str, list[T]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            taken[name].append(measure())
    return taken


def middle(costs: Sequence[Cost]) -> Cost:
    """Return the median of each number."""
    return Cost(*(median(getattr(cost, name) for cost in costs) for name in ("cpu", "wall", "peak")))


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the per-round ratios."""
    return median(mine / other for mine, other in zip(ours, theirs, strict=True))
