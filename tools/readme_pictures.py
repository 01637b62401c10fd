#!/usr/bin/env python3
"""Make the README's pictures from the report of its demo log: a terminal session (SVG) and the HTML report (PNG).

The SVG is the same on every machine, and a test compares it with the committed file. The PNG needs Chromium, whose
fonts differ between machines: it is made again with `python tools/readme_pictures.py` when the page changes.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
LOG = "fixtures/logs/fatkv-cpu-space-1.log"
TERMINAL = ROOT / "docs" / "assets" / "terminal.svg"
PAGE = ROOT / "docs" / "assets" / "report.png"
COLUMNS = 100
PAGE_SIZE = "1000,670"  # CSS pixels
_FONT_FACE = re.compile(r"\s*@font-face \{[^}]*\}")  # it loads a font from a network


def terminal_svg() -> str:
    """Return the session as SVG, without fonts from elsewhere."""
    report = _diagnose("--color", "always", "--width", str(COLUMNS - 2))
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    console.print(Text(f"$ vllm-doctor diagnose {LOG}", style="bold"))
    console.print(Text.from_ansi(report), soft_wrap=True)
    svg = console.export_svg(title="vllm-doctor", theme=MONOKAI, unique_id="terminal")
    return _FONT_FACE.sub("", svg).replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")


def page_png(path: Path) -> None:
    """Write a picture of the HTML report's first screen. Raises FileNotFoundError without Chromium."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise FileNotFoundError("chromium is not installed")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        page.write_text(_diagnose("--format", "html"), encoding="utf-8")
        subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                        f"--user-data-dir={folder}/profile", f"--window-size={PAGE_SIZE}", f"--screenshot={path}",
                        page.as_uri()], check=True, capture_output=True, timeout=120)


def _diagnose(*options: str) -> str:
    done = subprocess.run([sys.executable, "-m", "vllm_doctor", "diagnose", LOG, *options], cwd=ROOT, text=True,
                          capture_output=True, check=False)
    if done.returncode != 1:  # 1: the log's failure is found
        raise RuntimeError(done.stderr)
    return done.stdout


def main() -> None:
    """Write both pictures."""
    TERMINAL.write_text(terminal_svg(), encoding="utf-8")
    page_png(PAGE)


if __name__ == "__main__":
    main()
