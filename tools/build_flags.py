"""Generate vllm_doctor/catalog/flags.jsonl: which flag, value and default exist in which vLLM release.

    python tools/build_flags.py SDISTS_DIR [-o vllm_doctor/catalog/flags.jsonl]

SDISTS_DIR is what tools/sdists.py wrote. Everything is read from the sources (see release_flags.py); nothing is
imported. The same sources give the same file byte for byte, so the next release is one command and a small diff.
Values that differ between releases are lists of change points: [[first release, value], ...]. A default that only
running vLLM would give is {"?": its expression}; null means unset, or that vLLM decides at start.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import yaml
from release_flags import Argument, Release
from sdists import unpacked

SCHEMA = 1


# -- all releases together ------------------------------------------------------------------------------------------------


def changes(values: dict[str, Any], releases: list[str]) -> list[list[Any]]:
    """Return the change points [[release, value], ...] of the values per release."""
    points: list[list[Any]] = []
    for release in releases:
        if release in values and (not points or points[-1][1] != values[release]):
            points.append([release, values[release]])
    return points


def spans(present: set[str], releases: list[str]) -> list[list[str | None]]:
    """Return lifetimes as [[first, last], ...]; `last` is null if the lifetime includes the newest release."""
    found: list[list[str | None]] = []
    before = False
    for release in releases:
        if release in present:
            if before:
                found[-1][1] = release
            else:
                found.append([release, release])
        before = release in present
    if before:
        found[-1][1] = None
    return found


def flag_entry(by_release: dict[str, Argument], releases: list[str]) -> dict[str, Any]:
    """Return the history of a flag in compact form, without empty attributes."""

    def points(attribute: str) -> list[list[Any]]:
        values = {r: getattr(a, attribute) for r, a in by_release.items()}
        plain = {r: list(v) if isinstance(v, tuple) else v for r, v in values.items()}
        return changes(plain, releases)

    entry: dict[str, Any] = {"life": spans(set(by_release), releases), "kind": points("kind")}
    for attribute in ("items", "default", "choices"):
        found = points(attribute)
        if attribute == "default" or any(value is not None for _, value in found):
            entry[attribute] = found
    if "choices" in entry:
        entry["open"] = points("open_choices")
    aliases = {r: [n for n in a.names if n != a.name] for r, a in by_release.items()}
    if any(aliases.values()):
        entry["aliases"] = changes(aliases, releases)
    for attribute in ("negatable", "inverse", "keyword", "deprecated"):
        found = points(attribute)
        if any(value for _, value in found):
            entry[attribute] = found
    return entry


def check_successor(
    name: str, replaced_by: dict[str, Any], entries: dict[str, Any], releases: list[str]
) -> None:
    """Raise ValueError if a flag or its replacement is not in the table, or not since the given release."""
    if name not in entries:
        raise ValueError(f"successor of a flag that never existed: {name}")
    if unknown := set(replaced_by) - {"since", "set", "values", "note"}:
        raise ValueError(f"successor of {name}: unknown keys {sorted(unknown)}")
    last = entries[name]["life"][-1][1]
    since = replaced_by.get("since") or (releases[releases.index(last) + 1] if last else releases[-1])
    for choice in (replaced_by.get("set", {}), *replaced_by.get("values", {}).values()):
        for flag in choice:
            life = entries.get(flag.partition(".")[0], {}).get("life")
            if not life or since not in releases or releases.index(life[0][0]) > releases.index(since):
                raise ValueError(f"successor of {name}: {flag} does not exist in {since}")


def build(directory: Path, successors: dict[str, Any]) -> dict[str, Any]:
    """Return the entire table. Raises ValueError for a release that cannot be read."""
    flags: dict[str, dict[str, Argument]] = {}
    variables: dict[str, dict[str, Any]] = {}
    releases: list[str] = []
    for root in unpacked(directory).values():
        release = Release(root)
        version = str(release.version)
        releases.append(version)
        found = release.arguments()
        for argument in found:
            flags.setdefault(argument.name, {})[version] = argument
        environment = release.environment()
        for name, default in environment.items():
            variables.setdefault(name, {})[version] = default
        print(f"{version}: {len(found)} flags, {len(environment)} variables", file=sys.stderr)
    entries = {name: flag_entry(flags[name], releases) for name in sorted(flags)}
    for name, replaced_by in successors.items():
        check_successor(name, replaced_by, entries, releases)
        entries[name]["replaced_by"] = replaced_by
    environment_entries = {
        name: {"life": spans(set(found), releases), "default": changes(found, releases)}
        for name, found in sorted(variables.items())
    }
    return {"schema": SCHEMA, "releases": releases, "flags": entries, "env": environment_entries}


def dump(table: dict[str, Any]) -> str:
    """Return JSON Lines: the releases, then one flag or variable per line as [name, entry]."""
    rows: list[Any] = [{"schema": table["schema"], "releases": table["releases"]}]
    rows += [*table["flags"].items(), *table["env"].items()]
    return "".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n" for row in rows)


def main(arguments: list[str] | None = None) -> int:
    """Write the table and return the exit status: 0, or 1 if a release cannot be read."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Make the table of vLLM's flags by release.")
    parser.add_argument("sdists", type=Path, metavar="SDISTS_DIR")
    parser.add_argument("-o", "--output", type=Path, default=here.parent / "vllm_doctor" / "catalog" / "flags.jsonl")
    parser.add_argument("--successors", type=Path, default=here / "flag_successors.yaml")
    options = parser.parse_args(arguments)
    successors = (
        yaml.safe_load(options.successors.read_text(encoding="utf-8")) if options.successors.exists() else {}
    )
    try:
        table = build(options.sdists, successors or {})
    except ValueError as problem:
        print(f"build_flags: {problem}", file=sys.stderr)
        return 1
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(dump(table), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
