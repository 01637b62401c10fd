"""Parameters that a function does not accept or asks for, and methods that a subclass lacks."""

from __future__ import annotations

import re

from vllm_doctor.catalog.name_table import (
    Indices,
    bases_of,
    classes,
    indices,
    possible_releases,
    present,
    releases_with_attribute,
    releases_with_name,
    releases_with_parameter,
    row_of,
    rows_with,
    spans_of,
)
from vllm_doctor.catalog.names.directions import Direction, before_all, judge, toward

_PASSED_ON = ("EngineArgs", "AsyncEngineArgs")
_LOADER = ("LLM", "EngineArgs", "AsyncEngineArgs", "SamplingParams", "PoolingParams")


def _callables(callee: str) -> list[str]:
    """Return the keys of a TypeError's callee: classes for `C.f`, modules for a function `f`."""
    parts = [part for part in callee.split(".") if part != "<locals>"]
    if len(parts) > 1:
        return classes(parts[-2])
    return [row[0] for row in rows_with(parts[0], "") if row[2].get("f", {}).get(parts[0])]


def _accepts(key: str, function: str, parameter: str) -> Indices:
    """Return the releases in which a function of a module or a method of a class has a parameter."""
    found: Indices = frozenset()
    for spelling in (parameter, f"{parameter}="):
        if ":" in key:
            found |= releases_with_parameter(key, function, spelling)
        elif row := row_of(key):
            found |= present(row[2].get("f", {}).get(function, {}), spelling, row[1])
    return found


def unexpected_parameter(
    callee: str, parameter: str, release: str | None, owner: str | None, *, is_struct: bool = False
) -> Direction | None:
    """Return what it means that a callable does not accept a parameter."""
    function = callee.rpartition(".")[2]
    keys = _callables(callee)
    question = Direction("unknown", f"{callee}({parameter})", "parameter", release)
    if not keys and "." not in callee:  # Python before 3.10 and msgspec name no class
        keys = [row[0] for row in rows_with(parameter, ":") if function in row[2].get("p", {})]
        keys = [key for key in keys if _accepts(key, function, parameter)]
        if is_struct:
            keys = [key for key in keys if _is_struct(key)]
        answers = {judge(_accepts(key, function, parameter), question) for key in keys}
        if len({answer for answer in answers if answer.kind != "incomplete"}) > 1:
            keys = [key for key in keys if key.partition(":")[2] in _LOADER]
        else:
            keys = [
                key for key in keys if judge(_accepts(key, function, parameter), question).kind != "incomplete"
            ] or keys
    if any(key.partition(":")[2] in _PASSED_ON for key in keys):
        owner = None  # LLM() passes on its caller's arguments
    found = frozenset[int]().union(*(_accepts(key, function, parameter) for key in keys))
    if found:
        answer = judge(found, question)
        return answer if owner != "vllm" or answer.kind == "incomplete" else None
    if keys:
        known = any((row := row_of(key)) and function in row[2].get("p" if ":" in key else "f", {}) for key in keys)
        return question if known and owner != "vllm" else None
    return _plugin(function, parameter, question)


def _is_struct(key: str, depth: int = 6) -> bool:
    """Return whether a class is a msgspec.Struct."""
    row = row_of(key)
    return row is not None and depth > 0 and any(
        base == "Struct" or (module.startswith("vllm") and _is_struct(f"{module}:{base}", depth - 1))
        for _, module, base in bases_of(row))


def _plugin(function: str, parameter: str, question: Direction) -> Direction | None:
    """Return the direction for a subclass outside vLLM whose vLLM base class has the parameter since one release."""
    firsts = set()
    cls = question.name.split("(")[0].split(".")[0]
    if function == "__init__":
        suffixes = (cls[at.start() :] for at in re.finditer(r"[A-Z]", cls))
        keys = next((same for suffix in suffixes if (same := classes(suffix))), [])
    else:
        keys = [row[0] for row in rows_with(parameter, ":") if function in row[2].get("p", {})]
    for key in keys:
        if found := _accepts(key, function, parameter):
            firsts.add(min(found))
    return before_all(firsts, question)


def missing_argument(callee: str, parameter: str, release: str | None, owner: str | None) -> Direction | None:
    """Return what it means that a callable requires a parameter which the code does not give."""
    function = callee.rpartition(".")[2]
    possible = possible_releases(release)
    for key in _callables(callee) if owner != "vllm" else ():
        row = row_of(key)
        if row is None:
            continue
        if ":" in key:
            required = releases_with_parameter(key, function, parameter)
            existing = releases_with_attribute(key, function, "m") or indices(row[1])
        else:
            required = present(row[2].get("f", {}).get(function, {}), parameter, row[1])
            existing = releases_with_name(key, function)
        without_parameter = existing - required
        if not required or not without_parameter or (possible and not possible <= required):
            continue
        question = Direction("unknown", f"{callee}({parameter})", "required parameter", release)
        before = [span for span in spans_of(without_parameter) if span[1] < min(possible or required)]
        after = [span for span in spans_of(without_parameter) if span[0] > max(possible or required)]
        if before:
            return toward(question, "older", before[-1])
        if after:
            return toward(question, "newer", after[0])
    return None


def abstract_method(cls: str, method: str, release: str | None) -> Direction | None:
    """Return what it means that a subclass outside vLLM lacks an abstract method."""
    if classes(cls):
        return None  # vLLM's own class
    firsts = set()
    for row in rows_with(method, ":"):
        found = present(row[2].get("a", {}), method, row[1])
        if found and (not possible_releases(release) or possible_releases(release) <= found):
            firsts.add(min(found))
    return before_all(firsts, Direction("unknown", f"{cls}.{method}", "abstract method", release))
