"""The text report for a person: the cause, its evidence, why, the ranked fixes, where the memory went."""

from __future__ import annotations

import textwrap

from vllm_doctor.memory import Memory
from vllm_doctor.patterns import lazy
from vllm_doctor.reports.escape import inert_text
from vllm_doctor.reports.model import Finding, Fix, Report
from vllm_doctor.reports.shared_text import memory_shown, memory_title, said, shown_causes

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
_ESCAPE = lazy(r"\x1b\[[\d;]*m")


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


def render(report: Report, *, width: int = 100, color: bool = False, verbose: bool = False,
           brief: bool = False, max_findings: int = 3) -> str:
    """The report as text of at most `width` columns (commands are never broken); `brief`: the cause, its first fix."""
    paint = _Paint(max(40, width), color)
    causes = shown_causes(report)
    main = causes if verbose else causes[:1] if report.unexplained is None else []  # no warning explains a failure
    others = [finding for finding in report.findings if finding not in main]
    blocks = [paint.wrap(f"The start stands still: {report.notes[0]}")] if report.status == "stalled" else []
    blocks += _failure(report, paint) if report.unexplained or not main else ()
    for finding in main:
        blocks += _finding(finding, paint, verbose=verbose, brief=brief)
    if not brief:
        blocks += [_memory(report, paint), paint.wrap(" ".join(report.capacity)),
                   _others(others if verbose else others[:max_findings], len(others), paint)]
    if verbose:
        seen = (paint.wrap(f"- {line}", 2, 4) for line in report.recognised)
        blocks.append("\n".join(["What was recognised", *seen]))
    if not brief:
        blocks.append("\n".join(paint.style(paint.wrap(note), "dim") for note in report.notes))
    text = "\n".join(line.rstrip() for line in "\n\n".join(blocks).split("\n"))
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return inert_text(text.strip("\n") + "\n")


def _finding(finding: Finding, paint: _Paint, *, verbose: bool, brief: bool) -> list[str]:
    """A cause: its title, the lines that say it, why, what to change."""
    recovered = ", the server went on all the same" if finding.recovered else ""
    blocks = [
        paint.head(finding.severity, said(finding)) + "\n"
        + paint.style(f"  {finding.id}, phase {finding.phase}{recovered}", "dim"),
        "\n".join(paint.wrap(f"line {item.line}: {item.text}", 2, 4) for item in finding.evidence),
        paint.wrap(finding.explanation),
    ]
    if finding.fixes:
        fixes = [_fix(fix, number, paint, verbose=verbose) for number, fix in enumerate(finding.fixes, 1)]
        blocks += [f"What to change\n{fixes[0]}"] if brief else [f"What to change, best first\n{fixes[0]}", *fixes[1:]]
        if finding.fixes[0].verify:
            blocks.append(paint.wrap(f"To verify: {finding.fixes[0].verify}"))
    if verbose:
        blocks.append("\n".join(f"  {paint.style(link, 'dim')}" for link in finding.links))
    return blocks


def _fix(fix: Fix, number: int, paint: _Paint, *, verbose: bool) -> str:
    safety = "" if fix.safety == "safe" else f" [{fix.safety}]"
    lines = [paint.wrap(f"{number}. {fix.title}{safety}", 2, 5)]
    lines += [f"     {paint.style(line, 'command')}" for line in _change(fix)]
    lines += [paint.wrap(f"- {step}", 5, 7) for step in fix.steps]
    if fix.why:
        lines.append(paint.wrap(fix.why, 5))
    if fix.cost:
        lines.append(paint.wrap(f"Cost: {fix.cost}", 5))
    if verbose and fix.proof:
        lines.append(paint.wrap("From: " + ", ".join(f"{name} = {value}" for name, value in fix.proof.items()), 5))
    return "\n".join(lines)


def _change(fix: Fix) -> list[str]:
    """What to run or to set, a line each."""
    if fix.command:
        return fix.command.split("\n")
    if fix.patch:
        return fix.patch["text"].split("\n")
    lines = [f"{name}={value}" for name, value in fix.env.items()]
    lines += [f"{name} {value}".strip() for name, value in fix.flags.items()]
    return lines + [f"without {name}" for name in fix.unset]


def _failure(report: Report, paint: _Paint) -> list[str]:
    """Where no rule tells the cause: the first error, or how the server stands."""
    if report.unexplained:
        first = report.unexplained
        title = paint.style("The server failed, and no rule knows the cause.", "title")
        lines = [paint.style(f"line {first.line}:", "dim")]
        lines += [f"  {paint.clip(line, 4)}" for line in first.text.split("\n")[-7:]]
        return [f"{title} The first error of this run:", "\n".join(f"  {line}" for line in lines),
                paint.wrap("If this is not the beginning of the log, paste the part from the start of the server up to "
                           "the first traceback: the cause stands above the last lines. A log that no rule knows is "
                           "worth an issue, with its vLLM release and command.")]
    if report.status == "failed":
        return [paint.style("The server failed, and the cause is not in this log.", "title"),
                paint.wrap("What is here is the aftermath. Paste the log from the start of the server up to the first "
                           "traceback; with several GPUs or nodes, the log of each worker.")]
    if report.status == "stalled":
        return []
    if report.status == "unknown":
        return [paint.style("Nothing of vLLM was recognised in this log.", "title")]
    phase = f" (phase {report.phase})" if report.phase and report.status == "starting" else ""
    return [f"{paint.style('No failure found', 'title')}: the server is {report.status}{phase}."]


def _memory(report: Report, paint: _Paint) -> str:
    """Where the memory of a GPU went."""
    memory = memory_shown(report)
    if memory is None:
        return ""
    lines = [memory_title(report), f"  {paint.bar(memory)}"]
    for part in memory.parts:
        origin = "" if part.origin == "log" else f"  ({part.origin})"
        lines.append(f"  {_BAR.get(part.name, '?')} {part.name.replace('_', ' '):16} {part.gib:8.2f} GiB{origin}")
    if memory.note:
        lines.append(paint.wrap(memory.note, 2))
    return "\n".join(lines)


def _others(shown: list[Finding], count: int, paint: _Paint) -> str:
    """What else was found, in a line each."""
    if not shown:
        return ""
    lines = ["Also seen"]
    lines += [paint.wrap(f"- {finding.severity}, line {finding.evidence[0].line}: {finding.title} ({finding.id})", 2, 4)
              for finding in shown]
    if count > len(shown):
        lines.append(f"  … and {count - len(shown)} more (-v shows all)")
    return "\n".join(lines)
