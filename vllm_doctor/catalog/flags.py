"""Look up which flags, values, defaults and environment variables each vLLM release has.

A version of None means the newest release of the table. Releases published without a source distribution are not in
the table; they behave like the release before them (see `resolve`).
"""

from __future__ import annotations

import difflib
import re
from functools import lru_cache

from vllm_doctor.catalog.flag_file import table
from vllm_doctor.catalog.flag_table import (
    COMPUTED,
    Flag,
    Replacement,
    Variable,
    flag,
    release_index,
    releases,
    variable,
)

__all__ = [
    "COMPUTED",
    "Flag",
    "Replacement",
    "Variable",
    "accepted",
    "canonical",
    "env",
    "env_exists",
    "env_span",
    "flags_of",
    "lookup",
    "nearest",
    "releases",
    "resolve",
]


def resolve(version: str | None) -> str:
    """Return the release of the table that a version string behaves as: the newest one that is not newer.

    A dev or rc build counts as the release it precedes, a local part (`+cu128`) is ignored. A version older than the
    table is its oldest release; None, invalid versions and builds from a checkout without tags (`0.1.dev1+g…`) are its
    newest.
    """
    return releases()[release_index(version)]


def flags_of(version: str | None = None) -> tuple[str, ...]:
    """Return the names of the flags that a release has, sorted."""
    return _flags_of(release_index(version))


def lookup(name: str, version: str | None = None) -> Flag | None:
    """Return the flag of a spelling: --x, --x-y=1, --x.key, -tp, x_y, --no-x; None if no release has it.

    A spelling of different flags in different releases (`-O`) is resolved for `version`, by default the newest.
    """
    spelling = canonical(name)
    if spelling in table().flags:
        return flag(spelling)
    candidates = [flag(other) for other in _other_spellings().get(spelling, ())]
    if not candidates:
        return None
    return max(candidates, key=lambda one: (spelling in one.spellings(version), one.last_index))


def accepted(name: str, version: str | None = None) -> Flag | None:
    """Return the flag that a release's argument parser resolves a spelling to, including unambiguous prefixes."""
    spelling = canonical(name)
    by_spelling = _spellings_of(release_index(version))
    if spelling in by_spelling:
        return flag(by_spelling[spelling])
    if not spelling.startswith("--"):
        return None
    with_prefix = {other for other in by_spelling if other.startswith(spelling)}
    return flag(by_spelling[with_prefix.pop()]) if len(with_prefix) == 1 else None


def canonical(name: str) -> str:
    """Return the flag name without value and JSON key: --max-model-len for `max_model_len` or `--max_model_len=1`."""
    text = name.strip().partition("=")[0].partition(".")[0]
    if text.startswith("-") and not text.startswith("--"):
        return "-O" if re.fullmatch(r"-O\d+", text) else text
    return "--" + text.lstrip("-").replace("_", "-")


@lru_cache(maxsize=256)
def nearest(name: str, version: str | None = None, n: int = 3) -> tuple[str, ...]:
    """Return up to n flags of that release with names similar to `name`, the most similar first."""
    return tuple(difflib.get_close_matches(canonical(name).lower(), flags_of(version), n, cutoff=0.6))


def env(name: str) -> Variable | None:
    """Return an environment variable that some release reads, or None."""
    return variable(name) if name in table().env else None


def env_exists(name: str, version: str | None = None) -> bool:
    """Return whether the variable can have an effect in that release.

    True for all variables without the prefix VLLM_ (HF_TOKEN, NCCL_DEBUG), which belong to other software.
    """
    if not name.startswith("VLLM_"):
        return True
    known = env(name)
    return known is not None and known.exists(version)


def env_span(name: str) -> tuple[str, str]:
    """Return the first and the last release that read the variable. Raises KeyError if none does."""
    known = variable(name)
    return known.first, known.last


@lru_cache(maxsize=128)
def _flags_of(index: int) -> tuple[str, ...]:
    release = releases()[index]
    return tuple(name for name in table().flags if flag(name).exists(release))


@lru_cache(maxsize=128)
def _spellings_of(index: int) -> dict[str, str]:
    release = releases()[index]
    spellings = {other: name for name in _flags_of(index) for other in flag(name).spellings(release)}
    return spellings | {name: name for name in _flags_of(index)}


@lru_cache(maxsize=1)
def _other_spellings() -> dict[str, tuple[str, ...]]:
    spellings: dict[str, tuple[str, ...]] = {}
    for name, entry in table().flags.items():
        others = {alias for _, aliases in entry.get("aliases", ()) for alias in aliases}
        others |= {inverse for _, inverse in entry.get("inverse", ()) if inverse}
        if any(negatable for _, negatable in entry.get("negatable", ())):
            others.add(f"--no-{name.removeprefix('--')}")
        for other in others:
            spellings[other] = (*spellings.get(other, ()), name)
    return spellings
