"""What a launch expects of a report: the fixes, and the facts that the running server itself gives."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from server import Server, get

_CACHE = re.compile(r"^vllm:cache_config_info\{(.+)\} 1", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def offers(fix: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether a fix of the report is the wanted one (`launches.py` says how it is written)."""
    if "all" in wanted:
        return all(offers(fix, part) for part in wanted["all"])
    if "action" in wanted:
        return bool(fix["action"] == wanted["action"])
    name = wanted.get("flag") or wanted["env"]
    changes = {**fix["flags"], **dict.fromkeys(fix["unset"]), **fix["env"]}
    if name not in changes:
        return False
    value = changes[name]
    if wanted.get("remove"):
        return name in fix["unset"] or (value is None and name in fix["env"])
    if name in fix["unset"]:
        return not {"value", "contains", "min", "max"} & set(wanted)
    if "value" in wanted and str(value) != str(wanted["value"]):
        return False
    if "contains" in wanted and str(wanted["contains"]) not in str(value):
        return False
    if "min" in wanted or "max" in wanted:
        try:
            return bool(wanted.get("min", -math.inf) <= float(value) <= wanted.get("max", math.inf))
        except (TypeError, ValueError):
            return False
    return True


def truths(server: Server, model: Path | None) -> dict[str, Any]:
    """What is so of a server that serves, by fact name: from its own answers and the model's files, not from its log."""
    found: dict[str, Any] = {}
    status, version = get(server.port, "/version")
    if status == 200:
        found["vllm_version"] = str(version["version"]).partition("+")[0].partition(".post")[0]  # packaged again
    status, served = get(server.port, "/v1/models")
    if status == 200:
        found["max_model_len"] = served["data"][0].get("max_model_len")
    cache = _cache_config(server.port)
    if cache.get("num_gpu_blocks", "None") != "None":
        found["num_gpu_blocks"] = int(cache["num_gpu_blocks"])
        found["kv_cache_tokens"] = int(cache["num_gpu_blocks"]) * int(cache["block_size"])
    if model and (model / "config.json").is_file():
        config = json.loads((model / "config.json").read_text(encoding="utf-8"))
        if config.get("architectures"):
            found["architecture"] = config["architectures"][0]
    return {name: value for name, value in found.items() if value is not None}


def contradicted(truth: dict[str, Any], facts: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The facts of a report that are not so: name -> (what is so, what the report says). A fact it does not give is none."""
    return {name: (value, facts[name]) for name, value in truth.items() if facts.get(name) is not None and not _same(value, facts[name])}


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, int) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=0.006)
    return str(one) == str(other)


def _cache_config(port: int) -> dict[str, str]:
    status, text = get(port, "/metrics", plain=True)
    found = _CACHE.search(text) if status == 200 else None
    return dict(_LABEL.findall(found[1])) if found else {}
