"""A fleet run: which files are unchanged, reading the others, the tables, the summary."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from vllm_doctor.errors import InputError
from vllm_doctor.fleet.engines import Engine, local
from vllm_doctor.fleet.labels import compile_label
from vllm_doctor.fleet.model import LogRows, StartRow
from vllm_doctor.fleet.reread_hash import rules_hash
from vllm_doctor.fleet.rows import Reading, source_of
from vllm_doctor.fleet.sources import find
from vllm_doctor.fleet.summary import Summary, baseline_causes
from vllm_doctor.fleet.tables import STARTS, Key, TableWriter, merged, start_rows, stored
from vllm_doctor.options import Options
from vllm_doctor.rulebase.loader import load


class Shard(NamedTuple):
    """One of several parts of the logs, numbered from 1 or from 0: all numbers up to `parts` make the whole."""

    number: int
    parts: int

    def contains(self, url: str) -> bool:
        """Return whether a file belongs to this part; it stays there when other files come."""
        return zlib.crc32(url.encode()) % self.parts == self.number % self.parts


def fleet(targets: Sequence[str], options: Options | None = None, *, out: Path | None = None,
          engine: Engine | None = None, label: str = "", shard: Shard | None = None, baseline: Path | None = None,
          progress: Callable[[int, int], None] = lambda _done, _total: None,
          each: Callable[[StartRow], None] = lambda _: None) -> Summary:
    """Read all logs that paths, globs and URLs name; write their tables to `out`, and return their summary.

    Files that the tables in `out` have already are not read again, unless a rule or an option changed; a run that is
    interrupted keeps what it has read. `progress` gets the number of files read and to read; `each` gets every row, in
    the order of the tables. Raises DoctorError.
    """
    options = options or Options()
    if label:
        compile_label(label)
    known = None if baseline is None else baseline_causes(_tables_in(baseline))
    reading = Reading(options, label, rules_hash(options, label))
    old = {} if out is None else {log.key.source: log.key for log in stored(out, with_findings=False)}
    files, unchanged = {}, set()
    for file in find(targets):
        is_stored = old.get(file.url) == Key.of_file(file.url, file, reading.state)
        name = file.url if is_stored else source_of(file.url)  # masking is most of the work of a run without new logs
        if shard is None or shard.contains(name):
            files[name] = file
            if is_stored or old.get(name) == Key.of_file(name, file, reading.state):
                unchanged.add(name)
    if not files and shard is None:
        raise InputError("no logs found")
    changed = [files[name] for name in sorted(files) if name not in unchanged]
    if changed or options.rules:
        load(options.rules)  # an invalid rule is an error of the user, not of each log
    is_current = bool(files) and not changed and old.keys() == files.keys()
    kept = () if out is None else stored(out, with_findings=not is_current)
    read = (engine or local())(changed, reading) if changed else iter(())
    kept_rows = (log.rows for log in kept if log.key.source in unchanged)
    rows = _in_order(sorted(files), unchanged, kept_rows, read)
    summary, done = Summary(), 0
    with contextlib.nullcontext() if out is None or is_current else TableWriter(out) as writer:
        try:
            for is_new, log in rows:
                _take(log, summary, writer, each, is_new=is_new)
                done += is_new
                if is_new:
                    progress(done, len(changed))
        except KeyboardInterrupt:  # the next run goes on from here
            for log in kept_rows if writer is not None else ():
                _take(log, summary, writer, each, is_new=False)
            if writer is not None:
                writer.commit()
            raise
        if writer is not None:
            writer.commit()
    if known is not None:
        summary.compare(known)
    return summary


def merge(folders: Sequence[Path], *, out: Path | None = None, baseline: Path | None = None,
          each: Callable[[StartRow], None] = lambda _: None) -> Summary:
    """Join the tables of several folders, as those of shards; write them to `out`, and return their summary.

    A log counts as new unless the tables in `out` have it. Raises InputError.
    """
    known = None if baseline is None else baseline_causes(_tables_in(baseline))
    for folder in folders:
        _tables_in(folder)
    old = set() if out is None else {log.key for log in stored(out, with_findings=False)}
    summary = Summary()
    with contextlib.nullcontext() if out is None else TableWriter(out) as writer:
        for log in merged(folders):
            _take(log.rows, summary, writer, each, is_new=log.key not in old)
        if writer is not None:
            writer.commit()
    if known is not None:
        summary.compare(known)
    return summary


def _take(rows: LogRows, summary: Summary, writer: TableWriter | None, each: Callable[[StartRow], None], *,
          is_new: bool) -> None:
    summary.add(rows.starts, is_new=is_new)
    for row in rows.starts:
        each(row)
    if writer is not None:
        writer.write(rows)


def _in_order(names: Iterable[str], unchanged: set[str], kept: Iterator[LogRows], read: Iterator[LogRows],
              ) -> Iterator[tuple[bool, LogRows]]:
    """Yield the rows of all files in the order of their names, each with whether it was read now."""
    for name in names:
        is_new = name not in unchanged
        yield is_new, next(read if is_new else kept)


def _tables_in(folder: Path) -> Iterator[StartRow]:
    """Return the starts in the tables of a folder. Raises InputError if there are none."""
    if not (folder / f"{STARTS}.jsonl").exists():
        raise InputError(f"{folder}: holds no tables of a fleet ({STARTS}.jsonl)")
    return start_rows(folder)
