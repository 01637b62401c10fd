"""Install vllm-doctor as users do: from a compiled wheel, in its own environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from shutil import rmtree

_TREE = Path(__file__).resolve().parent.parent


def installed(folder: Path) -> Path:
    """Install this tree, with the `fast` extra if there is a wheel of it, and return its command."""
    place = folder / "venv"
    rmtree(place, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    pip = [str(place / "bin" / "pip"), "install", "-q"]
    if subprocess.run([*pip, f"{_TREE}[fast]"], check=False).returncode:
        subprocess.run([*pip, str(_TREE)], check=True)
    return place / "bin" / "vllm-doctor"
