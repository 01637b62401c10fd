"""Draft a rule from a group of failures that no rule explains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path

from vllm_doctor.authoring.rule_scaffold import Sample, draft, sample_of
from vllm_doctor.errors import InputError
from vllm_doctor.fleet.model import StartRow
from vllm_doctor.fleet.tables import STARTS, start_rows

_MOST_SAMPLES = 4
_MOST_NEAR_MISSES = 3


def draft_from_group(rule_id: str, tables: Path, group: str, phase: str) -> str:
    """Return the text of a rule for a group in the tables of a fleet. Raises InputError if there is none."""
    if not (tables / f"{STARTS}.jsonl").exists():
        raise InputError(f"{tables}: holds no tables of a fleet ({STARTS}.jsonl); name them with --tables")
    own: dict[str, StartRow] = {}  # one for each message
    others: dict[str, str] = {}  # the message of each other group
    groups: set[str] = set()
    for row in start_rows(tables):
        if row["group"] is None or row["message"] is None:
            continue
        groups.add(row["group"])
        if row["group"] != group:
            others.setdefault(row["group"], row["message"])
        elif len(own) < _MOST_SAMPLES:
            own.setdefault(row["message"], row)
    if not own:
        near = get_close_matches(group, sorted(groups), n=1, cutoff=0.5)
        raise InputError(f"{tables}: no group `{group}`" + (f"; did you mean `{near[0]}`?" if near else ""))
    samples = list(dict.fromkeys(_sample(row) for row in own.values()))
    phases = [row["phase"] for row in own.values() if row["phase"]]
    return draft(rule_id, samples, list(_nearest(samples[0].message, others.values())),
                 phase or (phases[0] if phases else ""))


def _sample(row: StartRow) -> Sample:
    """Return the line of a failure in its log; where that cannot be read by itself, its message in the table."""
    message = row["message"] or ""
    try:
        found = sample_of(row["url"], row["line"])
    except InputError:
        return Sample(message, message)
    return found if found.message.strip() and len(found.line) < 1000 else Sample(message, message)


def _nearest(message: str, others: Iterable[str]) -> Iterator[str]:
    """Yield the messages of other groups that resemble it most."""
    words = message.lower().split()
    ranked = sorted(set(others), key=lambda other: (
        -SequenceMatcher(None, words, other.lower().split(), autojunk=False).ratio(), other))
    yield from ranked[:_MOST_NEAR_MISSES]
