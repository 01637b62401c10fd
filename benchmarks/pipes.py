"""Benchmarks of `watch` in a pipe, compared with tee: throughput, line latency, and how long a burst blocks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from statistics import median

from kit import MB, Kit
from results import Figure
from timing import environment, interleaved, ratio

_ENDS = str(Path(__file__).with_name("pipe_ends.py"))


@dataclass(frozen=True, slots=True)
class Passed:
    """Measurements at both ends of a pipe. Seconds, except `p50` and `p99` in milliseconds."""

    size: int
    seconds: float  # from the first byte to the last, at the sink
    blocked: float = 0.0  # how long the burst took to be written
    p50: float = 0.0
    p99: float = 0.0
    lines: int = 0  # timed lines that arrived


def _through(middle: Sequence[str], source: Sequence[str]) -> Passed:
    """Run source | middle | sink and wait for all three, so that none disturbs the next round. Raises RuntimeError."""
    first = subprocess.Popen(source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    second = subprocess.Popen(middle, env=environment(), stdin=first.stdout, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    third = subprocess.Popen([sys.executable, _ENDS, "sink"], stdin=second.stdout, stdout=subprocess.PIPE, text=True)
    for process in (first, second):
        if process.stdout:
            process.stdout.close()
    figures = json.loads(third.communicate()[0])
    source_figures = first.stderr.read() if first.stderr else ""
    if first.wait() or second.wait() not in {0, 1}:
        raise RuntimeError(f"{' '.join(middle)} ended with status {second.returncode}; {source_figures}")
    return Passed(**figures, **(json.loads(source_figures) if source_figures else {}))


def pipe(kit: Kit) -> Iterator[Figure]:
    """Yield all figures of the pipe."""
    tee = which("tee")
    if tee is None:
        yield Figure("the pipe against tee", "not measured: there is no tee")
        return
    middles = {"watch": [str(kit.program), "watch"], "tee": [tee, "/dev/null"]}
    log = kit.log("plain", kit.scaled(1000 * MB))
    taken = interleaved({name: lambda middle=middle: _through(middle, ["cat", str(log)]) for name, middle in middles.items()}, kit.rounds)  # type: ignore[misc]  #  - mypy does not infer a lambda's default
    rates = {name: [one.size / MB / one.seconds for one in passed] for name, passed in taken.items()}
    faster = ratio(rates["watch"], rates["tee"])
    yield Figure("pipe throughput against tee /dev/null, analyser on",
                 f"{faster:.2f} x ({median(rates['watch']):.0f} / {median(rates['tee']):.0f} MB/s)", ">= 0.9 x", faster >= 0.9)
    for kind, count in (("near-misses", 525_000), ("plain", 60 * MB)):
        burst = kit.log(kind, kit.scaled(count))
        yield from _burst(kit, middles, burst, kind)


def _burst(kit: Kit, middles: dict[str, list[str]], burst: Path, kind: str) -> Iterator[Figure]:
    """Yield the figures of a burst, followed by timed lines while the analyser catches up."""
    source = [sys.executable, _ENDS, "source", str(burst), str(max(0.2, 4 * kit.scale))]
    taken = interleaved({name: lambda middle=middle: _through(middle, source) for name, middle in middles.items()}, kit.rounds)  # type: ignore[misc]  #  - as above
    ours, theirs = taken["watch"], taken["tee"]
    words = f"a burst of {burst.stat().st_size / MB:.1f} MB ({'near misses' if kind == 'near-misses' else 'an ordinary log'})"
    blocked = ratio([one.blocked for one in ours], [one.blocked for one in theirs])
    yield Figure(f"server blocked by {words}, against tee",
                 f"{blocked:.2f} x ({median(one.blocked for one in ours) * 1000:.0f} / {median(one.blocked for one in theirs) * 1000:.0f} ms)",
                 "<= 1.5 x", blocked <= 1.5)
    p99, tee_p99 = (median(one.p99 for one in passed) for passed in (ours, theirs))
    p50, tee_p50 = (median(one.p50 for one in passed) for passed in (ours, theirs))
    yield Figure(f"p99 latency of a line behind {words}, against tee",
                 f"{p99 - tee_p99:+.2f} ms ({p99:.2f} / {tee_p99:.2f}; median {p50:.2f} / {tee_p50:.2f}; {min(one.lines for one in ours)} lines)",
                 "<= +1 ms", p99 <= tee_p99 + 1)
