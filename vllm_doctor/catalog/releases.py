"""Which vLLM releases a log can be of.

The log says its version, or it does not: then each wording that matched narrows the set, for vLLM rewords its messages
with nearly every release.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from vllm_doctor.catalog import flags


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
    """Return the releases of the table that a version specifier admits. Raises packaging's InvalidSpecifier."""
    wanted = SpecifierSet(specifier)
    return frozenset(release for release, version in _versions() if wanted.contains(version, prereleases=True))


@lru_cache(maxsize=1)
def _versions() -> tuple[tuple[str, Version], ...]:
    """Return the releases of the table, each with its parsed version."""
    return tuple((release, Version(release)) for release in flags.releases())
