"""The contents of `rules/` as one file, for a quick start: reading 200 YAML files takes a quarter of a second.

Its first line, JSON, holds what every log needs: the wordings to look for. Each further line is a rule, read when the
rule is asked for, with the trees of its expressions and words (`language`).

The wheel carries the index (`hatch_build.py` makes it). A checkout keeps it in the user's cache, under a name made of
the files' paths, sizes and times, so a changed file is never missed; where the cache cannot be written, YAML is read.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import vllm_doctor
from vllm_doctor import expressions, words
from vllm_doctor.errors import RuleError
from vllm_doctor.facts import FactName
from vllm_doctor.rule_files import check_text, read_text, read_yaml
from vllm_doctor.rules import Action, Marker, Pattern, Rule, RuleBase, Stall, Wording, pattern_of, rule_of, wordings

NAME = "index.jsonl"


class _Rules(Mapping[str, Rule]):
    """The built-in rules by id, each read when it is asked for."""

    def __init__(self, folder: Path, lines: Mapping[str, bytes]) -> None:
        self._folder = folder
        self._lines = lines
        self._read: dict[str, Rule] = {}

    def __getitem__(self, rule_id: str) -> Rule:
        if rule_id not in self._read:
            record = json.loads(self._lines[rule_id])
            expressions.known_trees.update(record["trees"])
            entry = record["rule"]
            self._read[rule_id] = rule_of(entry, str(self._folder / entry["path"]))
        return self._read[rule_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


@lru_cache(maxsize=1)
def builtin() -> RuleBase:
    """The rules that ship with vllm-doctor. Raises RuleError."""
    folder = rules_folder()
    shipped = folder / NAME
    if shipped.is_file():
        return _base(folder, shipped.read_bytes())
    cached = _cache() / f"rules-{_stamp(folder)}.jsonl"
    with contextlib.suppress(OSError, ValueError, LookupError):
        if _private(cached.parent):
            return _base(folder, cached.read_bytes())
    made = make(folder)
    with contextlib.suppress(OSError):
        _save(cached, made)
    return _base(folder, made)


def rules_folder() -> Path:
    """Where the built-in rules stand: inside the installed package (`_rules`), or in the checkout."""
    here = Path(__file__).resolve().parent
    for folder in (here / "_rules", here.parent / "rules"):
        if folder.is_dir():
            return folder
    raise RuleError("the built-in rules are missing from this installation")


def _base(folder: Path, index: bytes) -> RuleBase:
    """What an index holds. Raises ValueError or LookupError when it is damaged."""
    head, *lines = index.splitlines()
    known = json.loads(head)
    expressions.known_trees.update(known["trees"])
    return RuleBase(
        rules=_Rules(folder, dict(zip(known["rules"], lines, strict=True))),
        wordings=[Wording(rule, part, Pattern(*entry)) for rule, part, entry in known["wordings"]],
        facts=[Pattern(*entry) for entry in known["facts"]],
        names={entry[0]: FactName(*entry) for entry in known["names"]},
        actions={entry[0]: Action(*entry) for entry in known["actions"]},
        markers=[Marker(Pattern(*entry), phase, status) for entry, phase, status in known["markers"]],
        stalls={entry[0]: Stall(*entry) for entry in known["stalls"]},
        healthy=known["healthy"],
    )


def make(folder: Path) -> bytes:
    """The index, from the YAML files themselves. Raises RuleError."""
    entries: dict[str, dict[str, Any]] = {}
    rules: dict[str, Rule] = {}
    for path in _files(folder):
        if path.parent.name in {"facts", folder.name}:
            continue
        entry = {**read_yaml(path), "path": str(path.relative_to(folder))}
        try:
            rule = rule_of(entry, str(path))
        except (KeyError, TypeError, AttributeError) as error:
            check_text(read_text(path), str(path))
            raise RuleError(f"{path}:1:1: {error}") from error
        if rule.id in rules:
            raise RuleError(f"{path}:1:1: the id `{rule.id}` is also in {rules[rule.id].path}")
        rules[rule.id], entries[rule.id] = rule, entry
    actions = [Action(name, entry["title"], tuple(entry.get("steps", ())))
               for name, entry in read_yaml(folder / "actions.yaml").items()]
    stalls = [Stall(phase, **entry) for phase, entry in read_yaml(folder / "stalls.yaml").items()]
    head = {
        "rules": list(rules),
        "wordings": [wording for rule in rules.values() for wording in wordings(rule)],
        "facts": [pattern_of(entry) for path in sorted((folder / "facts").glob("*.yaml")) if path.name != "names.yaml"
                  for entry in read_yaml(path) or ()],
        "names": [_fact(name, entry) for name, entry in read_yaml(folder / "facts" / "names.yaml").items()],
        "actions": actions,
        "markers": [Marker(pattern_of(entry), entry.get("phase", ""), entry.get("status", ""))
                    for entry in read_yaml(folder / "phases.yaml")],
        "stalls": stalls,
        "trees": _trees((stall.when for stall in stalls), (step for action in actions for step in action.steps)),
        "healthy": _whole(read_yaml(folder / "healthy.yaml")),
    }
    lines = [head, *({"rule": entries[name], "trees": _trees_of(rule)} for name, rule in rules.items())]
    return b"".join(json.dumps(line, default=_plain).encode() + b"\n" for line in lines)


def _whole(entries: Iterable[Mapping[str, Any]]) -> str:
    """One expression for whole lines, behind the prefix of a vLLM process."""
    return rf"(?:\(\w+ pid=\d+\) )?(?:{'|'.join(entry['pattern'] for entry in entries)})"


def _fact(name: str, entry: Mapping[str, Any]) -> FactName:
    ignored = tuple(str(value) for value in entry.get("ignore", ()))
    return FactName(name, entry["type"], entry["merge"], entry["about"], entry.get("args", ""),
                    entry.get("config", ""), entry.get("flag", ""), ignored, entry.get("args_unit", ""))


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


def _trees_of(rule: Rule) -> dict[str, expressions.Tree]:
    sources: list[Any] = [*rule.when, *rule.unless]
    sources += [source for alternatives in rule.let.values() for source in alternatives]
    said = [rule.title, rule.verify, *words.split(rule.explain)]
    for fix in rule.fixes:
        sources += [*fix.when, *fix.set.values(), *fix.env.values()]
        said += [fix.title, fix.why, fix.cost, fix.verify]
    return _trees((source for source in sources if isinstance(source, str)), said)


def _trees(sources: Iterable[str], said: Iterable[str]) -> dict[str, expressions.Tree]:
    """The trees of expressions and of words. What is neither is told by the lint, and where it is used."""
    made: dict[str, expressions.Tree] = {}
    with contextlib.suppress(expressions.ExpressionError):
        made.update({source: expressions.parse(source).tree for source in sources if source})
        made.update({text: words.parse(text) for text in said if "{" in text})
    return made


def _files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.yaml"))


def _stamp(folder: Path) -> str:
    import hashlib  # noqa: PLC0415 - only in a checkout

    digest = hashlib.sha256(f"{vllm_doctor.__version__} {folder}".encode())
    for path in _files(folder):
        status = path.stat()
        digest.update(f"{path.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vllm-doctor"


def _private(folder: Path) -> bool:
    """Whether nobody else could have written there."""
    status = folder.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _save(path: Path, made: bytes) -> None:
    """Write beside and rename, so that no other process reads half a file; drop the caches of older rules."""
    import tempfile  # noqa: PLC0415 - only when rules have changed

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.NamedTemporaryFile("wb", dir=path.parent, delete=False) as file:
        file.write(made)
    os.replace(file.name, path)
    for old in path.parent.glob("rules-*.json*"):
        if old != path:
            old.unlink(missing_ok=True)
