"""Read the catalogs that are YAML files of this package."""

from __future__ import annotations

import json
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from vllm_doctor.catalog.json_cache import cached

CATALOGS = ("features.yaml", "frontends.yaml", "next_steps.yaml", "setting_terms.yaml")
"""Those that are read at every start; the wheel has them as JSON too (`hatch_build.py`)."""


@lru_cache(maxsize=16)
def read_catalog(name: str) -> Any:
    """Return the value of a catalog: from JSON, which takes a fiftieth of the time."""
    source = Path(__file__).with_name(name)
    shipped = source.with_suffix(".json")
    if shipped.exists():
        return json.loads(shipped.read_bytes())
    return cached(source, [source], partial(parse_yaml, source))


def parse_yaml(source: Path) -> Any:
    """Return the value of a YAML file of this package."""
    import yaml  # noqa: PLC0415 - the values are cached

    return yaml.safe_load(source.read_text(encoding="utf-8"))
