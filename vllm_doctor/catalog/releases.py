"""The vLLM releases that can have written a log.

If the log does not print its version, each message that matched narrows the set, because vLLM rewords its messages
with nearly every release.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from vllm_doctor.catalog import flags
from vllm_doctor.messages import message


class Releases(NamedTuple):
    """The possible releases, oldest first. `known` means that the log or the user named the version."""

    candidates: tuple[str, ...]
    known: bool = False

    @classmethod
    def every(cls) -> Releases:
        """Return all releases of the flag table."""
        return cls(flags.releases())

    @classmethod
    def of(cls, version: str) -> Releases:
        """Return the one release that `version` (as vLLM prints it, including dev and rc builds) behaves as."""
        return cls((flags.resolve(version),), known=True)

    def narrow(self, specifier: str) -> Releases:
        """Return those that `specifier` (`>=0.7.0,<0.9`) admits; all if the version is known or none is left."""
        if self.known or not specifier:
            return self
        allowed = admitted(specifier)
        left = tuple(release for release in self.candidates if release in allowed)
        return Releases(left) if left else self

    def since(self, version: str) -> bool | None:
        """Return True if all are `version` or newer, False if all are older, else None."""
        return self.admits(f">={version}")

    def admits(self, specifier: str) -> bool | None:
        """Return whether `specifier` admits all (True), none (False) or some (None) of them."""
        allowed = admitted(specifier)
        answers = {release in allowed for release in self.candidates}
        return answers.pop() if len(answers) == 1 else None

    def words(self) -> str:
        """Return `0.8.5`, or a span such as `0.7.0 to 0.9.2`."""
        first, last = self.candidates[0], self.candidates[-1]
        return first if first == last else message("{first} to {last}", first=first, last=last)


def span_words(specifier: str) -> str:
    """Return `0.11.1 or newer`, `0.12.0 or older` or `0.4.1 to 0.7.3` for the releases that a specifier admits."""
    allowed = admitted(specifier)
    span = [release for release in flags.releases() if release in allowed]
    if not span:
        return specifier
    if span[-1] == flags.releases()[-1]:
        return message("{release} or newer", release=span[0])
    return message("{release} or older", release=span[-1]) if span[0] == flags.releases()[0] else message(
        "{first} to {last}", first=span[0], last=span[-1])


@lru_cache(maxsize=1024)
def admitted(specifier: str) -> frozenset[str]:
    """Return the releases of the table that a version specifier admits. Raises packaging's InvalidSpecifier."""
    wanted = SpecifierSet(specifier)
    return frozenset(release for release, version in _versions() if wanted.contains(version, prereleases=True))


@lru_cache(maxsize=1)
def _versions() -> tuple[tuple[str, Version], ...]:
    """Return the releases of the table, each with its parsed version."""
    return tuple((release, Version(release)) for release in flags.releases())
