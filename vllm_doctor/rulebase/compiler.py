"""Compile rules: YAML files -> one document of JSON values, from which `compiled_rules` makes the rule base.

Parsing 300 YAML files takes a second, so the document is stored as JSON: in the wheel when it is built
(`hatch_build.py`), in the user's cache in a checkout (`json_cache`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vllm_doctor.errors import RuleError
from vllm_doctor.rulebase.compiled_rules import Document
from vllm_doctor.rulebase.folders import rule_files
from vllm_doctor.rulebase.model import rule_of
from vllm_doctor.rulebase.required_literals import required_literals
from vllm_doctor.rulebase.yaml_files import check_text, read_text, read_yaml


def compile_rules(folder: Path) -> Document:
    """Compile a folder of rules. Raises RuleError with file:line:column."""
    document: Document = {
        "rules": _rule_entries(folder),
        "actions": read_yaml(folder / "actions.yaml"),
        "stalls": read_yaml(folder / "stalls.yaml"),
        "healthy": [{key: entry[key] for key in ("pattern", "anchor", "record") if key in entry}
                    for entry in read_yaml(folder / "healthy.yaml")],
        "untrusted": read_yaml(folder / "untrusted_text.yaml"),
        "markers": read_yaml(folder / "phases.yaml"),
        "facts": [entry for path in sorted((folder / "facts").glob("*.yaml")) if path.name != "names.yaml"
                  for entry in read_yaml(path) or ()],
        "names": read_yaml(folder / "facts" / "names.yaml"),
    }
    document["literals"] = _literals(document, folder)
    return document


def _rule_entries(folder: Path) -> dict[str, Any]:
    """Return the entries of the built-in rules by their path relative to the folder."""
    entries: dict[str, Any] = {}
    seen: dict[str, Path] = {}
    for path in rule_files(folder):
        if path.parent in {folder, folder / "facts"}:
            continue
        entry = read_yaml(path)
        try:
            rule_id = rule_of(entry, str(path)).id
        except (KeyError, TypeError, AttributeError) as error:
            check_text(read_text(path), str(path))
            raise RuleError(f"{path}:1:1: {error}") from error
        if rule_id in seen:
            raise RuleError(f"{path}:1:1: the id `{rule_id}` is also in {seen[rule_id]}")
        seen[rule_id] = path
        entries[path.relative_to(folder).as_posix()] = {key: value for key, value in entry.items() if key != "tests"}
    return entries


def _literals(document: Document, folder: Path) -> dict[str, Any]:
    """Return the required literals of each regular expression of the rules, the facts and the markers."""
    found: dict[str, Any] = {}
    for place, entry in _patterns(document, folder):
        for key in ("pattern", "frames", "not_frames"):
            if key in entry and entry[key] not in found:
                try:
                    found[entry[key]] = required_literals(entry[key])
                except re.error as error:
                    raise RuleError(f"{place}:1:1: `{key}` of `{entry.get('id', '')}`: {error}") from error
    return found


def _patterns(document: Document, folder: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the patterns, each with the file or folder that it is in."""
    for entry in document["facts"]:
        yield folder / "facts", entry
    for entry in document["markers"]:
        yield folder / "phases.yaml", entry
    for name, rule in document["rules"].items():
        for part in ("any", "also", "absent"):
            for entry in rule["match"].get(part, ()):
                yield folder / name, entry
