"""Puts the compiled index of the rules into the wheel (see vllm_doctor/rule_compiler.py)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class IndexHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs before the wheel is packed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the index from rules/ and add it; not in an editable install, where rules are still being written."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from vllm_doctor.rulebase.compiler import make  # noqa: PLC0415 - of the tree being built
        from vllm_doctor.rulebase.index import NAME  # noqa: PLC0415

        folder = tempfile.mkdtemp()
        path = Path(folder) / NAME
        path.write_bytes(make(Path(self.root) / "rules"))
        build_data["force_include"][str(path)] = f"vllm_doctor/_rules/{NAME}"
