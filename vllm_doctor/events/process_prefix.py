"""The processes that vLLM names at the head of a line: `(EngineCore_DP0 pid=12) `, and their ranks."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from vllm_doctor.text.patterns import lazy_pattern

PROCESS = lazy_pattern(
    r"\s*(?:\| +)?\((?P<name>[A-Za-z_]\w*(?:[-:]\w+)*(?:\([\w.-]{1,60}\))?"  # a Ray actor may be `A(b)`
    r"(?: (?:PP\d+_?)?(?:TP\d+)?(?= pid=))?)(?: rank=(?P<rank>\d{1,6}))?"
    r"(?:,? ?pid=(?P<pid>\d+))(?:, (?:ip=[\w.:]+)?)?\) ?",
)
_RANK_SOURCE = lazy_pattern(r"\brank ?(\d{1,6})\b")
# The releases that print a prefix: vllm/logger.py and decorate_logs of each. The first match counts.
_PREFIX_RELEASES = (
    ("VllmWorkerProcess", ">=0.4.2,<=0.10.2"),
    ("VllmWorker rank=", ">=0.6.5,<=0.10.0"),
    ("VllmWorker TP", ">=0.10.1,<=0.10.1.1"),
    ("EngineCore_DP", ">=0.10.2"),
    ("EngineCore_", ">=0.10.1,<=0.10.1.1"),
    ("EngineCore pid", ">=0.18.0"),
    ("APIServer", ">=0.10.1"),
    ("Worker", ">=0.10.2"),
)
_MAX_PROCESSES = 256


class ProcessPrefix(NamedTuple):
    """The process as printed, the rank if it is a worker, and the text behind the prefix."""

    process: str
    rank: int | None
    rest: str


class ProcessNames:
    """The reader of these prefixes; remembers the processes of one server start, to count workers without a number."""

    def __init__(self) -> None:
        self._ranks: dict[str, int] = {}
        self._known: dict[str, tuple[str, int | None]] = {}  # by prefix

    def forget(self) -> None:
        """Forget all processes, where another start begins."""
        self._ranks.clear()
        self._known.clear()

    def split(self, text: str, source: str) -> ProcessPrefix:
        """Split off the prefixes of a line from this source."""
        first = text[:text.find(") ") + 2] if text.startswith("(") else ""
        if first and not source and first in self._known and not text.startswith("(", len(first)):
            return ProcessPrefix(*self._known[first], text[len(first):])
        process, rank, start = "", None, 0
        while match := PROCESS.match(text, start):
            process = match[0].replace("|", " ").strip()[1:-1]
            rank = int(match["rank"]) if match["rank"] is not None else self._rank(match["name"], match["pid"])
            start = match.end()
        if rank is None and source:
            named = _RANK_SOURCE.search(source)
            if named:
                rank = int(named[1])
            elif "RayWorker" in source and "Worker" not in process:  # perhaps behind the prefix of the engine
                rank = self._ranks.setdefault(source, len(self._ranks) + 1)
        if start == len(first) and not source and len(self._known) < _MAX_PROCESSES:
            self._known[first] = process, rank
        return ProcessPrefix(process, rank, text[start:] if start else text)

    def _rank(self, name: str, pid: str) -> int | None:
        """Return the rank in a worker's process name, or the order of appearance for names with several dimensions."""
        if "Worker" not in name:
            return None
        match = re.fullmatch(r"\w*?Worker[-_ ]?(?:TP)?(\d{1,6})(?:_DCP\d+)?(?:_EP\d+)?", name)
        if match:
            return int(match[1])
        if name == "VllmWorkerProcess":  # V0's workers 1, 2, …; the driver is rank 0 and has no prefix
            return self._ranks.setdefault(f"{name} {pid}", 1 + sum(k.startswith(name) for k in self._ranks))
        if name in {"Worker", "VllmWorker"}:
            return 0
        if name.startswith("Ray"):  # whose name is that of all workers
            return self._ranks.setdefault(f"{name} pid={pid}", len(self._ranks) + 1)
        return self._ranks.setdefault(name, len(self._ranks))


@lru_cache(maxsize=256)
def releases_of(process: str) -> str:
    """Return the releases that print such a process."""
    return next((span for name, span in _PREFIX_RELEASES if process.startswith(name)), "")
