"""Modules that are loaded when they are needed, by their names."""

from __future__ import annotations

import sys
from types import ModuleType


def module(name: str) -> ModuleType:
    """What `importlib.import_module` gives, without `importlib`, which costs a start 1 ms."""
    __import__(name)
    return sys.modules[name]
