"""Which finding is the cause.

The order in one sentence: causes before cascades and advice; what the server did not survive before what it
did; a specific rule hides the general one it refines; errors before warnings before remarks; where the server ended,
what can end one before what refuses requests; then the earliest line, but of warnings and remarks those of the service
before those of the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vllm_doctor.matching.matcher import Hits
from vllm_doctor.phases import ORDER
from vllm_doctor.rulebase.model import Rule
from vllm_doctor.severity import RANK

_ROLE = {"cause": 0, "cascade": 1, "advice": 2}


class Fired(NamedTuple):
    """A rule that fired, with what it fired on.

    `recovered`: the server went on to serve all the same. `passing`: it ends no server, and this one ended.
    `of_request`: only single requests are at fault, and the server went on to serve.
    """

    rule: Rule
    hits: Hits
    recovered: bool = False
    passing: bool = False
    of_request: bool = False

    @property
    def line(self) -> int:
        """Return the first line of its evidence."""
        return self.hits.first[0].line

    @property
    def is_error_cause(self) -> bool:
        """Return whether its rule names the cause of a failure."""
        return self.rule.role == "cause" and self.rule.severity == "error"

    @property
    def is_fallback(self) -> bool:
        """Return whether it is the cause only where no other error is."""
        return self.hits.first[0].pattern in self.rule.fallback

    @property
    def is_general(self) -> bool:
        """Return whether another rule may refine it."""
        return not self.rule.general or self.hits.first[0].pattern in self.rule.general


def rank(fired: Iterable[Fired]) -> list[Fired]:
    """Rank the findings that remain, the likeliest cause first."""
    standing = _without_refined(list(fired))
    standing = _without_fallbacks(standing)
    return sorted(standing, key=_order)


def _order(item: Fired) -> tuple[int, bool, int, bool, int, int, str]:
    rule = item.rule
    lateness = 0 if rule.severity == "error" else -min(ORDER[rule.phase], ORDER["api"])  # api and runtime are service
    return _ROLE[rule.role], item.recovered, RANK[rule.severity], item.passing, lateness, item.line, rule.id


def _without_refined(fired: Sequence[Fired]) -> list[Fired]:
    """Drop each rule that another rule that fired states more precisely."""
    hidden = {general for item in fired if not item.recovered for general in item.rule.refines}
    return [item for item in fired if not (item.rule.id in hidden and item.is_general)]


def _without_fallbacks(fired: Sequence[Fired]) -> list[Fired]:
    """Drop the fallback rules if another rule names a cause that is at least as severe."""
    best = min((RANK[item.rule.severity] for item in fired
                if item.rule.role == "cause" and not item.is_fallback and not item.recovered), default=len(RANK))
    return [item for item in fired if not (item.is_fallback and best <= RANK[item.rule.severity])]
