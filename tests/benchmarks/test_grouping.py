"""Failures without a rule: the fixtures of one cause are in one group, and their variants have the same signature."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

GROUPING = Path(__file__).resolve().parents[2] / "benchmarks" / "grouping.py"


@pytest.mark.exhaustive
def test_groups_of_the_fixtures_are_pure_and_no_log_is_split() -> None:
    done = subprocess.run([sys.executable, str(GROUPING), "--variants", "1", "--seed", "test"], capture_output=True, text=True, check=True)
    figures = dict(re.findall(r"^\| (.*?) \| (.*?) \|", done.stdout, re.MULTILINE))
    assert figures["logs split over 1 variants"] == "0"
    assert int(figures["pure among the 20 largest groups"].partition(",")[0]) >= 19
    precision = next(value for name, value in figures.items() if name.startswith("pair precision without"))
    assert float(precision) >= 0.90
