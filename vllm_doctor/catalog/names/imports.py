"""Names and modules that an import does not find: of vLLM, or of a package that it requires."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from vllm_doctor.catalog.name_table import (
    Indices,
    indices,
    possible_releases,
    present,
    releases,
    releases_with_name,
    row_of,
    rows_with,
    table,
)
from vllm_doctor.catalog.names.directions import Direction, judge
from vllm_doctor.catalog.names.origin import owner_of
from vllm_doctor.catalog.requirements import is_required, requirement

MAX_OVERLAP = 14  # releases in which a moved name also exists in its old module


def missing_name(match: re.Match[str], release: str | None, owner: str | None) -> Direction | None:
    """Return what it means that a module lacks a name: `match` has both, and the module's file if the log shows it."""
    groups = match.groupdict()
    module, name, path, partial = groups["module"], groups["name"], groups.get("path") or "", groups["partial"]
    if module.split(".", maxsplit=1)[0] != "vllm":
        return dependency(module, f"{module}.{name}", release, owner)
    question = Direction("unknown", f"{module}.{name}", release=release, path=path)
    found = releases_with_name(module, name)
    if path == "unknown location" or (found and path and not path.endswith(".so") and owner_of(path) != "vllm"):
        return question._replace(kind="shadowed")
    if partial:
        return question._replace(kind="shadowed") if owner_of(path) != "vllm" and path else None
    row = row_of(module)
    possible = possible_releases(release)
    if _is_built(f"{module}.{name}") or _has_built_part(module):
        return question._replace(kind="incomplete", condition="built")
    if owner == "vllm":
        return question._replace(kind="incomplete")
    if row and name in row[2].get("c", {}) and possible and possible <= found:
        return question._replace(kind="conditional", condition=row[2]["c"][name])
    answer = judge(found, question)
    if answer.kind in ("older", "unknown") and possible:
        moved = _new_place(module, name, found, possible)
        if moved:
            return answer._replace(kind="moved", moved_to=moved)
    if answer.kind == "unknown" and any(rows_with(name, "")):
        return None  # another module has it; the table does not show whether this one imports it
    return answer


def missing_module(module: str, plain: bool, release: str | None, owner: str | None) -> Direction | None:
    """Return what it means that a module is not found; `plain` says that its parent is a file and no package."""
    if module.split(".", maxsplit=1)[0] != "vllm":
        return dependency(module, module, release, owner)
    question = Direction("unknown", module, release=release)
    if plain:
        return question._replace(kind="shadowed")
    if module == "vllm":
        return question._replace(kind="not-installed")
    row = row_of(module)
    found = indices(row[1]) if row else frozenset()
    possible = possible_releases(release)
    if (_is_built(module) or _has_built_part(module.rpartition(".")[0])) and possible <= (found or possible):
        return question._replace(kind="incomplete", condition="built")
    if owner == "vllm":
        return question._replace(kind="incomplete")
    answer = judge(found, question)
    if answer.kind == "older" and row and possible:
        moved = _new_module(row, found, possible)
        if moved:
            return answer._replace(kind="moved", moved_to=moved)
    return answer


def _is_built(module: str) -> bool:
    """Return whether a module is built: it is not in a source checkout."""
    row = row_of(module)
    return bool(row) and row is not None and row[2].get("c", {}).get("") == "built"


def _has_built_part(module: str) -> bool:
    """Return whether the build adds modules to a subpackage of vllm."""
    return module.count(".") == 1 and any(
        _is_built(match[1].decode())
        for match in re.finditer(rb'\n\["(%s\.\w+)",' % re.escape(module).encode(), table())
    )


def _new_place(module: str, name: str, found: Indices, possible: Indices) -> str:
    """Return `module.name` where a name from `module` is in the user's release; "" unless it is certain."""
    candidates: list[tuple[bool, int, int, str]] = []
    for row in rows_with(name, ""):
        present_in = present(row[2].get("n", {}), name, row[1])
        is_reexport = not present_in
        present_in |= present(row[2].get("r", {}), name, row[1])
        if cls := row_of(f"{row[0]}:{name}"):
            present_in = indices(cls[1])  # the module may have imported it before its definition moved here
        if row[0] == module or not possible <= present_in:
            continue
        # A move leaves no gap; a name that existed there long before is a different object.
        if found and not (min(found) < min(present_in) <= max(found) + 1 <= min(present_in) + MAX_OVERLAP):
            continue
        shared = len([1 for left, right in zip(row[0].split("."), module.split("."), strict=False) if left == right])
        candidates.append((is_reexport, -shared, len(row[0]), row[0]))
    if not candidates or (not found and len(candidates) > 3):
        return ""
    return f"{min(candidates)[-1]}.{name}"


def _new_module(row: list[Any], found: Indices, possible: Indices) -> str:
    """Return the module that has most names of a removed module; "" if they are spread out or gone."""
    last = max(found)
    names = [
        word
        for life, words in row[2].get("n", {}).items()
        if last in indices(life or row[1])
        for word in words.split(" ")
        if not word.startswith("__")
    ]
    places: Counter[str] = Counter()
    asked = sorted(names, key=len, reverse=True)[:8]
    for name in asked:
        for other in rows_with(name, ""):
            present_in = present(other[2].get("n", {}), name, other[1])
            if other[0] != row[0] and possible <= present_in:
                places[other[0]] += 1
    best = places.most_common(1)
    return best[0][0] if best and best[0][1] * 2 > len(asked) else ""


def dependency(module: str, name: str, release: str | None, owner: str | None) -> Direction | None:
    """Return the required packages, if vLLM or one of its dependencies misses a name of another package."""
    top, _, _ = module.partition(".")
    if owner == "" or (owner not in (None, "vllm") and not is_required(owner)):
        return None  # the release's requirements do not cover other software's imports
    packages = [one for one in dict.fromkeys((top if owner in (None, "vllm") else owner, top)) if is_required(one)]
    if not packages:
        return None
    possible = possible_releases(release)
    if not possible:
        return Direction("dependency", name, "package", release)
    at = releases()[max(0, *possible)]
    required = [found for one in packages if (found := requirement(one, at))]
    if not required:
        return None  # optional in this release
    return Direction(
        "dependency",
        name,
        "package",
        release,
        requirements=tuple(one.wanted for one in required),
        asked=tuple(one.asked for one in required),
        tested=tuple(f"{one.package} {one.tested}" for one in required if one.tested),
    )
