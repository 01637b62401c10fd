"""Notes on the log itself: missing parts, several server starts, the release, contradictions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from vllm_doctor.diagnosis.run import Run
from vllm_doctor.diagnosis.run_analysis import RunAnalysis
from vllm_doctor.messages import joined, message

_IMPORTED_AGAIN = frozenset({"spawn-main-guard-missing"})
"""Rules of a script that a worker runs again, so that it looks like a second start."""


class InputSummary(NamedTuple):
    """What the reader of the bytes noted and counted."""

    encoding: str
    wrappers: tuple[str, ...]
    long_lines: int
    runs: int
    asked: bool  # a start was asked for by its number
    slow: tuple[str, ...]  # patterns that took too long and were left out
    line_of: Callable[[int], int]  # the number in the input of a line, which may have been read in another order


def notes(analysis: RunAnalysis, summary: InputSummary) -> tuple[str, ...]:
    """Return what every reader of the report must know about the log."""
    run = analysis.run
    texts = []
    imported_again = any(item.rule.id in _IMPORTED_AGAIN for item in analysis.fired)
    if summary.runs > 1 and not summary.asked and not imported_again:
        texts.append(message("The log has {runs} server starts; this report is on number {number}.", runs=summary.runs,
                             number=run.number))
    if run.phase and not run.begun:
        texts.append(message("The beginning of the server start is missing from the log."))
    if run.omissions:
        lines = joined(", ", (str(summary.line_of(line)) for line in run.omissions))
        texts.append(message("Lines are omitted from the log (at line {lines}).", lines=lines))
    if analysis.fired and analysis.frontend is None and analysis.command is not None:
        if analysis.left_out:
            texts.append(message("Not included in the rebuilt command: {left_out}.",
                                 left_out=joined(", ", analysis.left_out)))
        if analysis.differing:
            flags = joined(", ", ("--" + name.replace("_", "-") for name in analysis.differing))
            texts.append(message("The command in the log and the arguments vLLM printed differ ({flags}); the printed "
                                 "ones are used.", flags=flags))
    if summary.long_lines:
        texts.append(message("{long_lines} very long lines were truncated.", long_lines=summary.long_lines))
    if summary.slow:
        texts.append(message("Patterns skipped because they took too long: {slow}.", slow=joined(", ", summary.slow)))
    return tuple(texts)


def input_notes(analysis: RunAnalysis, summary: InputSummary) -> tuple[str, ...]:
    """Return how the input was interpreted, for the -v option."""
    run = analysis.run
    if analysis.releases.known:
        places = run.facts.observations("vllm_version")
        how = message("line {number}", number=summary.line_of(places[-1].line)) if places and places[-1].line \
            else message("the command or --vllm-version")
        release = message("vLLM {value}, from {how}", value=analysis.facts.get("vllm_version"), how=how)
    else:
        release = message("vLLM release not printed; the messages fit {words}",
                          words=analysis.releases_by_wording.words())
    return (
        message("Encoding {encoding}; wrappers: {wrappers}.", encoding=summary.encoding,
                wrappers=joined(", ", summary.wrappers) or message("none")),
        message("{release}.", release=release),
        message("{runs} starts, this is {number}; phase: {phase}.", runs=summary.runs, number=run.number,
                phase=run.phase or message("none")),
        message("Rules with a pattern in the log: {hits}.", hits=joined(", ", sorted(run.hits)) or message("none")),
        *_conflicting_measurements(run, analysis.facts, summary),
    )


def _conflicting_measurements(run: Run, names: Iterable[str], summary: InputSummary) -> list[str]:
    """Return the measured facts that differ between ranks or lines, each with its place."""
    texts: list[str] = []
    for name in names:
        places = run.facts.observations(name)
        if run.facts.merge_of(name) in {"max", "min"} and len({fact.value for fact in places}) > 1:
            values = [(f"{fact.value:g}" if isinstance(fact.value, float) else fact.value, summary.line_of(fact.line))
                      for fact in places[:4]]
            shown = joined(", ", (message("{value} (line {line})", value=value, line=line) for value, line in values))
            texts.append(message("{name} has several values: {shown}; {used} is used.", name=name, shown=shown,
                                 used=run.facts.get(name)))
    return texts
