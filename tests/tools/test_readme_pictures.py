"""The README's pictures: the terminal session shows today's report and loads nothing from elsewhere."""

from __future__ import annotations

import html
import importlib.util
import re
import struct
from pathlib import Path

import pytest

pytest.importorskip("rich", reason="rich is not installed")
ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("readme_pictures", ROOT / "tools" / "readme_pictures.py")
readme_pictures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(readme_pictures)


def test_the_terminal_session_is_current() -> None:
    assert readme_pictures.TERMINAL.read_text(encoding="utf-8") == readme_pictures.terminal_svg(), \
        "run: python tools/readme_pictures.py"


def test_the_terminal_session_shows_the_command_and_the_cause() -> None:
    svg = readme_pictures.TERMINAL.read_text(encoding="utf-8")
    rows = [html.unescape(text).replace("\xa0", " ") for text in re.findall(r"<text [^>]*>([^<]*)</text>", svg)]
    assert "$ vllm-doctor diagnose fixtures/logs/fatkv-cpu-space-1.log" in rows
    assert "CPU KV cache too small for --max-model-len 131072" in "".join(rows)
    assert re.search(r"@font-face|url\((?!#)|@import|href", svg) is None


def test_the_picture_of_the_page_is_small() -> None:
    png = readme_pictures.PAGE.read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", png[16:24]) == tuple(map(int, readme_pictures.PAGE_SIZE.split(",")))
    assert len(png) < 150_000


def test_the_readme_opens_with_them() -> None:
    opening = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## ")[0]
    assert re.findall(r"!\[[^\]]+\]\(([^)]+)\)", opening) == ["docs/assets/terminal.svg", "docs/assets/report.png"]
