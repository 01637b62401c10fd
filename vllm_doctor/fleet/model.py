"""The rows of the two tables: plain dictionaries, so that they travel, pickle and load anywhere."""

from __future__ import annotations

from typing import NamedTuple, TypedDict


class StartRow(TypedDict):
    """One start of a server; of a log that cannot be read, only `url`, its labels and `problem`."""

    url: str
    run: int | None
    host: str | None
    service: str | None
    job: str | None
    status: str | None
    phase: str | None
    cause: str | None
    signature: str | None
    severity: str | None
    first_fix: str | None
    vllm_version: str | None
    model: str | None
    gpu_name: str | None
    first_time: str | None
    last_time: str | None
    start_seconds: float | None
    phase_seconds: dict[str, float] | None
    memory: dict[str, float] | None
    problem: str | None
    group: str | None
    title: str | None
    message: str | None
    line: int | None
    note: str | None
    source: str
    size: int | None
    version: str | None
    rules_hash: str


class FindingRow(TypedDict):
    """One finding on a start."""

    url: str
    run: int
    id: str
    title: str
    severity: str
    confidence: float
    role: str
    phase: str
    line: int | None
    evidence: str | None
    first_fix: str | None
    source: str


class LogRows(NamedTuple):
    """The rows of one file: its starts and their findings."""

    starts: list[StartRow]
    findings: list[FindingRow]


class LogFile(NamedTuple):
    """A file to read, as it was listed. `version` changes when its content does: an ETag, or its time of change.

    `problem` says why it could not be listed; then nothing is read.
    """

    url: str
    size: int | None = None
    version: str | None = None
    problem: str | None = None
