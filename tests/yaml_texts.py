"""YAML as the tests read it: by libyaml where PyYAML has it, in a tenth of the time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def load(text: str) -> Any:
    """The value of a YAML text."""
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - a safe loader


def load_file(path: Path) -> Any:
    """The value of a YAML file."""
    return load(path.read_text(encoding="utf-8"))
