"""Rows -> the causes of a fleet: each with its logs, hosts, services, releases and times.

Memory grows with the causes and hosts, not with the logs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from vllm_doctor.fleet.model import StartRow
from vllm_doctor.messages import N_, Message, message
from vllm_doctor.severity import RANK
from vllm_doctor.text.times import seconds_between

SAMPLES = 8  # logs named for a group
_LEAST_FAILURES = 3  # of a host with more than its share
_DEVIATIONS = 3.0  # standard deviations above what the fleet lets expect


@dataclass
class Group:
    """The starts with one cause: a rule's id, or the signature of failures that no rule explains."""

    id: str
    title: str  # of the first start
    severity: str
    is_explained: bool
    has_other_titles: bool = False  # of starts with other values
    first_fix: str | None = None
    starts: int = 0
    logs: int = 0
    hosts: Counter[str] = field(default_factory=Counter)
    services: Counter[str] = field(default_factory=Counter)
    releases: Counter[str] = field(default_factory=Counter)
    first_seen: str = ""
    last_seen: str = ""
    samples: list[str] = field(default_factory=list)
    change: str = ""  # new or still, against a baseline

    @property
    def words(self) -> str:
        """Return the cause in words; those of the first start, where others have other values."""
        return message("{title} (for example)", title=self.title) if self.has_other_titles else self.title

    def add(self, row: StartRow, *, is_new_log: bool) -> None:
        """Count a start."""
        self.starts += 1
        self.logs += is_new_log
        self.severity = min(self.severity, row["severity"] or "error", key=lambda name: RANK.get(name, 3))
        self.first_fix = self.first_fix or row["first_fix"]
        self.has_other_titles = self.has_other_titles or (row["title"] or row["message"] or self.id) != self.title
        for counter, value in ((self.hosts, row["host"]), (self.services, row["service"]),
                               (self.releases, row["vllm_version"])):
            if value:
                counter[value] += 1
        self.see(row["last_time"] or "")
        if is_new_log and len(self.samples) < SAMPLES:
            self.samples.append(row["url"])

    def see(self, time: str) -> None:
        """Extend the span of times by one."""
        if time and (not self.first_seen or (seconds_between(time, self.first_seen) or 0) > 0):
            self.first_seen = time
        if time and (not self.last_seen or (seconds_between(self.last_seen, time) or 0) > 0):
            self.last_seen = time


@dataclass(frozen=True)
class HostShare:
    """A host that fails more often than the fleet: its failed starts, all its starts, and the expected failures."""

    host: str
    failed: int
    starts: int
    expected: float


def _log(row: StartRow) -> tuple[str, str]:
    """Return what identifies a log: its file, and in an archive its member."""
    return row["source"], row["url"]


class Summary:
    """The counts over all rows, which are added in the order of their logs."""

    def __init__(self) -> None:
        self.logs = 0
        self.new = 0
        self.starts = 0
        self.failed = 0
        self.unreadable = 0
        self.statuses: Counter[str] = Counter()
        self.by_id: dict[str, Group] = {}
        self.gone: tuple[str, ...] = ()
        self.problems: list[tuple[str, str]] = []
        self.host_starts: Counter[str] = Counter()
        self.host_failed: Counter[str] = Counter()
        self.release_starts: Counter[str] = Counter()
        self.release_failed: Counter[str] = Counter()
        self.seconds: dict[str, list[float]] = {}  # to serve, by release
        self.hours: dict[str, Counter[str]] = {}  # failures by cause, by the hour of their log
        self._last_log = ("", "")
        self._logs_of_group: dict[str, tuple[str, str]] = {}

    def add(self, rows: Iterable[StartRow], *, is_new: bool) -> None:
        """Count the rows of one file."""
        for row in rows:
            if _log(row) != self._last_log:
                self._last_log = _log(row)
                self.logs += 1
                self.new += is_new
            if row["problem"] is not None:
                self.unreadable += 1
                if len(self.problems) < SAMPLES:
                    self.problems.append((row["url"], row["problem"]))
            else:
                self._count(row)

    def _count(self, row: StartRow) -> None:
        is_failed = row["status"] == "failed"
        self.starts += 1
        self.failed += is_failed
        self.statuses[row["status"] or "unknown"] += 1
        for starts, failed, value in ((self.host_starts, self.host_failed, row["host"]),
                                      (self.release_starts, self.release_failed, row["vllm_version"])):
            if value:
                starts[value] += 1
                failed[value] += is_failed
        if row["status"] in {"serving", "stopped"} and row["start_seconds"] is not None:
            self.seconds.setdefault(row["vllm_version"] or "unknown", []).append(row["start_seconds"])
        group = row["group"]
        if group is None:
            return
        found = self.by_id.get(group)
        if found is None:
            found = Group(group, row["title"] or row["message"] or group, row["severity"] or "error",
                          is_explained=row["cause"] == group)
            self.by_id[group] = found
        found.add(row, is_new_log=self._logs_of_group.get(group) != _log(row))
        self._logs_of_group[group] = _log(row)
        if row["last_time"] and (row["severity"] or "error") == "error":
            self.hours.setdefault(row["last_time"].replace("T", " ").partition(":")[0], Counter())[group] += 1

    @property
    def groups(self) -> list[Group]:
        """Return the causes: errors first, the most logs first."""
        return sorted(self.by_id.values(), key=lambda one: (RANK.get(one.severity, 3), -one.logs, -one.starts, one.id))

    @property
    def causes(self) -> list[Group]:
        """Return the causes of failures."""
        return [group for group in self.groups if group.severity == "error"]

    @property
    def unexplained(self) -> list[Group]:
        """Return the groups of failures without a rule, the largest first."""
        return [group for group in self.causes if not group.is_explained]

    def compare(self, known: Collection[str]) -> None:
        """Mark each cause as new or still there, and name those of an earlier fleet that are gone."""
        for group in self.by_id.values():
            group.change = N_("still") if group.id in known else N_("new")
        self.gone = tuple(sorted(set(known) - set(self.by_id)))

    def conspicuous_hosts(self) -> list[HostShare]:
        """Return the hosts that fail more often than chance explains, the worst first."""
        starts, failed = sum(self.host_starts.values()), sum(self.host_failed.values())
        found = []
        for host, count in self.host_failed.items():
            others_starts, others_failed = starts - self.host_starts[host], failed - count
            if count < _LEAST_FAILURES or not others_starts:
                continue
            share = (others_failed + 1) / (others_starts + 2)  # no other failure is no proof that none happens
            expected = self.host_starts[host] * share
            if count > expected + _DEVIATIONS * math.sqrt(expected * (1 - share)):
                found.append(HostShare(host, count, self.host_starts[host], round(expected, 1)))
        return sorted(found, key=lambda one: (one.expected - one.failed, one.host))

    def last_line(self) -> Message:
        """Return the totals in one line, for scripts."""
        return message("{logs} logs ({new} new), {starts} starts, {failed} failed, {causes} causes, {unreadable} "
                       "unreadable",
                       logs=self.logs, new=self.new, starts=self.starts, failed=self.failed, causes=len(self.causes),
                       unreadable=self.unreadable)


def baseline_causes(rows: Iterable[StartRow]) -> set[str]:
    """Return the causes in the rows of an earlier fleet."""
    return {row["group"] for row in rows if row["group"] is not None}
