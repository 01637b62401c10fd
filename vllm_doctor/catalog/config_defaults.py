"""Defaults of vLLM's configuration classes (config_defaults.yaml)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vllm_doctor.catalog.yaml_catalog import read_catalog


def config_defaults() -> Mapping[str, Mapping[str, Any]]:
    """Return by class the fields whose default is the same in every release, with it."""
    defaults: Mapping[str, Mapping[str, Any]] = read_catalog("config_defaults.yaml")
    return defaults
