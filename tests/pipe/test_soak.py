"""The soak itself, for ten seconds: a busy server's log passes whole and in time."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
soak = pytest.importorskip("soak", reason="an installation without the benchmarks")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_ten_seconds_of_a_busy_server() -> None:
    told = soak.soak(10 / 60, 2000, every=0.5)
    assert (told["sha256_equal"], told["status"], told["not_analysed"]) == (True, 0, False)
    assert told["lines"] > 15_000
    assert told["pump"]["peak_mib"] < 60
    assert told["analyser"]["peak_mib"] < 120


def test_the_log_is_the_same_each_time_and_holds_what_a_server_prints() -> None:
    first, second = ("".join(itertools.islice(soak.serving_log(50), 60_000)) for _ in range(2))
    assert first == second
    for text in ("Application startup complete", "Waiting: 0 reqs", "GPU KV cache usage: 9", " 200 OK", "400 Bad Request", "Traceback (most recent"):
        assert text in first
