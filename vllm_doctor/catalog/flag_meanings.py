"""What each flag of `vllm serve` does, in one sentence, and its default in words (flag_meanings.yaml)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vllm_doctor.catalog.flag_table import COMPUTED, Flag, release_index
from vllm_doctor.catalog.yaml_catalog import read_catalog
from vllm_doctor.messages import N_


def meaning(name: str) -> str:
    """Return what the flag does, in one sentence; "" for a flag that is not described."""
    return _texts()["meanings"].get(name, "")


def default_text(flag: Flag, version: str | None = None) -> str:
    """Return what that release uses if the flag is not given: the parser's default, or what vLLM decides, in words.

    What vLLM decides is described for the newest release that has the flag; for older ones it is "decided at startup".
    """
    default = flag.default(version)
    if default is None or default is COMPUTED or default == {}:
        is_newest = release_index(version) >= flag.last_index
        decided = _texts()["unset"].get(flag.name)
        if decided:
            return decided if is_newest else N_("decided at startup")
    if default is COMPUTED:
        return N_("decided at startup")
    if default is None:
        return N_("not set")
    if isinstance(default, bool):
        return N_("on") if default else N_("off")
    return f"`{_typed(default)}`" if default or default == 0 else N_("empty")


def _typed(default: Any) -> str:
    """Return a default as it is typed on the command line."""
    if isinstance(default, str):
        return default
    return json.dumps(default, default=lambda value: dict(value) if isinstance(value, Mapping) else list(value))


def _texts() -> Mapping[str, Mapping[str, str]]:
    texts: Mapping[str, Mapping[str, str]] = read_catalog("flag_meanings.yaml")
    return texts
