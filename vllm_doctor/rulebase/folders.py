"""The folders of rules and the files in them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from vllm_doctor.errors import RuleError, reason
from vllm_doctor.text_files import files_below

_RULE = re.compile(rb"(?m)^match:")


def builtin_folder() -> Path:
    """Return the folder of the built-in rules: inside the installed package (`_rules`), or in the checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "_rules", package.parent / "rules"):
        if folder.is_dir():
            return folder
    raise RuleError("the built-in rules are missing from this installation")


def file_stamps(paths: Iterable[Path]) -> tuple[tuple[str, int, int], ...]:
    """Return names, sizes and times of files, which change when a file does. Raises RuleError."""
    try:
        return tuple((str(path), status.st_size, status.st_mtime_ns) for path in paths for status in [path.stat()])
    except OSError as error:
        raise RuleError(f"{error.filename}: {reason(error)}") from error


def rule_files(folder: Path) -> list[Path]:
    """Return the rule files of a folder and its subfolders, in order.

    Raises RuleError if it cannot be read, and for a rule in a file whose name ends in .yml.
    """
    try:
        for path in files_below(folder, ".yml"):
            if _RULE.search(path.read_bytes()):
                raise RuleError(f"{path}: the name of a rule file ends in .yaml")
        return files_below(folder, ".yaml")
    except OSError as error:
        raise RuleError(f"{error.filename}: {reason(error)}") from error
