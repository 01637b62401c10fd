"""The text report: what failed, why in short sentences, what to run now; see `templates/report.txt`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, ModuleLoader, StrictUndefined
from jinja2.bccache import bc_version

from vllm_doctor.language import Language
from vllm_doctor.messages import N_, joined
from vllm_doctor.reports import command_diff, incident_text, texts, timeline_text
from vllm_doctor.reports.escape import inert_text, one_line
from vllm_doctor.reports.model import Evidence, Failure, Finding, Fix, Report
from vllm_doctor.reports.template_folder import TEMPLATES
from vllm_doctor.text.patterns import lazy_pattern
from vllm_doctor.text.terminal_width import columns, cut, ljust, rjust, wrap

TEMPLATE = "report.txt"
COMPILED = TEMPLATES / f"compiled_{bc_version}"
"""Where a wheel has the template compiled (`hatch_build.py`): compiling it takes a fifteenth of a start."""
_STYLES: Mapping[str, str] = {
    "title": "1", "error": "1;31", "warning": "1;33", "info": "1;36", "healthy": "1;32", "command": "32",
    "+": "32", "-": "31", "dim": "2",
}
_SIGNS: Mapping[str, str] = {"error": "✗", "warning": "!", "info": "·", "healthy": "✓"}
_BARS: Mapping[str, str] = {
    "weights": "█", "activations": "▓", "non_torch": "▒", "cuda_graphs": "▚", "kv_cache": "░",
    "reserved_unallocated": "/", "other_processes": "╳", "runtime": "▞", "free": "·", "outside_budget": "-",
    "unaccounted": "?",
}
_SAFETY = {"safe": N_("same answers"), "review": N_("changes speed, memory, length or accuracy"),
           "manual": N_("done by hand")}
_MOST_BAR = 72  # columns
_BALANCE = 0.05  # GiB by which the parts of a bar may miss the total
_EXCERPT = 7  # lines of a failure that no rule explains
_EVIDENCE_ROWS = 2
_MOST_OTHERS = 3
_MOST_CHANGES = 10
_NO_BREAK = "\u00a0"
_CHAIN = 5  # parts of a chain of wrapped errors
_LONG_PATH = lazy_pattern(r"(?<![^\s'\"(])(?=\S{40})(?:/[^/\s]+)+/(?=[^/\s])")


def render(report: Report, *, width: int = 100, color: bool = False, verbose: bool = False, brief: bool = False,
           timeline: bool = False) -> str:
    """Return the report as text of at most `width` columns; `brief`: the cause and its first fix only.

    `timeline` adds the start-up timeline, as `verbose` does where the log has times.

    Commands are broken between words, never within one.
    """
    page = _Page(report, max(40, width), color=color, verbose=verbose)
    text = environment().get_template(TEMPLATE).render(**page.names(), brief=brief, timeline=timeline)
    lines = [line.rstrip() for line in text.split("\n")]
    blocks = "\n".join(lines)
    while "\n\n\n" in blocks:
        blocks = blocks.replace("\n\n\n", "\n\n")
    return inert_text(blocks.strip("\n") + "\n")


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the environment of the template."""
    loader = ChoiceLoader([ModuleLoader(COMPILED), FileSystemLoader(TEMPLATES)])
    return Environment(loader=loader, autoescape=False, trim_blocks=True, lstrip_blocks=True,  # noqa: S701 - plain text
                       undefined=StrictUndefined)


def compiled() -> str:
    """Return the template as the Python code that `ModuleLoader` reads."""
    source = (TEMPLATES / TEMPLATE).read_text(encoding="utf-8")
    return environment().compile(source, TEMPLATE, raw=True, defer_init=True)


class _Page:
    """What the template shows of one report."""

    def __init__(self, report: Report, width: int, *, color: bool, verbose: bool) -> None:
        self._report = report
        self._width = width
        self._color = color
        self._verbose = verbose
        causes = texts.shown_causes(report)
        explains = report.unexplained is None  # no warning explains a failure
        self._main = causes if verbose else causes[:1] if explains else []
        self._others = [finding for finding in (report.findings if verbose else texts.reported(report))
                        if finding not in self._main]

    def names(self) -> dict[str, Any]:
        """Return everything the template uses."""
        others = self._others
        shown = others if self._verbose else others[:_MOST_OTHERS]
        language = self._report.language
        return {
            "_": language.say, "joined": partial(_joined, language),
            "report": self._report, "main": self._main, "failure": self._report.unexplained, "verbose": self._verbose,
            "also": shown, "more": len(others) - len(shown),
            "notes": texts.notes(self._report), "stall": texts.stall(self._report),
            "headline": self.headline, "head": self.head, "paint": self.paint, "wrap": self.wrap,
            "fix_head": self.fix_head, "change_rows": self.change_rows, "setting_rows": self.setting_rows,
            "evidence": self.evidence, "excerpt": self.excerpt, "memory_rows": self.memory_rows,
            "timeline_rows": self.timeline_rows, "change_list": self.change_list,
            "incident_rows": self.incident_rows, "also_row": self.also_row, "footer": self.footer,
            "proof": partial(texts.proof, self._report),
            "settings": _settings,
            "length_rows": self.length_rows,
            "title_with_ranks": partial(texts.title_with_ranks, language=language),
            "effect": texts.effect, "advice": texts.advice,
            "failure_status": texts.failure_status,
            "failure_place": partial(texts.failure_place, language=language),
        }

    def paint(self, text: str, style: str) -> str:
        """Return the text in a style, each line by itself, where colors are on."""
        if not self._color:
            return text
        return "\n".join(f"\x1b[{_STYLES[style]}m{line}\x1b[0m" if line else line for line in text.split("\n"))

    def wrap(self, text: str, indent: int = 0, hanging: int | None = None) -> str:
        """Return the text broken at the width, each paragraph by itself."""
        later = " " * (indent if hanging is None else hanging)
        return "\n\n".join("\n".join(wrap(block, self._width, " " * indent, later)) for block in text.split("\n\n"))

    def headline(self) -> str:
        """Return the status, in one sentence."""
        finding = self._main[0] if self._main else None
        text = texts.headline(self._report)
        if finding is not None and self._report.status != "stalled":
            return self.head(finding.severity, texts.title_with_ranks(finding, self._report.language))
        return self.head(texts.grade(self._report), text)

    def head(self, severity: str, title: str) -> str:
        """Return a title behind the sign of its severity."""
        lines = wrap(f"{_SIGNS[severity]} {title}", self._width, subsequent="  ")
        sign, _, rest = lines[0].partition(" ")
        first = f"{self.paint(sign, severity)} {self.paint(rest, 'title')}"
        return "\n".join([first, *(self.paint(line, "title") for line in lines[1:])])

    def fix_head(self, number: int, fix: Fix) -> str:
        """Return a fix's title, with its safety at the right; in a row of its own where there is no room."""
        _, safety = self._report.language.say, self._report.language.gettext(fix.safety)
        title = self.wrap(_("Fix {number}  {title}", number=number, title=fix.title), 2, 9)
        taken = columns(title.rsplit("\n", 1)[-1]) + columns(safety)
        gap = min(self._width, 92) - taken
        fits = taken + 2 <= self._width
        space = " " * max(gap, 2) if fits else "\n" + " " * 9
        return self.paint(title, "title") + space + self.paint(safety, "dim")

    def change_rows(self, fix: Fix) -> Iterator[str]:
        """Yield the rows of the corrected command, with what changes marked."""
        if fix.command is None:
            text = fix.patch["text"] if fix.patch else ""
            yield from (self.paint(f"         {line}", "command") for line in text.split("\n") if text)
            if not text:
                yield from self.setting_rows(fix)
            return
        rows = command_diff.rows(self._report.command, fix.command, self._width - 12)
        broken = len(rows) > 1 and "\n" not in fix.command
        kept = [number for number, row in enumerate(rows) if row.mark != "-"] or [0]
        for number, row in enumerate(rows):
            end = " \\" if broken and row.mark != "-" and number != kept[-1] else ""
            indent = "  " if number > kept[0] and broken else ""
            line = f"       {row.mark} {indent}{row.text}{end}"
            yield self.paint(line, row.mark) if row.mark != " " else line

    def setting_rows(self, fix: Fix) -> Iterator[str]:
        """Yield what a fix sets or removes, unless its title says all of it."""
        if fix.program is not None:  # without a command, its steps say what to set
            if fix.program.shown:
                yield self.paint("         " + "  ".join(fix.program.shown), "command")
            return
        changes = texts.settings(fix, self._report.language)
        title = fix.title.lower()
        if any(change.lower() not in title for change in changes):
            yield self.paint("         " + "  ".join(changes), "command")

    def evidence(self, item: Evidence) -> str:
        """Return a line of the log behind its place, on two rows at most; the beginning of the message is kept."""
        place = f"{one_line(texts.file_name(self._report))}:{item.line}"
        rows = self.wrap(f"{place}  {item.text}", 2, 4).split("\n")
        if not self._verbose and len(rows) > _EVIDENCE_ROWS:
            rows = self.wrap(f"{place}  {_condensed(item.text)}", 2, 4).split("\n")
        if not self._verbose and len(rows) > _EVIDENCE_ROWS:
            rows = [*rows[:_EVIDENCE_ROWS - 1], cut(rows[_EVIDENCE_ROWS - 1] + "…", self._width)]
        return "\n".join(rows)

    def excerpt(self, failure: Failure) -> Iterator[str]:
        """Yield the last lines of the failure, the first of them with its place."""
        lines = failure.text.split("\n")
        shown = lines if self._verbose else lines[-_EXCERPT:]
        yield self.paint(f"  {one_line(texts.file_name(self._report))}:{failure.line}", "dim")
        for line in shown:
            room = max(20, self._width - 4)
            yield "    " + (line if self._verbose else cut(line, room))

    def also_row(self, finding: Finding) -> str:
        """Return another finding in a line."""
        line = texts.line_of(finding.evidence[0].line, self._report.language) if finding.evidence else ""
        _ = self._report.language.say
        title = (_("{title} ({id}, {line})", title=finding.title, id=finding.id, line=line) if line
                 else _("{title} ({where})", title=finding.title, where=finding.id))
        return self.wrap(f"{_SIGNS[finding.severity]} {title}", 2, 4)

    def memory_rows(self) -> Iterator[str]:
        """Yield where the memory of a GPU went: a bar if the parts balance with a known total, else the numbers."""
        memory = texts.memory_shown(self._report)
        if memory is None:
            return
        _, language = self._report.language.say, self._report.language
        parts = [part for part in memory.parts if part.gib > 0]
        total = memory.device_gib
        balances = total is not None and abs(sum(part.gib for part in memory.parts) - total) <= _BALANCE
        if total is None or not balances or len(parts) < len(memory.parts):
            numbers = "   ".join(f"{texts.part_label(part.name, language)} {part.gib:.2f}" for part in parts
                                 if part.name != "unaccounted")
            known = _("total {total:.2f}", total=total) if total else _("total not in the log")
            yield self.wrap(_("Memory (GiB)   {parts}   {total}", parts=numbers, total=known), 2, 17)
            return
        yield f"  {texts.memory_title(self._report)}"
        yield f"  [{_bar(parts, total, max(20, min(self._width - 8, _MOST_BAR)))}]"
        for part in parts:
            origin = "" if part.origin == "log" else " " + _(" ({remark})", remark=_(part.origin))
            label = ljust(texts.part_label(part.name, language), 22)
            yield f"  {_mark(part.name)} {label} {part.gib:8.2f} GiB{origin}"
        if memory.note:
            yield self.wrap(memory.note, 2)

    def change_list(self) -> Iterator[str]:
        """Yield what changed against the good log, the change that explains the failure first."""
        changes = self._report.changes
        if changes is None:
            return
        _, good = self._report.language.say, one_line(self._report.against)
        yield "  " + (_("Changed against {good}", good=good) if changes
                      else _("No change against {good} is in the logs", good=good))
        shown = changes if self._verbose else changes[:_MOST_CHANGES]
        for change in shown:
            text = f"{change.what}: {change.good} → {change.bad}"
            if change.explains:
                text = _("{change}, explains the failure", change=text)
            line = self.wrap(f"{'►' if change.explains else '·'} {text}", 4, 6)
            yield self.paint(line, "title") if change.explains else line
        if len(changes) > len(shown):
            yield "    " + _("… and {count} more (-v shows all)", count=len(changes) - len(shown))

    def incident_rows(self) -> Iterator[str]:
        """Yield which log of an incident has the cause, what followed in the others, and which ranks are silent."""
        incident = self._report.incident
        if incident is None:
            return
        for line in incident_text.sentences(incident, self._report.language):
            yield self.wrap(line, 2, 4)

    def timeline_rows(self) -> Iterator[str]:
        """Yield the phases of the start with their seconds; a line that says so if the log has no times."""
        timeline, language = self._report.timeline, self._report.language
        if timeline is None:
            yield "  " + language.say("Start-up timeline: the log shows no phase of the start with its time")
            return
        yield f"  {timeline_text.heading(timeline, language)}"
        yield from timeline_text.text_rows(timeline, language)
        yield from (self.wrap(text, 2) for text in timeline_text.remarks(timeline, language))

    def length_rows(self) -> Iterator[str]:
        """Yield the table of context lengths, in columns."""
        rows = [row if any(row[3:]) else row[:3] for row in texts.length_rows(self._report)]
        if not rows:
            return
        table = [texts.length_heads(self._report)[:len(rows[0])], *rows]
        widths = [max(map(columns, column)) for column in zip(*table, strict=True)]
        if sum(widths) + 3 * len(widths) > self._width:  # without the columns of the FP8 cache
            table, widths = [row[:3] for row in table], widths[:3]
        if sum(widths) + 3 * len(widths) > self._width:
            return
        for row in table:
            cells = (rjust(cell, size) for cell, size in zip(row, widths, strict=True))
            yield "  " + "   ".join(cells)

    def footer(self, brief: bool) -> str:
        """Return the release, the rule and what the safety words of the shown fixes mean."""
        finding = self._main[0] if self._main else None
        _ = self._report.language.say
        parts = [texts.release(self._report)]
        if finding is not None:
            parts += [_("rule {id}", id=finding.id), f"vllm-doctor explain {finding.id}"]
        fixes = finding.fixes if finding else self._report.unexplained.fixes if self._report.unexplained else ()
        shown = dict.fromkeys(fix.safety for fix in (fixes[:1] if brief else fixes))
        legend = _("; ").join(_("{word}: {meaning}", word=_(word), meaning=_(_SAFETY[word]))
                              for word in _SAFETY if word in shown)
        first = " · ".join(part.replace(" ", _NO_BREAK) for part in parts if part)
        lines = [first, legend if self._verbose or len(shown) > 1 else ""]
        return "\n".join(self.wrap(line, 2) for line in lines if line).replace(_NO_BREAK, " ")


def _joined(language: Language, texts: Iterable[str]) -> str:
    return joined(" ", texts).translated(language.gettext)


def _condensed(text: str) -> str:
    """Return the text without what stands before the message itself: folders of long paths, wrapped errors.

    An error of a container runtime is a chain `docker: failed to …: failed to …: reason`; its end is the message.
    """
    parts = text.split(": ")
    if len(parts) > _CHAIN and all(part[:1].islower() for part in parts[2:]):
        return ": ".join([parts[0], "… " + parts[-3], *parts[-2:]])
    return _LONG_PATH.sub("…/", text)


def _mark(name: str) -> str:
    """Return the mark of a part; of several parts that the log shows only together, that of the first."""
    return _BARS[name.partition("_and_")[0]]


def _bar(parts: list[Any], total: float, room: int) -> str:
    cells, reached = "", 0.0
    for part in parts:
        reached += part.gib
        cells += _mark(part.name) * (min(room, round(reached / total * room)) - len(cells))
    return cells.ljust(room)


def _settings(failure: Failure) -> str:
    return joined(", ", (f"{one.flag} {one.value}".strip() for one in failure.settings))
