"""Load the built-in rules and those of a user's folders."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from functools import lru_cache, partial
from pathlib import Path

from vllm_doctor.catalog.json_cache import cached
from vllm_doctor.errors import RuleError
from vllm_doctor.rulebase.compiled_rules import Document, rule_base
from vllm_doctor.rulebase.folders import builtin_folder, file_stamps, rule_files
from vllm_doctor.rulebase.model import RuleBase

COMPILED = "rules.json"
"""The file of compiled rules in an installed package."""
_PACKAGE = Path(__file__).resolve().parent.parent


@lru_cache(maxsize=1)
def builtin() -> RuleBase:
    """Return the rules that ship with vllm-doctor. Raises RuleError."""
    folder = builtin_folder()
    shipped = folder / COMPILED
    document = json.loads(shipped.read_bytes()) if shipped.exists() else cached_document(folder)
    return rule_base(document, str(folder))


def cached_document(folder: Path) -> Document:
    """Return the compiled rules of a folder, from the cache if neither they nor this package changed."""
    document: Document = cached(folder, [*folder.rglob("*.yaml"), *_PACKAGE.rglob("*.py")], partial(_compiled, folder))
    return document


def _compiled(folder: Path) -> Document:
    from vllm_doctor.rulebase.compiler import compile_rules  # noqa: PLC0415 - PyYAML is a fifteenth of a start

    return compile_rules(folder)


def load(folders: Iterable[str | os.PathLike[str]] = ()) -> RuleBase:
    """Return the built-in rules and those of `folders`, which override rules of the same id.

    Raises RuleError with file:line:column.
    """
    base = builtin()
    for folder in folders:
        if not Path(folder).is_dir():
            raise RuleError(f"{os.fspath(folder)}: no such folder of rules")
        base = _with_user_rules(base, os.fspath(folder), file_stamps(rule_files(Path(folder))))
    return base


@lru_cache(maxsize=4)
def _with_user_rules(base: RuleBase, folder: str, _stamps: tuple[tuple[str, int, int], ...]) -> RuleBase:
    """Add a user's rules. Cached by the state of the files, because data derived from a rule base is kept with it."""
    from vllm_doctor.rulebase.user_rules import with_user_rules  # noqa: PLC0415 - PyYAML, and the checks of rules

    return with_user_rules(base, Path(folder))
