"""What came of the launches, for the terminal and for docs/proof.md."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trial import Outcome

from vllm_doctor.rulebase.loader import builtin

_COLOR = re.compile(r"\x1b\[[\d;]*m")  # some releases colour the names of their processes
OUTCOMES: dict[str, list[Outcome]] = {}  # of this run, by release
PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "proof.md"
HEAD = """---
search: {exclude: true}
---

# Tried on a real vLLM

Each launch below was started on a real vLLM (CPU build) and read live by `vllm-doctor watch` behind a pipe. What must come out was
written down before, from what was done to the world (the shard is cut, the port is taken), not from a log; a few labels were put right
after a look at what a launch had really done. *right*: the cause, the
facts and one of the wanted fixes were reported, and no fact contradicted `/version`, `/v1/models` or `/metrics`; *serves*: the release
tolerates the mistake, and nothing was reported; *healthy*: nothing was wrong, and nothing was reported. Where it says *cured*, the
first fix was carried out, and `/health` and a request for what was asked for (tools, an adapter, a completion) then answered 200.

Logs that were read wrongly at first were read once more when rules had been mended, and *right* refers to that reading.
`python tests/real/matrix.py` runs what is missing (it goes on where it stopped), `--write-proof` writes this page. Only what was run is here.
The CPU build of 0.8.5 has only the V0 engine; later releases ran with V1.
"""
SUMMARY = "\n| vLLM | launches | as expected | cured | not cured | not carried out |\n| --- | --- | --- | --- | --- | --- |\n"
TABLE = "| launch | situation | cause | result | what was done | cured | seconds |\n| --- | --- | --- | --- | --- | --- | --- |\n"
NOT_CURED = "| vLLM | launch | what was done | why not |\n| --- | --- | --- | --- |\n"


def text(outcomes: list[Outcome]) -> str:
    """Aligned columns."""
    rows = [(one.launch.id, one.cause or "-", one.fix, _cured(one.cured), f"{one.seconds:.0f} s") for one in outcomes]
    width = [max((len(row[at]) for row in rows), default=0) for at in range(2)]
    lines = [f"{row[0]:{width[0]}}  {row[1]:{width[1]}}  {row[3]:6} {row[4]:>6}  {row[2]}" for row in rows]
    total = sum(one.seconds for one in outcomes)
    return "\n".join([*lines, f"{len(rows)} launches, {total:.0f} s"])


def write(rows: Iterable[dict[str, Any]]) -> None:
    """Write the page from the rows of matrix.py."""
    by_release: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_release.setdefault(row["release"], []).append(row)
    order = sorted(by_release, key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    summary = "".join(_summary(name, by_release[name]) for name in order)
    body = "".join(f"\n## vLLM {name}\n\n{TABLE}" + "".join(map(_row, sorted(by_release[name], key=_by_launch))) for name in order)
    every = [row for name in order for row in sorted(by_release[name], key=_by_launch)]
    PAGE.write_text(HEAD + SUMMARY + summary + body + totals(every), encoding="utf-8")


def totals(rows: list[dict[str, Any]]) -> str:
    """What the rows come to, and every one that is not cured with its reason."""
    failed = [row for row in rows if row["cause"] and not row["served"]]
    tried = [row for row in failed if row["cured"] is not None]
    cured = [row for row in tried if row["cured"]]
    manual = [row for row in failed if row["cured"] is None and row["why_not"]]
    text = (f"\n## In sum\n\n{len(rows)} launches of {len({row['launch'] for row in rows})} kinds on {len({row['release'] for row in rows})} releases; "
            f"{sum(not row['problems'] for row in rows)} came out as expected. {len(failed)} failed with a named cause. "
            f"For {len(tried)} of these the first fix was carried out: {len(cured)} ({100 * len(cured) / max(len(tried), 1):.0f} %) were cured. "
            f"For {len(manual)} nothing on this machine can carry it out (the reason stands in the row); "
            f"for {len(failed) - len(tried) - len(manual)} it was not tried.\n")
    not_cured = [row for row in tried if not row["cured"]]
    if not_cured:
        text += f"\nNot cured:\n\n{NOT_CURED}" + "".join(
            f"| {row['release']} | {row['launch']} | {_cell(row['fix'])} | {_cell(row['why_not'])} |\n" for row in not_cured)
    return text


def _summary(release: str, rows: list[dict[str, Any]]) -> str:
    right = sum(not row["problems"] for row in rows)
    cured, not_cured = (sum(row["cured"] is so for row in rows) for so in (True, False))
    waiting = sum(row["cured"] is None and bool(row["cause"]) and not row["served"] for row in rows)
    return f"| {release} | {len(rows)} | {right} | {cured} | {not_cured} | {waiting} |\n"


def _row(row: dict[str, Any]) -> str:
    cause = _rule_link(row["cause"]) if row["cause"] else "none"
    cells = [row["launch"], _cell(row["world"]), cause, _cell(_result(row)), _cell(row["fix"]), _cell(_cured(row["cured"], row["why_not"])), str(row["seconds"])]
    return f"| {' | '.join(cells)} |\n"


def _rule_link(rule_id: str) -> str:
    """Link the rule file, as GitHub shows it; the documentation site points the link to the page of the failure."""
    rule = builtin().rules.get(rule_id)
    return f"[{rule_id}](../rules/{Path(rule.path).parent.name}/{rule_id}.yaml)" if rule else rule_id


def _result(row: dict[str, Any]) -> str:
    if row["problems"]:
        return "; ".join(problem.partition("\n")[0][:160] for problem in row["problems"])
    if row["served"]:
        return "serves"
    return "right" if row["cause"] else "healthy"


def _by_launch(row: dict[str, Any]) -> str:
    return str(row["launch"])


def _cell(value: str) -> str:
    return _COLOR.sub("", value).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _cured(cured: bool | None, why_not: str = "") -> str:
    return {True: "yes", False: "no", None: "-"}[cured] + (f": {why_not}" if why_not else "")
