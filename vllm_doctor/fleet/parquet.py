"""Write the tables of a folder in Parquet: `python -m vllm_doctor.fleet.parquet DIR`."""

from __future__ import annotations

import os
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from vllm_doctor.fleet.model import FindingRow, StartRow
from vllm_doctor.fleet.tables import FINDINGS, STARTS, table_rows

_ROWS = 2000  # of a group
_FLOATS, _INTEGERS = frozenset({"start_seconds", "confidence"}), frozenset({"run", "line", "size"})
_MAPS = frozenset({"phase_seconds", "memory"})


def write(folder: Path) -> None:
    """Write `starts.parquet` and `findings.parquet` from the JSON Lines of a folder."""
    _write(folder, STARTS, StartRow)
    _write(folder, FINDINGS, FindingRow)


def _write(folder: Path, name: str, row_type: type) -> None:
    schema = pa.schema([(column, _type(column)) for column in row_type.__annotations__])
    part = folder / f".{name}.parquet.part"
    rows = table_rows(folder / f"{name}.jsonl")
    with pq.ParquetWriter(part, schema, compression="zstd") as writer:
        while batch := list(islice(rows, _ROWS)):
            for row in batch:
                for column in _MAPS & row.keys():
                    row[column] = None if row[column] is None else list(row[column].items())
            writer.write_table(pa.Table.from_pylist(batch, schema))
    os.replace(part, folder / f"{name}.parquet")


def _type(column: str) -> Any:
    if column in _MAPS:
        return pa.map_(pa.string(), pa.float64())
    if column in _FLOATS:
        return pa.float64()
    return pa.int64() if column in _INTEGERS else pa.string()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
