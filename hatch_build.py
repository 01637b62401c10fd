"""Put compiled rules, catalogs and the compiled template of the text report into the wheel."""

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
        """Compile and add them; not in an editable install, where they are still being written."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from jinja2 import ModuleLoader  # noqa: PLC0415 - like the package itself, of the environment of the build

        from vllm_doctor.catalog.yaml_catalog import CATALOGS, parse_yaml  # noqa: PLC0415
        from vllm_doctor.reports import to_text  # noqa: PLC0415
        from vllm_doctor.rulebase.compiler import compile_rules  # noqa: PLC0415
        from vllm_doctor.rulebase.loader import COMPILED  # noqa: PLC0415

        root = Path(self.root)
        package = root / "vllm_doctor"
        made = {package / "_rules" / COMPILED: json.dumps(compile_rules(root / "rules"), default=str)}
        for name in CATALOGS:
            source = package / "catalog" / name
            made[source.with_suffix(".json")] = json.dumps(parse_yaml(source))
        made[to_text.COMPILED / ModuleLoader.get_module_filename(to_text.TEMPLATE)] = to_text.compiled()
        folder = Path(tempfile.mkdtemp())
        for place, text in made.items():
            path = folder / place.name
            path.write_text(text, encoding="utf-8")
            build_data["force_include"][str(path)] = place.relative_to(root).as_posix()
