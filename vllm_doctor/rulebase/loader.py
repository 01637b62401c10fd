"""The built-in rules and those of a user's folders."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache

from vllm_doctor.errors import RuleError
from vllm_doctor.rulebase.index import builtin, joined
from vllm_doctor.rulebase.model import RuleBase


def load(folders: Iterable[str | os.PathLike[str]] = ()) -> RuleBase:
    """The built-in rules and those of `folders`; the same id overrides. Raises RuleError with file:line:column."""
    base = builtin()
    for folder in folders:
        base = _with(base, os.fspath(folder))
    return base


def _with(base: RuleBase, folder: str) -> RuleBase:
    from vllm_doctor.rulebase.cache import cached_own  # noqa: PLC0415 - only for rules of one's own

    if not os.path.isdir(folder):
        raise RuleError(f"{folder}: no such folder of rules")
    return _joined(base, folder, cached_own(folder, base))


_joined = lru_cache(maxsize=4)(joined)  # the same rules give the same base, with all that was made from it
