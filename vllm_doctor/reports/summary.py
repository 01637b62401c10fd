"""A summary of several logs: which causes, how often, in which logs. Equal causes have equal fingerprints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vllm_doctor.messages import joined
from vllm_doctor.reports import texts
from vllm_doctor.reports.escape import inert_text, one_line
from vllm_doctor.reports.fingerprint import UNEXPLAINED, fingerprint, unexplained_fingerprint
from vllm_doctor.reports.model import Report
from vllm_doctor.severity import RANK
from vllm_doctor.text.terminal_width import wrap

__all__ = ["Group", "groups", "render"]

_NAMES = 8  # logs named for one cause


class Group(NamedTuple):
    """Reports with the same cause. `id` is a rule's, or "" where nothing failed; `words` are the first report's."""

    id: str
    words: str
    severity: str
    reports: tuple[Report, ...]


def groups(reports: Sequence[Report]) -> list[Group]:
    """Return the reports grouped by cause: failures before healthy logs, the most frequent first."""
    found: dict[tuple[str, str], list[Report]] = {}
    for report in reports:
        found.setdefault(_key(report), []).append(report)
    result = [_group(rule_id, tuple(members)) for (rule_id, _), members in found.items()]
    return sorted(result, key=lambda group: (RANK.get(group.severity, 3), -len(group.reports)))


def render(reports: Sequence[Report], width: int = 100) -> str:
    """Return the summary as text: a headline, then each cause with its count and its logs."""
    _, found = reports[0].language.say, groups(reports)
    digits = len(str(max(len(group.reports) for group in found)))
    lines = [_headline(reports), ""]
    for group in found:
        count = f"{len(group.reports):>{digits + 2}} x "
        lines += wrap(one_line(group.words), max(40, width), count, " " * len(count), break_long_words=False)
        if group.id:
            lines.append(" " * len(count) + group.id)
        names = [one_line(texts.log_name(report)) for report in group.reports[:_NAMES]]
        more = len(group.reports) - len(names)
        named = joined(", ", names).translated(reports[0].language.gettext)
        named = _("{names} and {count} more", names=named, count=more) if more else named
        lines += wrap(named, max(40, width), " " * len(count), break_long_words=False)
    return inert_text("\n".join(line.rstrip() for line in lines) + "\n")


def _key(report: Report) -> tuple[str, str]:
    cause = report.cause
    if cause is not None:
        return cause.id, fingerprint(cause)
    if report.unexplained is not None:
        return UNEXPLAINED, unexplained_fingerprint(report)
    return "", report.status


def _group(rule_id: str, members: tuple[Report, ...]) -> Group:
    first = members[0]
    if first.cause is not None:
        return Group(rule_id, texts.title_with_ranks(first.cause, first.language), first.cause.severity, members)
    if first.unexplained is not None:
        return Group(rule_id, texts.failure_title(first.unexplained, first.language), "error", members)
    return Group("", texts.headline(first), "error" if first.status == "failed" else "", members)


def _headline(reports: Sequence[Report]) -> str:
    """Return the headline, such as "7 logs: 5 failed, 2 serving"."""
    logs = len({report.source.path for report in reports})
    _ = reports[0].language.say
    what = _("{count} logs", count=logs)
    if logs != len(reports):
        what = (_("{starts} starts in {count} logs", starts=len(reports), count=logs) if logs > 1
                else _("{starts} starts in 1 log", starts=len(reports)))
    counts: dict[str, int] = {}
    for report in reports:
        counts[report.status] = counts.get(report.status, 0) + 1
    order = ("failed", "stalled", "starting", "stopped", "serving", "unknown")
    return _("{what}: {counts}", what=what, counts=_(", ").join(
        _("{count} {status}", count=counts[status], status=_(status)) for status in order if status in counts))
