"""Calls whose paths a paste shortened to the file: `mamba_utils.py` is vLLM's if it has the function."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from vllm_doctor.catalog.name_table import rows_with
from vllm_doctor.failures.model import Candidate, Frame
from vllm_doctor.text.patterns import lazy_pattern

_FILE = lazy_pattern(r"(?:\.{2,3}/)?(?P<tail>(?:[a-z_]\w*/){0,6}[a-z_]\w*)\.py")
_COMMON = frozenset({"main", "run", "forward", "wrapper", "inner", "load", "step", "get", "generate", "build", "init"})
"""Functions that programs of users have as well."""
_SHORTEST = 6  # letters of a function that names a module


def with_full_paths(candidate: Candidate) -> Candidate:
    """Return the candidate with the paths of vLLM's own files in the calls that show the end of a path only."""
    found = tuple(_full(frame) for frame in candidate.frames)
    return candidate if found == candidate.frames else candidate._replace(frames=found)


def _full(frame: Frame) -> Frame:
    match = _FILE.fullmatch(frame.path)
    function = frame.function.rpartition(".")[2]
    if match is None or len(function) < _SHORTEST or function in _COMMON or function.startswith(("<", "__")):
        return frame
    modules = _modules(match["tail"].replace("/", "."), function)
    if len(modules) != 1:
        return frame
    return frame._replace(path=f"{modules[0].replace('.', '/')}.py", shown=frame.path)


@lru_cache(maxsize=256)
def _modules(tail: str, function: str) -> Sequence[str]:
    """Return the modules of vLLM with this end that have the function, in the module or a class of it."""
    found = {key for kind in ("", ":") for row in rows_with(function, kind)
             if (key := row[0].partition(":")[0]) == tail or key.endswith(f".{tail}")}
    return sorted(found)
