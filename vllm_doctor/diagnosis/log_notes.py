"""Notes on the log itself: missing parts, several server starts, the release, contradictions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from vllm_doctor.diagnosis.run import Run
from vllm_doctor.diagnosis.run_analysis import RunAnalysis
from vllm_doctor.patterns import lazy_pattern

# A line that stands for lines left out: `...`, `[…]`, `<snip>`, `... 200 lines omitted ...`.
_OMISSION = lazy_pattern(
    r"[\s\[(<.…*-]{0,12}"
    r"(?:\.{3,60}|…|(?:\d+ )?(?:more )?(?:lines? )?(?:snip(?:ped)?|truncated|omitted|skipped|cut)(?: lines?)?)"
    r"[\s\])>.…*-]{0,12}", re.IGNORECASE)
_OMISSION_WIDTH = 60
OMISSION_WORDS = ("...", "…", "snip", "truncated", "omitted", "skipped", "cut")
"""Literals of which every such line holds one."""


def is_omission(text: str) -> bool:
    """Return whether a line represents omitted lines."""
    if len(text) >= _OMISSION_WIDTH:
        return False
    small = text.lower()
    return any(word in small for word in OMISSION_WORDS) and _OMISSION.fullmatch(text) is not None


class InputSummary(NamedTuple):
    """What the reader of the bytes input_notes and counted."""

    encoding: str
    wrappers: tuple[str, ...]
    long_lines: int
    runs: int
    asked: bool  # a start was asked for by its number
    slow: tuple[str, ...]  # patterns that took too long and were left out


def notes(analysis: RunAnalysis, summary: InputSummary) -> tuple[str, ...]:
    """Return what every reader of the report must know about the log."""
    run = analysis.run
    said = []
    if summary.runs > 1 and not summary.asked:
        said.append(f"The log has {summary.runs} server starts; this report is on number {run.number}.")
    if run.phase and not run.begun:
        said.append("The beginning of the server start is missing from the log.")
    if run.omissions:
        lines = ", ".join(str(line) for line in run.omissions)
        said.append(f"Lines are omitted from the log (at line {lines}).")
    if analysis.fired and analysis.frontend is None and analysis.command is not None:
        if analysis.left_out:
            said.append(f"Not included in the rebuilt command: {', '.join(analysis.left_out)}.")
        if analysis.differing:
            flags = ", ".join("--" + name.replace("_", "-") for name in analysis.differing)
            said.append("The command in the log and the arguments vLLM printed differ "
                        f"({flags}); the printed ones are used.")
    if summary.long_lines:
        said.append(f"{summary.long_lines} very long lines were truncated.")
    if summary.slow:
        said.append(f"Patterns skipped because they took too long: {', '.join(summary.slow)}.")
    return tuple(said)


def input_notes(analysis: RunAnalysis, summary: InputSummary) -> tuple[str, ...]:
    """Return how the input was interpreted, for the -v option."""
    run = analysis.run
    if analysis.releases.known:
        places = run.facts.observations("vllm_version")
        how = f"line {places[-1].line}" if places and places[-1].line else "the command or --vllm-version"
        release = f"vLLM {analysis.facts.get('vllm_version')}, from {how}"
    else:
        release = f"vLLM release not printed; the messages fit {analysis.releases_by_wording.words()}"
    return (
        f"Encoding {summary.encoding}; wrappers: {', '.join(summary.wrappers) or 'none'}.",
        f"{release}.",
        f"{summary.runs} starts, this is {run.number}; phase: {run.phase or 'none'}.",
        f"Rules with a pattern in the log: {', '.join(sorted(run.hits)) or 'none'}.",
        *_conflicting_measurements(run, analysis.facts),
    )


def _conflicting_measurements(run: Run, names: Iterable[str]) -> list[str]:
    """Return the measured facts that differ between ranks or lines, each with its place."""
    said = []
    for name in names:
        places = run.facts.observations(name)
        if run.facts.merge_of(name) in {"max", "min"} and len({fact.value for fact in places}) > 1:
            shown = ", ".join(f"{fact.value:g} (line {fact.line})" if isinstance(fact.value, float)
                              else f"{fact.value} (line {fact.line})" for fact in places[:4])
            said.append(f"{name} has several values: {shown}; {run.facts.get(name)} is used.")
    return said
