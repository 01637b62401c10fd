"""vllm-doctor as a user has it: from a wheel, in an environment of its own, compiled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from shutil import rmtree

_TREE = Path(__file__).resolve().parent.parent


def installed(folder: Path) -> Path:
    """Return the command of a fresh installation of this tree, with the extra that makes it fast where there is a wheel of it."""
    place = folder / "venv"
    rmtree(place, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    pip = [str(place / "bin" / "pip"), "install", "-q"]
    if subprocess.run([*pip, f"{_TREE}[fast]"], check=False).returncode:
        subprocess.run([*pip, str(_TREE)], check=True)
    return place / "bin" / "vllm-doctor"
