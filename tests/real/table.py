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

TABLE = "| launch | command | cause | what was done | cured | seconds |\n| --- | --- | --- | --- | --- | --- |\n"
_SECTION = re.compile(r"^## vLLM (\S+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| (?!launch|---)(\S+) \| (.+)$", re.MULTILINE)


def text(outcomes: list[Outcome]) -> str:
    """Aligned columns."""
    rows = [(one.launch.id, one.cause or "-", one.fix, _cured(one), f"{one.seconds:.0f} s") for one in outcomes]
    width = [max((len(row[at]) for row in rows), default=0) for at in range(2)]
    lines = [f"{row[0]:{width[0]}}  {row[1]:{width[1]}}  {row[3]:6} {row[4]:>6}  {row[2]}" for row in rows]
    total = sum(one.seconds for one in outcomes)
    return "\n".join([*lines, f"{len(rows)} launches, {total:.0f} s"])


def write(version: str, outcomes: list[Outcome]) -> None:
    """Put these launches into the release's section of the page; rows of launches that were not run stay."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else HEAD
    sections = {name: dict(_ROW.findall(rows)) for name, rows in _SECTION.findall(page)}
    sections.setdefault(version, {}).update(_row(one) for one in outcomes)
    order = sorted(sections, key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    body = "".join(f"\n## vLLM {name}\n\n{TABLE}" + "".join(f"| {key} | {rest}\n" for key, rest in sections[name].items())
                   for name in order)
    PAGE.write_text(HEAD + body, encoding="utf-8")


def _row(one: Outcome) -> tuple[str, str]:
    """The launch's name, and the other cells."""
    launch = one.launch
    command = "; ".join(filter(None, (launch.before, as_typed(launch, launch.command))))
    command = command.replace("{models}", "/models").replace("{port}", "8000").replace("{folder}", "/srv")
    then = f", then {launch.do}" if launch.do else ", with the port taken" if launch.occupied else ""
    cause = f"[{one.cause}](rules/{one.cause}.md)" if one.cause else "none"
    return launch.id, f"`{_cell(command)}`{then} | {cause} | {_cell(one.fix)} | {_cured(one)} | {one.seconds:.0f} |"


def _cell(value: str) -> str:
    return value.replace("|", "\\|")


def _cured(one: Outcome) -> str:
    return {True: "yes", False: "no", None: "-"}[one.cured]
