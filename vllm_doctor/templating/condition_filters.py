"""Filters for conditions: what is known, releases, phases, parts of texts."""

from __future__ import annotations

from typing import Any

from vllm_doctor import phases
from vllm_doctor.catalog.releases import Releases

__all__ = [
    "before",
    "contains",
    "given",
    "or_else",
    "reached",
    "since",
    "starts_with",
]


def or_else(value: Any = None, fallback: Any = None) -> Any:
    """Return `value`, or `fallback` if it is unknown."""
    return fallback if value is None else value


def given(value: Any, condition: bool) -> Any:
    """Return `value` if the condition certainly holds, else unknown."""
    return value if condition else None


def since(releases: Releases, version: str) -> bool | None:
    """Return whether all possible releases are `version` or newer; unknown if only some are."""
    return releases.since(version)


def before(releases: Releases, version: str) -> bool | None:
    """Return whether all possible releases are older than `version`; unknown if only some are."""
    answer = releases.since(version)
    return None if answer is None else not answer


def reached(phase: str, other: str) -> bool:
    """Return whether a server in `phase` has reached phase `other`."""
    return phases.reached(phase, other)


def contains(text: Any, part: str) -> bool:
    """Return whether the text contains `part`, ignoring case."""
    return part.lower() in str(text).lower()


def starts_with(text: Any, part: str) -> bool:
    """Return whether the text starts with `part`, ignoring case."""
    return str(text).lower().startswith(part.lower())
