"""The start-up timeline in words and rows, for the text report and the HTML page."""

from __future__ import annotations

from typing import NamedTuple

from vllm_doctor.language import ENGLISH, Language
from vllm_doctor.messages import N_, joined, message
from vllm_doctor.timeline import Timeline

_CELLS = 40  # of the longest bar
_WIDTH = 1000  # of the picture, in its units


class TimelineRow(NamedTuple):
    """A phase with its bar: its begin and length as shares of the start, in the picture's units."""

    phase: str
    seconds: str
    printed: str
    x: float
    width: float


def heading(timeline: Timeline, language: Language = ENGLISH) -> str:
    """Return `Start-up timeline: 86 s until the server was ready`."""
    source = (N_("Start-up timeline: {time} until the server was ready") if timeline.is_complete
              else N_("Start-up timeline: {time} until the last step that the log shows"))
    return language.say(source, time=duration(timeline.total_seconds))


def remarks(timeline: Timeline, language: Language = ENGLISH) -> list[str]:
    """Return what the log leaves unexplained, the longest phase and how this release shortens it."""
    texts = []
    if timeline.unexplained_seconds > 0:
        texts.append(language.say("No duration is printed for {time} of it.",
                                  time=duration(timeline.unexplained_seconds)))
    if timeline.dominant:
        longest = message("Longest phase: {phase}.", phase=timeline.dominant)
        texts.append(joined(" ", [longest, *timeline.advice]).translated(language.gettext))
    return texts


def duration(seconds: float) -> str:
    """Return `86 s` or `7.5 s`."""
    return f"{seconds:.1f}".removesuffix(".0") + " s"


def rows(timeline: Timeline) -> list[TimelineRow]:
    """Return the phases with their bars."""
    result, begin = [], 0.0
    total = timeline.total_seconds or 1.0
    for one in timeline.phases:
        printed = "" if one.printed is None else duration(one.printed)
        result.append(TimelineRow(one.phase, duration(one.seconds), printed, round(begin / total * _WIDTH, 2),
                                  round(one.seconds / total * _WIDTH, 2)))
        begin += one.seconds
    return result


def text_rows(timeline: Timeline, language: Language = ENGLISH) -> list[str]:
    """Return the rows of the text report, indented by two."""
    longest = max((one.seconds for one in timeline.phases), default=0.0) or 1.0
    lines = []
    for row, one in zip(rows(timeline), timeline.phases, strict=True):
        bar = "█" * round(one.seconds / longest * _CELLS)
        printed = language.say("({time} printed)", time=row.printed) if row.printed else ""
        lines.append(f"  {row.phase:17} {row.seconds:>9}  {bar} {printed}".rstrip())
    return lines
