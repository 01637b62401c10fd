"""The text report for a person: the cause, its evidence, why, the ranked fixes, where the memory went."""

from __future__ import annotations

import re
import textwrap
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader

from vllm_doctor.report.escape import inert_text
from vllm_doctor.report.model import Report

if TYPE_CHECKING:
    from vllm_doctor.memory import Memory

_STYLES = {
    "title": "1",
    "error": "1;31",
    "warning": "1;33",
    "info": "1;36",
    "command": "32",
    "dim": "2",
}
_BAR = {"weights": "█", "activations": "▓", "non_torch": "▒", "cuda_graphs": "▚", "kv_cache": "░",
        "other_processes": "╳", "free": "·", "outside_budget": "·", "unaccounted": "?"}
_ESCAPE = re.compile(r"\x1b\[[\d;]*m")


class _Paint:
    """Wraps and colours; colours only when asked."""

    def __init__(self, width: int, color: bool) -> None:
        self.width = width
        self.color = color

    def style(self, text: str, name: str) -> str:
        """`text` in a style, where colours are on."""
        return f"\x1b[{_STYLES[name]}m{text}\x1b[0m" if self.color and text else text

    def wrap(self, text: str, indent: int = 0, hang: int | None = None) -> str:
        """`text` broken at the width, every paragraph on its own."""
        later = " " * (indent if hang is None else hang)
        blocks = [
            "\n".join(textwrap.wrap(block, self.width, initial_indent=" " * indent, subsequent_indent=later,
                                    break_long_words=True, break_on_hyphens=False))
            for block in text.split("\n\n")
        ]
        return "\n\n".join(blocks)

    def head(self, severity: str, title: str) -> str:
        """The severity in its colour and the title, wrapped."""
        lines = textwrap.wrap(f"{severity}: {title}", self.width, subsequent_indent="  ", break_long_words=False)
        first = self.style(severity, severity) + ": " + self.style(lines[0][len(severity) + 2:], "title")
        return "\n".join([first, *(self.style(line, "title") for line in lines[1:])])

    def clip(self, text: str, indent: int = 0) -> str:
        """`text` on one line, cut at the width."""
        room = max(20, self.width - indent)
        return text if len(text) <= room else text[: room - 1] + "…"

    def bar(self, memory: Memory) -> str:
        """The memory of one GPU as a bar, each part in its own pattern."""
        total = memory.device_gib or sum(max(part.gib, 0) for part in memory.parts)
        if not total:
            return ""
        room = max(20, min(self.width - 8, 72))
        cells, drawn, reached = "", 0, 0.0
        for part in memory.parts:
            reached += max(part.gib, 0)
            upto = min(room, round(reached / total * room))
            cells += _BAR.get(part.name, "?") * (upto - drawn)
            drawn = max(drawn, upto)
        return "[" + cells.ljust(room) + "]"


@lru_cache(maxsize=1)
def _environment() -> Environment:
    folder = Path(__file__).resolve().parent / "templates"
    made = Environment(loader=FileSystemLoader(folder), trim_blocks=True, lstrip_blocks=True, autoescape=False,  # noqa: S701 - plain text
                       keep_trailing_newline=True)
    made.filters["mark"] = lambda name: _BAR.get(name, "?")
    return made


def render(report: Report, *, width: int = 100, color: bool = False, verbose: bool = False,
           brief: bool = False, max_findings: int = 3) -> str:
    """The report as text of at most `width` columns (commands are never broken); `brief`: the cause, its first fix."""
    paint = _Paint(max(40, width), color)
    causes = [finding for finding in report.findings if finding.role == "cause" and not finding.recovered]
    main = causes if verbose else causes[:1]
    others = [finding for finding in report.findings if finding not in main]
    text = _environment().get_template("report.txt").render(
        report=report, paint=paint, main=main, others=others if verbose else others[:max_findings],
        hidden=0 if verbose else max(0, len(others) - max_findings), verbose=verbose, brief=brief)
    lines = (line.rstrip() for line in text.split("\n"))
    return inert_text(re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n") + "\n")
