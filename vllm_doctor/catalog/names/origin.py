"""The package that a source file belongs to."""

from __future__ import annotations

import re

from vllm_doctor.catalog.name_table import row_of
from vllm_doctor.catalog.requirements import is_required


def owner_of(path: str | None) -> str | None:
    """Return the package of a source file: `vllm`, a package in site-packages, "" for other code; None if unknown."""
    if not path:
        return None
    parts = re.sub(r"\.pyc?$", "", path.replace("\\", "/")).split("/")
    installed = [at for at, part in enumerate(parts[:-1]) if part in ("site-packages", "dist-packages")]
    if installed:
        return parts[installed[-1] + 1]
    for at in range(len(parts) - 2, -1, -1):  # in a checkout; other software has folders named vllm too
        if parts[at] == "vllm" and (at <= 2 or parts[at - 1].startswith("vllm")):
            inner = [part for part in parts[at:] if part != "__init__"]
            if all(part.isidentifier() for part in inner) and row_of(".".join(inner)):
                return "vllm"
    return parts[0] if len(parts) > 1 and parts[0] and is_required(parts[0]) else ""
