"""What the rows of a log depend on beside its bytes: the rules, this version and the options."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path

from vllm_doctor.options import Options
from vllm_doctor.rulebase.folders import builtin_folder, file_stamps, rule_files
from vllm_doctor.rulebase.loader import COMPILED
from vllm_doctor.version import __version__


def rules_hash(options: Options, label: str = "") -> str:
    """Return 16 hexadecimal digits that change with a rule, this version or an option: then a log is read again."""
    folders = (str(builtin_folder()), *options.rules)
    stamps = tuple(file_stamps(_files(Path(folder))) for folder in folders)  # so that their content is read once
    return _hash(folders, stamps, options._replace(rules=()), label)


def _files(folder: Path) -> list[Path]:
    compiled = folder / COMPILED
    return [compiled] if compiled.exists() else sorted(folder.rglob("*.yaml")) or rule_files(folder)


@lru_cache(maxsize=8)
def _hash(folders: tuple[str, ...], _stamps: object, options: Options, label: str) -> str:
    digest = hashlib.sha256(json.dumps([__version__, options, label]).encode())
    for folder in map(Path, folders):
        for path in _files(folder):
            digest.update(b"\0".join((path.name.encode("utf-8", "replace"), path.read_bytes(), b"")))
    return digest.hexdigest()[:16]
