"""The offered command works: launches of the catalogue fail on a real vLLM, are read live, are mended as offered, and serve.

Run are as many as fit: of the pairs of release and launch that matrix.py found as expected (results.jsonl), two releases and twelve launches,
others every day (`--rotation N` names the day). The whole matrix is `python tests/real/matrix.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import processor
import pytest
from rotation import Pair
from table import OUTCOMES
from trial import Trial

pytestmark = pytest.mark.real


def test_it_is_diagnosed_and_cured(real: Any, tmp_path: Path, pair: Pair) -> None:
    release, launch, cure = pair
    if launch.cpu_flags and not processor.flags() & set(launch.cpu_flags):
        pytest.skip(f"this processor has none of {', '.join(launch.cpu_flags)}")
    outcome = Trial(release, *real.of(release), launch, tmp_path).run(cure=cure)
    OUTCOMES.setdefault(release.version, []).append(outcome)
    assert outcome.problems == [], outcome.log.read_text(encoding="utf-8", errors="replace")[-4000:]
    assert outcome.cured is (True if cure else None), outcome.why_not
