"""The ranks of an incident: which ones printed nothing in any of its logs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from vllm_doctor.diagnosis.run import Run
from vllm_doctor.facts.store import number
from vllm_doctor.reports.model import Report

_IN_NAME = re.compile(r"(?<![a-zA-Z])rank[-_.=]?(\d{1,6})(?!\d)")
_MOST = 4096  # ranks of an engine


def silent_ranks(logs: Iterable[tuple[Report, Run]]) -> tuple[int, ...]:
    """Return the ranks that the settings ask for and no log has a line of; none where ranks cannot be told apart."""
    sizes: list[int] = []
    seen: set[int] = set()
    empty: set[int] = set()
    for report, run in logs:
        facts = report.facts
        size = number(facts, "world_size") or (number(facts, "tensor_parallel_size") or 1) * (
            number(facts, "pipeline_parallel_size") or 1)
        sizes.append(int(size))
        seen |= run.ranks
        in_name = _IN_NAME.search(report.source.path.replace("\\", "/").rsplit("/", 1)[-1])
        if in_name is not None:
            (seen if report.source.lines else empty).add(int(in_name[1]))
    expected = max(sizes, default=1)
    silent = set(range(expected)) - seen if seen and expected <= _MOST else set()
    if len(silent) > len(seen):  # logs that are cut, or in which not every rank prints its number
        silent = set()
    return tuple(sorted(silent | (empty - seen)))
