"""The message that a paste breaks off in: how it goes on, if it is one that a rule knows.

What people paste often ends in the middle of the deciding line. Rules have literals of such messages; where the text
ends with the beginning of one, it is read as if the literal were complete. A text that ends with a whole word may be
another, complete message: it must end within a word, or with an ellipsis.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vllm_doctor.logs.pasted_text import Row
from vllm_doctor.reports.model import Report
from vllm_doctor.rulebase.model import RuleBase

_LEAST = 20  # characters of a literal that the text must end with, of at least four words
_WORDS = 4
_MOST = 4  # ways to go on that are tried; none if there are more
_MARKS = " \t.…`*"  # what stands behind a cut text: an ellipsis, or the marks of a page
_STARTS = (": ", "] ", ", ", ". ")  # what a literal may follow: it begins a message or a sentence
_ELLIPSIS = ("…", "...")


def completed(rows: Sequence[Row], base: RuleBase) -> list[tuple[list[Row], str]]:
    """Return the rows with the last one completed, and the text added to it, for each way in which it may go on."""
    place = next((place for place in reversed(range(len(rows))) if rows[place].text.strip(_MARKS)), None)
    if place is None:
        return []
    shown = rows[place].text
    text = shown.rstrip(_MARKS)
    rests = {rest.rstrip() for rest in _rests(text, _literals(base))
             if shown[len(text):].strip().startswith(_ELLIPSIS) or (text + rest)[len(text) - 1:len(text) + 1].isalnum()}
    rests = {rest for rest in rests if not any(other != rest and other.startswith(rest) for other in rests)}
    if len(rests) > _MOST:
        return []  # the beginning is that of too many messages
    return [([*rows[:place], rows[place]._replace(text=text + rest)], rest) for rest in sorted(rests)]


def _literals(base: RuleBase) -> Iterator[str]:
    """Yield literals that messages of the rules contain."""
    for wording in base.wordings:
        pattern = wording.pattern
        yield pattern.anchor
        yield from pattern.required_literals.sufficient
        for group in pattern.required_literals.required:
            yield from group


def _rests(text: str, literals: Iterable[str]) -> set[str]:
    """Return the missing end of each literal whose beginning ends the text."""
    end = text[-_LEAST:]
    rests = set()
    for literal in literals:
        known = literal.find(end) + _LEAST
        begin = literal[:known]
        if not _LEAST <= known < len(literal) or not text.endswith(begin) or not _is_distinctive(begin):
            continue
        before = text.removesuffix(begin)
        if not before.strip() or before.endswith(_STARTS):
            rests.add(literal[known:])
    return rests


def _is_distinctive(begin: str) -> bool:
    """Return whether the beginning of a literal is enough to know it by: its words behind the exception's class."""
    words = begin.rpartition("Error: ")[2]
    return len(words) >= _LEAST and len(words.split()) >= _WORDS


def has_invented_words(report: Report, rows: Sequence[Row], added: str) -> bool:
    """Return whether a fact lies in the text that was added, or the cause quotes one that ends there."""
    shown = _completed_line(rows, added).removesuffix(added)
    cause = report.cause
    text = "" if cause is None else f"{cause.title}\n{cause.entire_explanation}"
    return any(value.removesuffix(added) not in shown or value in text
               for value in _values_with(report, rows, added))


def without(report: Report, rows: Sequence[Row], added: str) -> Report:
    """Return the report with its evidence, failure and facts as the log has them, without the text that was added."""
    findings = tuple(finding._replace(evidence=tuple(
        one._replace(text=one.text.removesuffix(added)) for one in finding.evidence)) for finding in report.findings)
    failure = report.failure and report.failure._replace(
        message=report.failure.message.removesuffix(added), text=report.failure.text.removesuffix(added))
    shown = {value: value.removesuffix(added) for value in _values_with(report, rows, added)}
    facts = {name: shown.get(value, value) if isinstance(value, str) else value
             for name, value in report.facts.items()}
    facts_at = {name: tuple({**place, "value": facts[name]} if facts[name] != report.facts[name] else place
                            for place in places) for name, places in report.facts_at.items()}
    return report._replace(findings=findings, failure=failure, facts=facts, facts_at=facts_at)


def _values_with(report: Report, rows: Sequence[Row], added: str) -> list[str]:
    """Return the facts that the completed line has, and the line of the log has not."""
    line = _completed_line(rows, added)
    shown = line.removesuffix(added)
    return [value for value in report.facts.values()
            if isinstance(value, str) and value in line and value not in shown]


def _completed_line(rows: Sequence[Row], added: str) -> str:
    return next(row.text for row in reversed(rows) if row.text.endswith(added))
