"""Load the built-in rules and those of a user's folders."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from vllm_doctor.errors import RuleError
from vllm_doctor.rulebase.cache import cached_document
from vllm_doctor.rulebase.compiler import read_user_rules, rule_base
from vllm_doctor.rulebase.lint import check_usable
from vllm_doctor.rulebase.model import RuleBase
from vllm_doctor.rulebase.yaml_files import builtin_folder

COMPILED = "rules.json"
"""The file of compiled rules in an installed package."""


@lru_cache(maxsize=1)
def builtin() -> RuleBase:
    """Return the rules that ship with vllm-doctor. Raises RuleError."""
    folder = builtin_folder()
    shipped = folder / COMPILED
    document = json.loads(shipped.read_bytes()) if shipped.exists() else cached_document(folder)
    return rule_base(document, str(folder))


def load(folders: Iterable[str | os.PathLike[str]] = ()) -> RuleBase:
    """Return the built-in rules and those of `folders`, which override rules of the same id.

    Raises RuleError with file:line:column.
    """
    base = builtin()
    for folder in folders:
        if not Path(folder).is_dir():
            raise RuleError(f"{os.fspath(folder)}: no such folder of rules")
        base = _with_user_rules(base, os.fspath(folder), _state(Path(folder)))
    return base


@lru_cache(maxsize=4)
def _with_user_rules(base: RuleBase, folder: str, _state: tuple[tuple[str, int, int], ...]) -> RuleBase:
    """Add a user's rules. Cached by the state of the files, because data derived from a rule base is kept with it."""
    own = read_user_rules(Path(folder))
    joined = base.with_rules(own)
    for rule in own.values():
        for problem in check_usable(rule, joined):
            raise RuleError(str(problem))
    return joined


def _state(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return names, sizes and times of the rule files. Raises RuleError."""
    try:
        return tuple((str(path), status.st_size, status.st_mtime_ns)
                     for path in sorted(folder.rglob("*.yaml")) for status in [path.stat()])
    except OSError as error:
        raise RuleError(f"{error.filename}: {error.strerror}") from error
