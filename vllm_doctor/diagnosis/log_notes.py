"""What is said about the reading itself: missing parts, several starts, the release, contradictions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from vllm_doctor.diagnosis.run import Run
from vllm_doctor.diagnosis.run_analysis import Case
from vllm_doctor.patterns import lazy

# A line that stands for lines left out: `...`, `[…]`, `<snip>`, `... 200 lines omitted ...`.
_OMISSION = lazy(
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


class Reading(NamedTuple):
    """What the reader of the bytes recognised and counted."""

    encoding: str
    wrappers: tuple[str, ...]
    long_lines: int
    runs: int
    asked: bool  # a start was asked for by its number
    slow: tuple[str, ...]  # patterns that took too long and were left out


def notes(case: Case, reading: Reading) -> tuple[str, ...]:
    """Return what every reader of the report must know about the log."""
    run = case.run
    said = []
    if reading.runs > 1 and not reading.asked:
        said.append(f"The log holds {reading.runs} starts of the server; this is number {run.number}.")
    if run.phase and not run.begun:
        said.append("The beginning of the start is missing: what was printed before is not known.")
    if run.omissions:
        lines = ", ".join(str(line) for line in run.omissions)
        said.append(f"Lines were left out of the log (at line {lines}).")
    if case.fired and case.command is not None:
        if case.left_out:
            said.append(f"Left out of your command: {', '.join(case.left_out)}.")
        if case.differing:
            flags = ", ".join("--" + name.replace("_", "-") for name in case.differing)
            said.append("The command in the log and the arguments vLLM printed differ "
                        f"({flags}); the printed ones count.")
    if reading.long_lines:
        said.append(f"{reading.long_lines} very long lines were cut.")
    if reading.slow:
        said.append(f"Left out, too slow: {', '.join(reading.slow)}.")
    return tuple(said)


def recognised(case: Case, reading: Reading) -> tuple[str, ...]:
    """Return how the input was interpreted, for the -v option."""
    run = case.run
    if case.releases.known:
        places = run.facts.observations("vllm_version")
        how = f"line {places[-1].line}" if places and places[-1].line else "the command or --vllm-version"
        release = f"vLLM {case.facts.get('vllm_version')}, from {how}"
    else:
        release = f"vLLM not named; the wording fits {case.releases_told.words()}"
    return (
        f"Encoding {reading.encoding}; wrappers: {', '.join(reading.wrappers) or 'none'}.",
        f"{release}.",
        f"{reading.runs} starts, this is {run.number}; phase: {run.phase or 'none'}.",
        f"Rules with a pattern that matches the log: {', '.join(sorted(run.hits)) or 'none'}.",
        *_differing_values(run, case.facts),
    )


def _differing_values(run: Run, names: Iterable[str]) -> list[str]:
    """Return the measured facts that differ between ranks or lines, each with its place."""
    said = []
    for name in names:
        places = run.facts.observations(name)
        if run.facts.merge_of(name) in {"max", "min"} and len({fact.value for fact in places}) > 1:
            shown = ", ".join(f"{fact.value:g} (line {fact.line})" if isinstance(fact.value, float)
                              else f"{fact.value} (line {fact.line})" for fact in places[:4])
            said.append(f"{name} differs between lines: {shown}; {run.facts.get(name)} is used.")
    return said
