"""Which flag, value and default exist in which vLLM release.

A version that is None stands for the newest release of the table. Releases published without a source
distribution are not in it; they behave as the release before them (see `resolve`).
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
    position,
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
    """The release of the table that a version string behaves as: the newest that is not newer.

    A dev or rc build counts as the release it precedes, a local part (`+cu128`) is ignored. What is older
    than the table is its oldest release; None, what is no version, and a build from a checkout without tags
    (`0.1.dev1+g…`) are its newest.
    """
    return releases()[position(version)]


def flags_of(version: str | None = None) -> tuple[str, ...]:
    """The names of the flags that a release has, sorted."""
    return _flags_of(position(version))


def lookup(name: str, version: str | None = None) -> Flag | None:
    """The flag that a spelling means: --x, --x-y=1, --x.key, -tp, x_y, --no-x; None when no release has it.

    A spelling that meant different flags (`-O`) is read as in `version`, or as in the newest release.
    """
    spelling = canonical(name)
    if spelling in table().flags:
        return flag(spelling)
    found = [flag(other) for other in _other_spellings().get(spelling, ())]
    if not found:
        return None
    return max(found, key=lambda one: (spelling in one.spellings(version), one.last_position))


def accepted(name: str, version: str | None = None) -> Flag | None:
    """The flag that a release's own parser reads a spelling as; unambiguous beginnings are read too."""
    spelling = canonical(name)
    by_spelling = _spellings_of(position(version))
    if spelling in by_spelling:
        return flag(by_spelling[spelling])
    if not spelling.startswith("--"):
        return None
    begun = {other for other in by_spelling if other.startswith(spelling)}
    return flag(by_spelling[begun.pop()]) if len(begun) == 1 else None


def canonical(name: str) -> str:
    """A spelling without value and JSON key, with dashes: `max_model_len` and `--max_model_len=1` alike."""
    text = name.strip().partition("=")[0].partition(".")[0]
    if text.startswith("-") and not text.startswith("--"):
        return "-O" if re.fullmatch(r"-O\d+", text) else text
    return "--" + text.lstrip("-").replace("_", "-")


@lru_cache(maxsize=256)
def nearest(name: str, version: str | None = None, n: int = 3) -> tuple[str, ...]:
    """Up to n names of flags of that release that look like `name`, the likest first."""
    return tuple(difflib.get_close_matches(canonical(name).lower(), flags_of(version), n, cutoff=0.6))


def env(name: str) -> Variable | None:
    """An environment variable that vLLM reads or read; None when the table does not have it."""
    return variable(name) if name in table().env else None


def env_exists(name: str, version: str | None = None) -> bool:
    """Whether setting the variable can do something in that release.

    Variables without the prefix VLLM_ (HF_TOKEN, NCCL_DEBUG) belong to other software and always count.
    """
    if not name.startswith("VLLM_"):
        return True
    known = env(name)
    return known is not None and known.exists(version)


def env_span(name: str) -> tuple[str, str]:
    """The first and the last release that read the variable. Raises KeyError for one that none reads."""
    known = variable(name)
    return known.first, known.last


@lru_cache(maxsize=128)
def _flags_of(index: int) -> tuple[str, ...]:
    release = releases()[index]
    return tuple(name for name in table().flags if flag(name).exists(release))


@lru_cache(maxsize=128)
def _spellings_of(index: int) -> dict[str, str]:
    release = releases()[index]
    found = {other: name for name in _flags_of(index) for other in flag(name).spellings(release)}
    return found | {name: name for name in _flags_of(index)}


@lru_cache(maxsize=1)
def _other_spellings() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, entry in table().flags.items():
        others = {alias for _, aliases in entry.get("aliases", ()) for alias in aliases}
        others |= {inverse for _, inverse in entry.get("inverse", ()) if inverse}
        if any(negatable for _, negatable in entry.get("negatable", ())):
            others.add(f"--no-{name.removeprefix('--')}")
        for other in others:
            found[other] = (*found.get(other, ()), name)
    return found
