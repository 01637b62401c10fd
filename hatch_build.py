"""Put the compiled rules into the wheel (see vllm_doctor/rulebase/compiler.py)."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class IndexHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs before the wheel is packed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile rules/ and add the document; not in an editable install, where rules are still being written."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from vllm_doctor.rulebase.compiler import compile_rules  # noqa: PLC0415 - of the tree being built
        from vllm_doctor.rulebase.loader import COMPILED  # noqa: PLC0415

        folder = tempfile.mkdtemp()
        path = Path(folder) / COMPILED
        path.write_text(json.dumps(compile_rules(Path(self.root) / "rules"), default=str), encoding="utf-8")
        build_data["force_include"][str(path)] = f"vllm_doctor/_rules/{COMPILED}"
