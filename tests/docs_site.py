"""The documentation site, built once for all tests of a run."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def built(shared: Path) -> Path:
    """Build the site below `shared`, unless another worker has, and return its folder."""
    site = shared / "site"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not site.exists():
            unfinished = shared / "site.new"
            done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(unfinished)], cwd=ROOT, check=False,
                                  env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=600)
            assert done.returncode == 0, done.stdout + done.stderr
            unfinished.rename(site)
    return site


def shared_folder(base: Path) -> Path:
    """Return the folder that all workers of a run share, given pytest's base folder of this one."""
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
