"""The contents of `rules/` as one JSON file, for a quick start: reading 200 YAML files takes a quarter of a second.

The wheel carries the index (`hatch_build.py` makes it). A checkout keeps it in the user's cache, under a name made of
the files' paths, sizes and times, so a changed file is never missed; where the cache cannot be written, YAML is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import vllm_doctor
from vllm_doctor.rule_files import read_yaml

NAME = "index.json"


def read(folder: Path) -> dict[str, Any]:
    """Everything in the folder: `rules` (entries with their `path`), `facts`, `names`, `actions`, `markers`."""
    shipped = folder / NAME
    if shipped.is_file():
        return _load(shipped)
    cached = _cache() / f"rules-{_stamp(folder)}.json"
    with contextlib.suppress(OSError, ValueError):
        return _load(cached)
    made = make(folder)
    with contextlib.suppress(OSError):
        _save(cached, made)
    return made


def make(folder: Path) -> dict[str, Any]:
    """The index, from the YAML files themselves. Raises RuleError."""
    rules = [{**read_yaml(path), "path": str(path.relative_to(folder))}
             for path in _files(folder) if path.parent.name not in {"facts", folder.name}]
    facts = [entry for path in sorted((folder / "facts").glob("*.yaml")) if path.name != "names.yaml"
             for entry in read_yaml(path) or ()]
    return {
        "rules": rules,
        "facts": facts,
        "names": read_yaml(folder / "facts" / "names.yaml"),
        "actions": read_yaml(folder / "actions.yaml"),
        "markers": read_yaml(folder / "phases.yaml"),
        "stalls": read_yaml(folder / "stalls.yaml"),
        "healthy": [entry["pattern"] for entry in read_yaml(folder / "healthy.yaml")],
    }


def _files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.yaml"))


def _stamp(folder: Path) -> str:
    digest = hashlib.sha256(f"{vllm_doctor.__version__} {folder}".encode())
    for path in _files(folder):
        status = path.stat()
        digest.update(f"{path.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vllm-doctor"


def _load(path: Path) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        made: dict[str, Any] = json.load(file)
    return made


def _save(path: Path, made: dict[str, Any]) -> None:
    """Write beside and rename, so that no other process reads half a file; drop the caches of older rules."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        json.dump(made, file, default=str)
    os.replace(file.name, path)
    for old in path.parent.glob("rules-*.json"):
        if old != path:
            old.unlink(missing_ok=True)
