"""The tables on disk: JSON Lines, sorted by file, and Parquet written from them.

They are read and written row by row, so that no table is ever in memory as a whole.
"""

from __future__ import annotations

import contextlib
import heapq
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from vllm_doctor.errors import InputError, reason
from vllm_doctor.fleet.model import FindingRow, LogFile, LogRows, StartRow

if TYPE_CHECKING:
    from typing_extensions import Self  # in typing from Python 3.11 on

STARTS, FINDINGS = "starts", "findings"
_COLUMNS = {STARTS: StartRow.__annotations__.keys(), FINDINGS: FindingRow.__annotations__.keys()}


class Key(NamedTuple):
    """What tells whether a file must be read again."""

    source: str
    size: int | None
    version: str | None
    rules_hash: str

    @classmethod
    def of_file(cls, source: str, file: LogFile, state: str) -> Key:
        """Return the key of a file as it was listed; `source` is its URL as the tables show it."""
        return cls(source, file.size, file.version, state)

    @classmethod
    def of_row(cls, row: StartRow) -> Key:
        """Return the key of the file that a row was read from."""
        is_retried = row["problem"] is not None  # a network, a permission or a process may work again
        return cls(row["source"], row["size"], None if is_retried else row["version"], row["rules_hash"])


class StoredLog(NamedTuple):
    """The rows of one file in a table that was written before."""

    key: Key
    rows: LogRows


def encode(row: StartRow | FindingRow) -> str:
    """Return a row as one line of JSON."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n"


def start_rows(folder: Path) -> Iterator[StartRow]:
    """Yield the rows of the table of starts; nothing if there is none. Raises InputError."""
    yield from table_rows(folder / f"{STARTS}.jsonl")


def stored(folder: Path, *, with_findings: bool = True) -> Iterator[StoredLog]:
    """Yield the files of the tables in a folder, in their order. Raises InputError."""
    lines: Iterator[FindingRow] = table_rows(folder / f"{FINDINGS}.jsonl") if with_findings else iter(())
    findings = _grouped(lines)
    waiting = next(findings, None)
    for source, starts in _grouped(start_rows(folder)):
        while waiting is not None and waiting[0] < source:
            waiting = next(findings, None)
        own: list[FindingRow] = []
        if waiting is not None and waiting[0] == source:
            own = waiting[1]
        yield StoredLog(Key.of_row(starts[0]), LogRows(starts, own))


def merged(folders: Sequence[Path]) -> Iterator[StoredLog]:
    """Yield the files of several folders in the order of their names; of one in two folders, those of the later."""
    streams = [_numbered(stored(folder), -number) for number, folder in enumerate(folders)]
    last = ""
    for source, _, log in heapq.merge(*streams, key=lambda item: item[:2]):
        if source != last:
            yield log
        last = source


def _numbered(logs: Iterable[StoredLog], number: int) -> Iterator[tuple[str, int, StoredLog]]:
    return ((log.key.source, number, log) for log in logs)


def _grouped(rows: Iterable[Any]) -> Iterator[tuple[str, list[Any]]]:
    for source, group in groupby(rows, key=lambda row: str(row["source"])):
        yield source, list(group)


def table_rows(path: Path) -> Iterator[Any]:
    """Yield the rows of a table; nothing if there is none. Raises InputError."""
    columns = _COLUMNS[path.stem]
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                row = json.loads(line)
                if not isinstance(row, dict) or not columns <= row.keys():
                    raise InputError(f"{path}:{number}: not a row of this table")
                yield row
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {reason(error)}") from error


class TableWriter:
    """Writes the tables beside the old ones, which `commit` replaces; without it they stay as they were."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, IO[str]] = {}

    def __enter__(self) -> Self:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for name in (STARTS, FINDINGS):
                self._files[name] = self._part(name).open("w", encoding="utf-8")
        except OSError as error:
            raise InputError(f"{self._folder}: {reason(error)}") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        for name, file in self._files.items():
            file.close()
            with contextlib.suppress(OSError):
                self._part(name).unlink()

    def write(self, rows: LogRows) -> None:
        """Write the rows of one file. Raises InputError."""
        try:
            self._files[STARTS].writelines(map(encode, rows.starts))
            self._files[FINDINGS].writelines(map(encode, rows.findings))
        except OSError as error:
            raise InputError(f"{self._folder}: {reason(error)}") from error

    def commit(self) -> None:
        """Replace the old tables, and write those in Parquet. Raises InputError."""
        try:
            for name, file in self._files.items():
                file.close()
                os.replace(self._part(name), self._folder / f"{name}.jsonl")
            if has_parquet():
                _write_parquet(self._folder)
        except OSError as error:
            raise InputError(f"{self._folder}: {reason(error)}") from error

    def _part(self, name: str) -> Path:
        return self._folder / f".{name}.jsonl.part"


def has_parquet() -> bool:
    """Return whether tables can be written in Parquet."""
    return importlib.util.find_spec("pyarrow") is not None


def _write_parquet(folder: Path) -> None:
    """Write the tables of a folder in Parquet, in a process of its own, which takes its memory with it."""
    done = subprocess.run([sys.executable, "-m", "vllm_doctor.fleet.parquet", str(folder)], check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode:
        problem = (done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"])[-1]
        raise InputError(f"{folder}: the Parquet tables cannot be written: {problem[:300]}")
