"""Read the catalogs that are YAML files of this package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def read_catalog(name: str) -> Any:
    """Return the value of a catalog, read by libyaml where PyYAML has it: a tenth of the time, at every start."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - a safe loader
