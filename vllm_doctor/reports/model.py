"""The report: what every format is written from. All texts in it are redacted already."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from vllm_doctor.memory import Memory
from vllm_doctor.severity import RANK


class Source(NamedTuple):
    """The log: its name, size, the starts of the server in it, and the one the report is about."""

    path: str
    lines: int
    bytes: int
    runs: int
    run: int


class Evidence(NamedTuple):
    """A line of the log."""

    line: int
    text: str


class Unexplained(NamedTuple):
    """The error block shown when no rule knows the cause."""

    line: int
    text: str


_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Fix(NamedTuple):
    """One way out. `flags` holds values as typed ("" for a flag without one); `command` the user's own, corrected."""

    id: str
    title: str
    flags: Mapping[str, str] = _NOTHING
    unset: tuple[str, ...] = ()
    env: Mapping[str, str] = _NOTHING
    action: str | None = None
    steps: tuple[str, ...] = ()
    command: str | None = None
    patch: Mapping[str, str] | None = None
    why: str = ""
    cost: str = ""
    safety: str = "review"
    verify: str = ""
    proof: Mapping[str, Any] = _NOTHING


class Finding(NamedTuple):
    """One rule that fired."""

    id: str
    title: str
    severity: str
    confidence: float
    role: str
    phase: str
    evidence: tuple[Evidence, ...]
    explanation: str
    fixes: tuple[Fix, ...]
    links: tuple[str, ...]
    ranks: str = ""
    recovered: bool = False


class Report(NamedTuple):
    """What a log says: the status of its last (or chosen) run, the facts, the findings, the cause first."""

    source: Source
    status: str
    phase: str | None
    facts: Mapping[str, Any]
    facts_at: Mapping[str, tuple[Mapping[str, Any], ...]]
    derived: Mapping[str, Any]
    memory: Memory | None
    primary: str | None
    unexplained: Unexplained | None
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()  # those of the notes that every format says: settings found, an archive that is cut
    capacity: tuple[str, ...] = ()  # of a server that came up: where its memory went and what it holds, in sentences
    recognised: tuple[str, ...] = ()  # for a person who asks: encoding, wrappers, release, phase

    def with_caveats(self, *notes: str) -> Report:
        """Return the report with more to know about its reading."""
        return self._replace(notes=(*self.notes, *notes), caveats=(*self.caveats, *notes))

    @property
    def cause(self) -> Finding | None:
        """The finding that names the cause, or None."""
        return next((finding for finding in self.findings if finding.id == self.primary), None)

    def worst(self) -> str | None:
        """The severity of the gravest finding, or None when there is none. An unexplained failure is an error."""
        if self.unexplained is not None:
            return "error"
        severities = sorted((finding.severity for finding in self.findings), key=RANK.__getitem__)
        return severities[0] if severities else None
