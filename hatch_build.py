"""Put the compiled rules and catalogs into the wheel (see vllm_doctor/rulebase/compiler.py)."""

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
        """Compile rules and catalogs and add the JSON; not in an editable install, where they are being written."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from vllm_doctor.catalog.yaml_catalog import CATALOGS, parsed  # noqa: PLC0415 - of the tree being built
        from vllm_doctor.rulebase.compiler import compile_rules  # noqa: PLC0415
        from vllm_doctor.rulebase.loader import COMPILED  # noqa: PLC0415

        root = Path(self.root)
        values = {f"_rules/{COMPILED}": compile_rules(root / "rules")}
        for name in CATALOGS:
            source = root / "vllm_doctor" / "catalog" / name
            values[f"catalog/{source.stem}.json"] = parsed(source)
        folder = Path(tempfile.mkdtemp())
        for place, value in values.items():
            path = folder / Path(place).name
            path.write_text(json.dumps(value, default=str), encoding="utf-8")
            build_data["force_include"][str(path)] = f"vllm_doctor/{place}"
