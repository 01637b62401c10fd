"""The phases of a vLLM server start, in order."""

from __future__ import annotations

PHASES: tuple[str, ...] = (
    "args",
    "config",
    "download",
    "distributed-init",
    "weights",
    "profiling",
    "kv-cache",
    "graph-capture",
    "api",
    "runtime",
)
FIRST = PHASES[0]
ORDER: dict[str, int] = {name: index for index, name in enumerate(PHASES)}


def reached(phase: str, other: str) -> bool:
    """Return whether a server in `phase` has reached phase `other`. Raises KeyError for an unknown phase."""
    return ORDER[phase] >= ORDER[other]
