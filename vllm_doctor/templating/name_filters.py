"""Filters about names of vLLM that an import did not find: which releases have them, and where."""

from __future__ import annotations

from vllm_doctor.catalog.names import Direction, direction, sentence_of
from vllm_doctor.catalog.releases import Releases

__all__ = [
    "lifetime_of_import",
    "place_of_import",
    "requirement_of_import",
]


def lifetime_of_import(fault: str, releases: Releases) -> str | None:
    """Return the sentence on the releases that have the name an import did not find; unknown if none explains it.

    `fault` is the exception's message: `No module named 'vllm.a'`, or `cannot import name 'B' from 'vllm.a'`. Where
    the installed release is not known, the sentence has the place in the newest one.
    """
    found = _direction(fault, releases)
    if found is None or not (found.first or found.last):
        return None
    newest = direction("ImportError", fault, releases.candidates[-1])
    if _installed(releases) is None and newest and newest.kind == "moved":
        return sentence_of(found._replace(kind="moved", moved_to=newest.moved_to, release=newest.release))
    return sentence_of(found._replace(kind="range"))


def place_of_import(fault: str, releases: Releases) -> str | None:
    """Return where the installed release has the name; unknown unless it is certain."""
    found = _direction(fault, releases)
    return found.moved_to or None if found else None


def requirement_of_import(fault: str, releases: Releases) -> str | None:
    """Return the releases with the name as pip writes them (`vllm>=0.6.0,<0.14`); unknown if none explains it."""
    found = _direction(fault, releases)
    return found.requirements[0] if found and found.requirements else None


def _direction(fault: str, releases: Releases) -> Direction | None:
    found = direction("ImportError", fault, _installed(releases))
    return found if found and found.kind in {"older", "newer", "range", "moved"} else None


def _installed(releases: Releases) -> str | None:
    return releases.candidates[0] if len(releases.candidates) == 1 else None
