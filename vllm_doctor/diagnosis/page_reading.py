"""The reading of a page: which of its lines are read how, and what its report says about that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_doctor.diagnosis import report_builder
from vllm_doctor.diagnosis.log_reading import LogReading
from vllm_doctor.diagnosis.run_analysis import RunAnalysis
from vllm_doctor.diagnosis.second_reading import REJOINED, WEAK, explains_more
from vllm_doctor.logs.pasted_text import Row, rejoined
from vllm_doctor.memory import model_kv_bytes
from vllm_doctor.messages import Message, joined, message
from vllm_doctor.options import Options
from vllm_doctor.pages import Excerpt, Page
from vllm_doctor.pages.line_kinds import is_output
from vllm_doctor.reports.model import Report, Source
from vllm_doctor.reports.texts import failure_title, title_with_ranks
from vllm_doctor.text.patterns import lazy_pattern

_NOTHING = message(
           "The text is a page without output of a server. What it says in its own words, and commands that no output "
           "follows, are no evidence: paste what the server printed.")
_QUOTED = message(
    "The text is a page that quotes this message and holds no log: the numbers are those of the quoted message.")
_LARGEST = 1 << 20  # bytes of a page; tags and scripts take most of them
_HEADS = (b"<", b"{", b"[", b"\xef\xbb\xbf<")
_MOST_STARTS = 8
_EXCEPTION = lazy_pattern(r"\b[A-Z]\w{0,60}(?:Error|Exception):(?: .{0,2000})?$")
_MOST_PLACES = 6


def may_be_large(data: bytes | bytearray) -> bool:
    """Return whether the beginning of an input may be that of a large HTML or JSON document."""
    return len(data) <= _LARGEST and bytes(data[:64]).lstrip().startswith(_HEADS)


def read(page: Page, raw: LogReading) -> tuple[LogReading, Report]:
    """Read the server output that a page holds, and return the reading with the report on it.

    `raw` is the reading of the page as if it were a log; the secrets that it found stay hidden.
    """
    lines = raw.session.lines
    source = Source(raw.path, lines.line_count, lines.byte_count, 1, 1)
    if not page.excerpts:
        quoted = _quoted_message(page, raw, source)
        if quoted is not None:
            return quoted
        reading = _new_reading(page, raw, raw.options._replace(run=None))
        return reading, reading.report()._replace(source=source).with_caveats(_NOTHING)
    reading, report = _best_reading(page, raw)
    if report.cause is None and _names_no_error(report):
        quoted = _quoted_message(page, raw, source)
        if quoted is not None:
            return quoted
    runs, run = reading.run_count, report.source.run
    report = report._replace(source=source._replace(runs=runs, run=run))
    return reading, report.with_caveats(*_caveats(page, [reading.analysis(run) for run in reading.runs], report))


def _names_no_error(report: Report) -> bool:
    """Return whether the output on a page has no error, or no more of it than the calls of a traceback."""
    if report.unexplained is None:
        return report.status == "unknown"
    return report.unexplained.exception is None and report.unexplained.origin is not None


def _new_reading(page: Page, raw: LogReading, options: Options) -> LogReading:
    reading = raw.anew(options, live=True)
    reading.cards = page.cards
    return reading


def _quoted_message(page: Page, raw: LogReading, source: Source) -> tuple[LogReading, Report] | None:
    """Return the reading and the report on a message that a page quotes; None if no rule names its cause."""
    if raw.options.run not in {None, 1}:
        return None
    as_a_log = raw.report()
    if as_a_log.cause is not None and as_a_log.cause.confidence > WEAK:
        return raw, _as_quoted(as_a_log, raw)
    reading = _new_reading(page, raw, raw.options._replace(run=None))
    reading.feed_rows(page.quotes)
    reading.session.finish()
    report = reading.report()._replace(source=source)
    return (reading, _as_quoted(report, raw)) if report.cause is not None and report.cause.confidence > WEAK else None


def _as_quoted(report: Report, raw: LogReading) -> Report:
    """Return the report on a message that a page quotes without any log: a message has no starts and no command."""
    return report._replace(notes=(_QUOTED, *raw.remarks))


def _best_reading(page: Page, raw: LogReading) -> tuple[LogReading, Report]:
    """Return the reading of the excerpts as they are, or the one with joined lines that explains more."""
    best, *others = (_read_excerpts(page, raw, excerpts, note) for excerpts, note in _excerpts(page))
    for other in others:
        if explains_more(other[1], best[1]):
            best = other
    return best


def _read_excerpts(page: Page, raw: LogReading, excerpts: Sequence[Excerpt],
                   note: tuple[str, ...]) -> tuple[LogReading, Report]:
    reading = _new_reading(page, raw, raw.options)
    reading.is_page = True
    for excerpt in excerpts:
        if excerpt.is_new_server:
            reading.session.begin_server()
        reading.feed_rows(excerpt.rows)
    reading.session.finish()
    return reading, reading.report().with_caveats(*note)


def _excerpts(page: Page) -> Iterator[tuple[Sequence[Excerpt], tuple[str, ...]]]:
    """Yield the excerpts to read, with the notes on them: as they are, then with broken lines joined."""
    yield page.excerpts, ()
    seen = [page.excerpts]
    for join in (_with_messages, rejoined):
        excerpts = tuple(Excerpt(tuple(join(one.rows)), one.first_line, one.is_new_server) for one in page.excerpts)
        if excerpts not in seen:
            seen.append(excerpts)
            yield excerpts, (REJOINED,)


def _with_messages(rows: Sequence[Row]) -> list[Row]:
    """Return rows with the message of an exception, broken into lines by hand, joined to one line."""
    result: list[Row] = []
    is_open = False
    for row in rows:
        if is_open and row.text.strip() and not is_output(row.text) and result:
            last = result[-1]
            lines = row.number - last.number + row.lines
            result[-1] = Row(last.number, f"{last.text.rstrip()} {row.text.strip()}", lines)
            continue
        is_open = _EXCEPTION.search(row.text) is not None
        result.append(row)
    return result


def _caveats(page: Page, starts: Sequence[RunAnalysis], report: Report) -> tuple[str, ...]:
    """Return what the report on a page says about what was read of it, and about the other starts on it."""
    places = joined(", ", (str(excerpt.first_line) for excerpt in page.excerpts[:_MOST_PLACES]))
    more = message(" and later") if len(page.excerpts) > _MOST_PLACES else ""
    where = message("its text") if page.is_converted else message("the input")
    read = (message("The text is a page: only the server output in it was read (from line {places}{more} of "
                    "{where}); its own words and commands without output are no evidence.", places=places, more=more,
                    where=where))
    notes = [read]
    others = [start for start in starts if start.run.number != report.source.run and start.run.last_line]
    notes += [message("Start {number} of the page (line {first_line}) is of another run and not used here: "
                      "{outcome}. --run {number} reports on it.", number=start.run.number,
                      first_line=start.run.first_line, outcome=_headline(start, report.source.path))
              for start in others[-_MOST_STARTS:]]
    return (*notes, *_of_another_model(starts, report))


def _headline(start: RunAnalysis, path: str) -> str:
    """Return what a start came to, in one line."""
    report = report_builder.build(start, Source(path, 0, 0, 1, start.run.number))
    if report.cause is not None and report.cause.severity == "error":
        return Message.through(message("{text}", text=title_with_ranks(report.cause)), _without_stop)
    if report.unexplained is not None:
        return failure_title(report.unexplained).rstrip(".")
    return message("a failure whose error is not shown") if report.status == "failed" else message("no failure")


def _without_stop(text: str) -> str:
    return text.rstrip(".。")


def _of_another_model(starts: Sequence[RunAnalysis], report: Report) -> Iterator[str]:
    """Yield the size of the KV cache if the model is the one that the other starts of the page name."""
    tokens = report.facts.get("kv_cache_tokens")
    names = {str(model): start.run.number for start in starts if (model := start.run.facts.get("model"))}
    if not tokens or "model" in report.facts or len(names) != 1:
        return
    name, number = next(iter(names.items()))
    per_token = model_kv_bytes(None, {**report.facts, "model": name})
    if per_token:
        shown = name.rstrip("/").rpartition("/")[2]
        yield (message("If the model is that of start {number} ({shown}), its KV cache of {tokens:,} tokens takes "
                       "{gib:.2f} GiB on each GPU ({per_token:,} bytes per token).", number=number, shown=shown,
                       tokens=tokens, gib=tokens * per_token / 2 ** 30, per_token=per_token))
