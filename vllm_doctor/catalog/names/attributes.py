"""Attributes that a class of vLLM does not have."""

from __future__ import annotations

from vllm_doctor.catalog.name_table import (
    bases_of,
    classes,
    indices,
    possible_releases,
    releases_with_attribute,
    releases_with_name,
    row_of,
)
from vllm_doctor.catalog.names.directions import Direction, judge

_V1_SWITCH = "VLLM_USE_V1"  # VLLM_USE_V1=0 chooses the V0 engine in the releases that have both


def missing_attribute(cls: str, name: str, release: str | None, owner: str | None) -> Direction | None:
    """Return what it means that a class of vLLM lacks an attribute which code of `owner` reads."""
    keys = classes(cls)
    if not keys or owner == "vllm":  # vLLM's own code: a bug in vLLM, or a matter of the object's state
        return None
    question = Direction("unknown", f"{cls}.{name}", release=release)
    always = {key: releases_with_attribute(key, name) for key in keys}
    in_some_branch = frozenset[int]().union(*(releases_with_attribute(key, f"{name}?", "i") for key in keys))
    every = in_some_branch.union(*always.values())
    possible = possible_releases(release)
    present_in = [key for key in keys if (row := row_of(key)) and possible <= indices(row[1])]
    with_attribute = [key for key in present_in if possible <= always[key]] if possible else []
    if with_attribute:
        without_attribute = [key for key in present_in if key not in with_attribute]
        if (
            without_attribute
            and all(key.startswith("vllm.v1.") for key in without_attribute)
            and possible <= releases_with_name("vllm.envs", _V1_SWITCH)
        ):
            module, _, local = with_attribute[0].partition(":")
            return question._replace(kind="v0-engine", name=f"{module}.{local}.{name}")
        if without_attribute:
            return None
    elif possible & in_some_branch:
        return None
    if not every:
        return question if all(_is_closed(key) for key in keys) else None
    answer = judge(every, question)
    by_class = (judge(releases_with_attribute(key, name, "m"), question) for key in keys)
    if answer.kind == "incomplete" and any(other != answer for other in by_class):
        return None  # an instance attribute, which depends on the object's state
    return answer


def _is_closed(key: str, depth: int = 6) -> bool:
    """Return whether a class and its bases are all vLLM's, so that all attributes are known."""
    row = row_of(key)
    if row is None or not depth or any("__getattr__" in words.split(" ") for words in row[2].get("m", {}).values()):
        return False
    return all(base in {"ABC", "object", "Generic", "Protocol"}
               or (module.startswith("vllm") and _is_closed(f"{module}:{base}", depth - 1))
               for _, module, base in bases_of(row))
