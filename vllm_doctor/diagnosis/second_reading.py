"""Read a paste again if the first reading found no cause: broken lines joined, misread characters corrected.

Where that finds none either, the last line is read as if it were complete.

`vllm_doctor.logs.pasted_text` makes the other texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from vllm_doctor.diagnosis import cut_message
from vllm_doctor.diagnosis.log_reading import LogReading
from vllm_doctor.logs.pasted_text import LONGEST, Row, corrected, is_altered, known_words, lookalikes, restored
from vllm_doctor.messages import message
from vllm_doctor.reports.model import Report
from vllm_doctor.rulebase.model import RuleBase
from vllm_doctor.text.patterns import lazy_pattern

REJOINED = message(
    "The text was read a second time: broken lines joined, copy artefacts and typographic characters replaced.")
CORRECTED = message(
             "The text was read a second time with misread characters corrected by their nearest known words: compare "
             "what is reported with the original.")
COMPLETED = message(
    "The text breaks off in a message, which was read as if it were complete: compare the last line with the full log.")
WEAK = 0.5  # the confidence of a rule that names a cause only for want of a better one
_MISREAD = 4  # words with a lookalike in place of a character that make a text with a complete traceback a misread one
_ESCAPES = lazy_pattern(r"\\.|\[[^\]]{0,60}\]|[(){}|?*+^$]")


def read_again(data: bytes, first: LogReading, report: Report) -> Report:
    """Return the report of a second reading if it identifies a failure that the first one did not, else that one.

    Of several such readings, the first that names a cause counts; where none does, the first.
    """
    if len(data) > LONGEST or not _is_wanted(report, data):
        return report
    if first.options.run not in {None, first.telling_run().number}:
        return report
    best: Report | None = None  # of the readings without a cause
    for rows, note in _readings(data, first.base, report):
        found = _read(rows, first)
        if not _is_better(found, report, data, note):
            continue
        better = _presented(found, report, note)
        if better.cause is not None:
            return better
        best = best or better
    return _read_completed(data, first, report) or best or report


def _read_completed(data: bytes, first: LogReading, report: Report) -> Report | None:
    """Return the report on the text with its last line completed, if that says the same however it goes on."""
    found: dict[object, Report] = {}
    for rows, added in cut_message.completed(restored(data), first.base):
        again = _read(rows, first)
        invents = cut_message.has_invented_words(again, rows, added)
        if again.cause is None or invents or not explains_more(again, report):
            return None
        answer = again.cause.id, again.cause.title, again.cause.explanation
        found.setdefault(answer, _presented(cut_message.without(again, rows, added), report, COMPLETED))
    return next(iter(found.values())) if len(found) == 1 else None


def _read(rows: Sequence[Row], first: LogReading) -> Report:
    again = first.anew(first.options._replace(run=None), live=True)
    again.feed_rows(rows)
    again.session.finish()
    return again.report()


def _presented(found: Report, first: Report, note: str) -> Report:
    return found._replace(source=first.source, notes=(*found.notes, note))


def _is_wanted(report: Report, data: bytes) -> bool:
    """Return whether a second reading may help: the report has no cause, or only a fallback."""
    cause = report.cause
    if cause is None:
        return report.status in {"failed", "unknown", "starting"} or is_altered(data)
    return cause.confidence <= WEAK or is_altered(data)


def _is_better(report: Report, first: Report, data: bytes, note: str) -> bool:
    """Return whether the second reading explains more than the first, or withdraws what only misread calls said."""
    cause, before = report.cause, first.cause
    if note == CORRECTED and cause is None and before is not None and before.confidence <= WEAK:
        return report.failure is not None and bool(report.failure.exception)
    if cause is not None:
        return explains_more(report, first) or is_altered(data)
    return before is None and report.failure is not None and bool(report.failure.exception) and (
        first.failure is None or not first.failure.exception)


def explains_more(report: Report, first: Report) -> bool:
    """Return whether a reading of other rows names a cause that the first one did not."""
    cause, before = report.cause, first.cause
    return cause is not None and (before is None or cause.confidence > before.confidence)


def _readings(data: bytes, base: RuleBase, first: Report) -> Iterator[tuple[Sequence[Row], str]]:
    """Yield the rows to read, with the note that says how they were made, the least changed first.

    Words are corrected only where the first reading found no exception with its place, or where several of its words
    differ from known ones as misread ones do: other texts that have both are not misread.
    """
    rows = restored(data)
    if [row.text for row in rows] != data.decode("utf-8", "replace").splitlines():
        yield rows, REJOINED
    has_place = first.failure is not None and bool(first.failure.exception) and first.failure.origin is not None
    corrected_rows = corrected(rows, _vocabulary(base))
    if corrected_rows != rows and (not has_place or lookalikes(rows, corrected_rows) >= _MISREAD):
        yield corrected_rows, CORRECTED


@lru_cache(maxsize=2)
def _vocabulary(base: RuleBase) -> dict[str, str]:
    """Return the words that rules and markers look for."""
    patterns = [marker.pattern for marker in base.markers]
    patterns += [*base.facts, *(wording.pattern for wording in base.wordings)]
    texts = (text for pattern in patterns for text in (pattern.anchor, _ESCAPES.sub(" ", pattern.regex)))
    return known_words((*texts, _COMMON))


_COMMON = """Traceback most recent call last File line ValueError RuntimeError AssertionError TypeError KeyError OSError
AttributeError ImportError ModuleNotFoundError NotImplementedError FileNotFoundError PermissionError IndexError torch
OutOfMemoryError CUDA memory vllm serve model engine error unrecognized arguments argument invalid
choice in is of or to for from with not the be"""
