"""Benchmarks of `diagnose`: long logs compared with ripgrep, memory, hostile input, other kinds of logs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import which

from kit import MB, Kit, in_words
from results import Figure
from timing import interleaved, middle, ratio, run

MEMORY = 60.0  # MB
_CLOCKS = {"wall": "by the clock", "cpu": "CPU time of all cores"}
_RATIOS = {"re": ("default install", 3.0), "hyperscan": ("[fast]", 1.6)}

_SHAPES = {"docker": "docker's JSON lines", "kubectl": "kubectl's timestamps", "compose": "compose's names", "journald": "journald's lines",
           "coloured": "coloured processes", "no-access": "no access lines", "tracebacks": "a traceback for every 50 answers",
           "fillers": "nine in ten lines unknown", "restarts": "a restart every 23 KB"}


def _engines(kit: Kit) -> list[str]:
    found = subprocess.run([kit.python, "-c", "import hyperscan"], capture_output=True, check=False)
    return ["re", "hyperscan"] if found.returncode == 0 else ["re"]


def scan(kit: Kit) -> Iterator[Figure]:
    """Yield the figures of a long log, compared with ripgrep searching for all anchors."""
    size = kit.scaled(1000 * MB)
    yield from _against_rg(kit, kit.log("plain", size), f"diagnose of {in_words(size)}", _RATIOS)


def shapes(kit: Kit) -> Iterator[Figure]:
    """Yield the same figures for other kinds of logs, without a target."""
    for kind, words in _SHAPES.items():
        size = kit.scaled(100 * MB)
        yield from _against_rg(kit, kit.log(kind, size), f"diagnose of {in_words(size)}, {words}", {})


def _against_rg(kit: Kit, log: Path, what: str, targets: Mapping[str, tuple[str, float]]) -> Iterator[Figure]:
    rg = which("rg")
    if rg is None:
        yield Figure(f"{what} against rg", "not measured: there is no rg")
        return
    literals = kit.log("anchors", 0)
    engines = _engines(kit)
    taken = interleaved({
        "rg": lambda: run([rg, "-c", "-a", "-F", "-f", str(literals), str(log)]),
        **{engine: lambda engine=engine: run([str(kit.program), "diagnose", str(log)], engine=engine) for engine in engines},  # type: ignore[misc]  #  - mypy does not infer a lambda's default
    }, kit.rounds)
    for engine, (name, _) in _RATIOS.items():
        target = targets.get(engine, ("", None))[1]
        said = f"<= {target} x" if target else ""
        if engine not in engines:
            yield from (Figure(f"{what}, {name}, against rg, {words}", "not measured: hyperscan is not installed", said)
                        for words in _CLOCKS.values())
            continue
        cost, peer = middle(taken[engine]), middle(taken["rg"])
        for clock, words in _CLOCKS.items():
            times = ratio([getattr(cost, clock) for cost in taken[engine]], [getattr(cost, clock) for cost in taken["rg"]])
            yield Figure(f"{what}, {name}, against rg, {words}",
                         f"{times:.2f} x ({getattr(cost, clock):.2f} / {getattr(peer, clock):.2f} s), {cost.peak:.0f} MB", said,
                         times <= target if target else None)


def memory(kit: Kit) -> Iterator[Figure]:
    """Yield peak memory and CPU time as the log grows; one run each, piped in to save disk space."""
    per_mb: list[float] = []
    for size in map(kit.scaled, (10 * MB, 100 * MB, 1000 * MB, 4000 * MB)):
        cost = run([str(kit.program), "diagnose", "-"], stream=kit.generator("plain", size))
        per_mb.append(cost.cpu / size * MB)
        largest = len(per_mb) == 4
        yield Figure(f"memory for {in_words(size)}", f"{cost.peak:.0f} MB, {cost.cpu:.2f} s CPU, {per_mb[-1] * 1000:.1f} ms/MB",
                     f"<= {MEMORY:.0f} MB" if largest else "", cost.peak <= MEMORY if largest else None)
    growth = per_mb[3] / per_mb[1]
    yield Figure("time grows linearly: per MB, the longest against the second", f"{growth:.2f} x", "<= 1.3 x", growth <= 1.3)


def hostile(kit: Kit) -> Iterator[Figure]:
    """Yield the figures of hostile input that no server writes."""
    for kind, size, words, speed in (
        ("one-line", 200 * MB, "one line of {}", 100),
        ("noise", 200 * MB, "{} of random bytes", 100),
        ("near-misses", MB, "near misses: {} of lines with an anchor and no match", 20),
    ):
        log = kit.log(kind, kit.scaled(size))
        length = log.stat().st_size
        cost = middle(interleaved({kind: lambda log=log: run([str(kit.program), "diagnose", str(log)])}, kit.rounds)[kind])  # type: ignore[misc]  #  - as above
        rate = length / MB / cost.wall
        yield Figure(words.format(in_words(length)),
                     f"{cost.peak:.0f} MB, {rate:.0f} MB/s by the clock, {length / MB / cost.cpu:.0f} MB/s of CPU time",
                     f"<= {MEMORY:.0f} MB, >= {speed} MB/s", cost.peak <= MEMORY and rate >= speed)


def cold(kit: Kit) -> Iterator[Figure]:
    """Yield the figures of a short log, compared with an interpreter that imports click."""
    log = kit.log("plain", 25_000)
    taken = interleaved({
        "click": lambda: run([kit.python, "-c", "import click"]),
        "diagnose": lambda: run([str(kit.program), "diagnose", str(log)]),
    }, kit.rounds * 5)
    ours, theirs = taken["diagnose"], taken["click"]
    cpu = ratio([cost.cpu for cost in ours], [cost.cpu for cost in theirs])
    wall = ratio([cost.wall for cost in ours], [cost.wall for cost in theirs])
    yield Figure('diagnose of a 25 KB log against python -c "import click"',
                 f"{cpu:.2f} x CPU ({middle(ours).cpu * 1000:.0f} / {middle(theirs).cpu * 1000:.0f} ms), {wall:.2f} x wall",
                 "<= 4 x", cpu <= 4)
