"""Which vLLM releases a log can be of.

The log says its version, or it does not: then each wording that matched narrows the set, for vLLM rewords its messages
with nearly every release.
"""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import NamedTuple

from packaging.specifiers import SpecifierSet

from vllm_doctor.catalog import flags
from vllm_doctor.patterns import lazy

# Specifiers of plain releases, as all of our rules have: compared here, for `packaging` costs a start 10 ms.
_PLAIN = lazy(r"(?P<numbers>\d{1,9}(?:\.\d{1,9}){0,5})(?:\.post(?P<post>\d{1,9}))?")
_CLAUSE = lazy(r"\s*(?P<sign>>=|<=|==|<(?!=))\s*(?P<version>[\w.]+)\s*")
_SIGNS = {">=": operator.ge, "<=": operator.le, "==": operator.eq, "<": operator.lt}


class Releases(NamedTuple):
    """The releases still possible, oldest first. `known` says that the log (or the user) named the version."""

    candidates: tuple[str, ...]
    known: bool = False

    @classmethod
    def every(cls) -> Releases:
        """All releases of the flag table."""
        return cls(flags.releases())

    @classmethod
    def of(cls, version: str) -> Releases:
        """The one release that `version` (as vLLM prints it, dev and rc builds too) behaves as."""
        return cls((flags.resolve(version),), known=True)

    def narrow(self, specifier: str) -> Releases:
        """Only those that `specifier` (`>=0.7.0,<0.9`) admits; unchanged when the version is known or none is left."""
        if self.known or not specifier:
            return self
        allowed = admitted(specifier)
        left = tuple(release for release in self.candidates if release in allowed)
        return Releases(left) if left else self

    def since(self, version: str) -> bool | None:
        """True when all are `version` or newer, False when all are older, None when it is open."""
        admit = admitted(f">={version}")
        answers = {release in admit for release in self.candidates}
        return answers.pop() if len(answers) == 1 else None

    def admits(self, specifier: str) -> bool | None:
        """Whether `specifier` admits all (True), none (False) or some (None) of them."""
        allowed = admitted(specifier)
        answers = {release in allowed for release in self.candidates}
        return answers.pop() if len(answers) == 1 else None

    def words(self) -> str:
        """`0.8.5`, or the span `0.7.0 to 0.9.2`."""
        first, last = self.candidates[0], self.candidates[-1]
        return first if first == last else f"{first} to {last}"


@lru_cache(maxsize=1024)
def admitted(specifier: str) -> frozenset[str]:
    """The releases of the table that a version specifier admits. Raises packaging's InvalidSpecifier."""
    plain = _admitted_plainly(specifier)
    if plain is not None:
        return plain

    return frozenset(SpecifierSet(specifier).filter(flags.releases(), prereleases=True))


def _admitted_plainly(specifier: str) -> frozenset[str] | None:
    """As `admitted`, for clauses with >=, <=, == or < and a plain release; None when a clause is of another kind."""
    left = set(flags.releases())
    for clause in specifier.split(","):
        match = _CLAUSE.fullmatch(clause)
        bound = _order(match["version"]) if match else None
        if match is None or bound is None:
            return None
        holds = _SIGNS[match["sign"]]
        left = {release for release in left if (order := _order(release)) is not None and holds(order, bound)}
    return frozenset(left)


@lru_cache(maxsize=1024)
def _order(version: str) -> tuple[int, ...] | None:
    """What plain releases are ordered by (PEP 440): their numbers, filled with zeros, and N of .postN; else None."""
    match = _PLAIN.fullmatch(version)
    if match is None:
        return None
    numbers = [int(number) for number in match["numbers"].split(".")]
    return (*numbers, *[0] * (6 - len(numbers)), int(match["post"] or -1))
