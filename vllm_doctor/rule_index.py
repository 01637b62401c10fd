"""The built-in rules, from one file for a quick start: reading 200 YAML files takes a quarter of a second.

The first line of the index, JSON, holds what every log needs: the anchors to look for. Each further line is a pattern
or a rule, read when it is asked for; a rule's has the trees of its expressions and words (`language`). `rule_compiler`
makes it.
"""

from __future__ import annotations

import functools
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from vllm_doctor import expressions
from vllm_doctor.errors import RuleError
from vllm_doctor.facts import FactName
from vllm_doctor.foreign import ForeignTable
from vllm_doctor.patterns import portable
from vllm_doctor.rules import Action, Marker, Needles, Pattern, Rule, RuleBase, Stall, Wording, rule_of
from vllm_doctor.typed import IO, Any, TypeVar

NAME = "index.jsonl"
_NEEDLES = 3  # fields of a pattern
_BETWEEN = tuple(Pattern._field_defaults.get(field) for field in Pattern._fields[:-_NEEDLES])


_T = TypeVar("_T")


class _Patterns(Sequence[_T]):
    """What has a pattern, each made from its line of JSON when it is asked for: a log holds few of the anchors."""

    def __init__(self, lines: Sequence[bytes], make: Callable[[Any], _T]) -> None:
        self._lines = lines
        self._make = make

    def __getitem__(self, at: Any) -> Any:
        return self._make(json.loads(self._lines[at]))

    def __len__(self) -> int:
        return len(self._lines)


class _Rules(Mapping[str, Rule]):
    """The rules of an index by id, each read when it is asked for. `spans` are where they stand behind `start`."""

    def __init__(self, folder: str, index: Callable[[], IO[bytes]], start: int,
                 spans: Mapping[str, tuple[int, int]], *, own: bool = False) -> None:
        self._folder = folder
        self._own = own
        self._index = index
        self._start = start
        self._spans = spans
        self._read: dict[str, Rule] = {}

    def __getitem__(self, rule_id: str) -> Rule:
        if rule_id not in self._read:
            at, size = self._spans[rule_id]
            with self._index() as file:
                file.seek(self._start + at)
                record = json.loads(file.read(size))
            expressions.known_trees.update(record["trees"])
            entry = record["rule"]
            self._read[rule_id] = rule_of(entry, os.path.join(self._folder, entry["path"]), own=self._own)
        return self._read[rule_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)


@functools.lru_cache(maxsize=1)
def builtin() -> RuleBase:
    """The rules that ship with vllm-doctor. Raises RuleError."""
    folder = rules_folder()
    known, patterns, rules = _read(folder, _index(folder))
    markers, facts, _ = known["patterns"]
    expressions.known_trees.update(known["trees"])
    return RuleBase(
        rules=rules,
        markers=_Patterns(patterns[:markers], lambda told: Marker(_pattern(*told[0]), *told[1:])),
        facts=_Patterns(patterns[markers:markers + facts], lambda told: _pattern(*told)),
        wordings=_Patterns(patterns[markers + facts:], _wording),
        anchors=known["anchors"],
        names={entry[0]: FactName(*entry) for entry in known["names"]},
        actions={entry[0]: Action(*entry) for entry in known["actions"]},
        stalls={entry[0]: Stall(*entry) for entry in known["stalls"]},
        healthy=portable(known["healthy"]),
        healthy_anchors=known["healthy_anchors"],
        foreign=ForeignTable(known["foreign"]),
    )


def joined(base: RuleBase, folder: str, made: bytes) -> RuleBase:
    """A rule base and the rules of a user's folder, of which this is the index; the same id overrides."""
    _, patterns, rules = _read(folder, lambda: io.BytesIO(made), own=True)
    return base.with_rules(rules, _Patterns(patterns, _wording))


def _read(folder: str, index: Callable[[], IO[bytes]], *, own: bool = False) -> tuple[Any, list[bytes], _Rules]:
    """The first line of an index, its patterns, and its rules."""
    with index() as file:
        head = file.readline()
        known = json.loads(head)
        size = known["patterns"][-1]
        patterns = file.read(size).splitlines()
    return known, patterns, _Rules(folder, index, len(head) + size, known["rules"], own=own)


def _wording(told: Sequence[Any]) -> Wording:
    return Wording(told[0], told[1], _pattern(*told[2]))


def _pattern(fields: Sequence[Any], *needles: Sequence[Any]) -> Pattern:
    """A pattern, given its first fields and the needles of its expressions, which are the last ones."""
    return Pattern(*fields, *_BETWEEN[len(fields):], *(Needles(*each) for each in needles))


def _index(folder: str) -> Callable[[], IO[bytes]]:
    """What opens the index of the built-in rules."""
    shipped = os.path.join(folder, NAME)
    if os.path.exists(shipped):
        return lambda: open(shipped, "rb")
    from vllm_doctor.rule_cache import cached  # noqa: PLC0415 - only in a checkout

    made = cached(folder)
    return lambda: io.BytesIO(made)


def rules_folder() -> str:
    """Where the built-in rules stand: inside the installed package (`_rules`), or in the checkout."""
    here = os.path.dirname(os.path.realpath(__file__))
    for folder in (os.path.join(here, "_rules"), os.path.join(os.path.dirname(here), "rules")):
        if os.path.isdir(folder):
            return folder
    raise RuleError("the built-in rules are missing from this installation")
