"""Malformed and extreme inputs through every door: a status that is told, ten seconds of CPU time, never a traceback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nightly import some
from pathological_inputs import CASES, Case, write

ROOT = Path(__file__).resolve().parents[2]
CPU_SECONDS = 10.0


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="pathological-"))
    write(path)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.mark.parametrize("case", some(CASES, 8, lambda case: case.name))
def test_pathological_input(case: Case, folder: Path) -> None:
    shell = f'ulimit -v 3000000\nv() {{ {sys.executable} -m vllm_doctor "$@"; }}\n{case.line}'
    before = os.times()
    began = time.monotonic()
    done = subprocess.run(["timeout", "-k", "2", "60", "bash", "-c", shell], cwd=folder, capture_output=True, check=False, stdin=subprocess.DEVNULL,
                          env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "LOGS": str(folder), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"})
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    out, err = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    assert done.returncode in case.statuses, (done.returncode, err[-500:])
    assert "Traceback (most recent call last)" not in err, err[-1500:]
    assert "internal error" not in out + err
    assert "\x1b[2J" not in out + err
    if done.returncode == 2:
        assert len(err.strip().splitlines()) == 1, err[-500:]
    assert seconds < CPU_SECONDS, (seconds, time.monotonic() - began)
