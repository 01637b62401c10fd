"""The offered command works: each launch fails on a real vLLM, is read live, is mended as offered, and serves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import captured
import pytest
from launches import Launch, Release, releases
from table import OUTCOMES
from trial import Outcome, Trial

pytestmark = pytest.mark.real
LAUNCHES = [pytest.param(release, launch, id=f"{release.version}-{launch.id}")
            for release in releases() for launch in release.launches]


def flags_of_processor() -> set[str]:
    """What Linux says the processor can do."""
    return set(Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("flags")[2].partition("\n")[0].split())


@pytest.mark.parametrize(("release", "launch"), LAUNCHES)
def test_it_is_diagnosed_and_cured(real: Any, request: Any, tmp_path: Path, release: Release, launch: Launch) -> None:
    if launch.cpu_flags and not set(launch.cpu_flags) & flags_of_processor():
        pytest.skip(f"this processor has none of {', '.join(launch.cpu_flags)}")
    trial = Trial(release, *real.of(release), launch, tmp_path)
    try:
        outcome = trial.run()
    except AssertionError as error:
        told = str(error).partition("\n")[0]
        OUTCOMES.setdefault(release.version, []).append(Outcome(launch, None, told, cured=False, seconds=0, fixes=[], log=tmp_path))
        raise
    OUTCOMES.setdefault(release.version, []).append(outcome)
    if request.config.getoption("--write-logs", False) and captured.wanted(release, launch.cause):
        captured.write(release, trial, outcome)
    assert outcome.cured or launch.not_cured or not launch.fix
