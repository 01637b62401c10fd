"""What came of the launches, as a table for the terminal and for docs/proof.md."""

from __future__ import annotations

import re
from pathlib import Path

from trial import Outcome, as_typed

OUTCOMES: dict[str, list[Outcome]] = {}  # of this run, by release
PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "proof.md"
HEAD = """# Tried on a real vLLM

Each launch below was started on a real vLLM (CPU build), read live by `vllm-doctor watch` behind a pipe, mended as the first fix says, and
started again: *cured* means that `/health` and a completion then answered 200. `pytest -m real tests/real --write-proof` writes this page.
"""


def text(outcomes: list[Outcome]) -> str:
    """Aligned columns."""
    rows = [(one.launch.id, one.cause or "-", one.fix, _cured(one), f"{one.seconds:.0f} s") for one in outcomes]
    width = [max((len(row[at]) for row in rows), default=0) for at in range(2)]
    lines = [f"{row[0]:{width[0]}}  {row[1]:{width[1]}}  {row[3]:6} {row[4]:>6}  {row[2]}" for row in rows]
    total = sum(one.seconds for one in outcomes)
    return "\n".join([*lines, f"{len(rows)} launches, {total:.0f} s"])


def write(version: str, outcomes: list[Outcome]) -> None:
    """Replace the release's section of the page."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else HEAD
    sections = dict(re.findall(r"^## vLLM (\S+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    sections[version] = _section(outcomes)
    order = sorted(sections, key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    body = "".join(f"\n## vLLM {name}\n{sections[name].rstrip()}\n" for name in order)
    PAGE.write_text(HEAD + body, encoding="utf-8")


def _section(outcomes: list[Outcome]) -> str:
    rows = ["", "| launch | cause | what was done | cured | seconds |", "| --- | --- | --- | --- | --- |"]
    for one in outcomes:
        command = as_typed(one.launch, one.launch.command.replace("{models}", "/models").replace("{port}", "8000"))
        cause = f"[{one.cause}](rules/{one.cause}.md)" if one.cause else "none"
        rows.append(f"| `{_cell(command)}` | {cause} | {_cell(one.fix)} | {_cured(one)} | {one.seconds:.0f} |")
    return "\n".join(rows)


def _cell(value: str) -> str:
    return value.replace("|", "\\|")


def _cured(one: Outcome) -> str:
    return {True: "yes", False: "no", None: "-"}[one.cured]
