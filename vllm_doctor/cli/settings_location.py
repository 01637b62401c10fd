"""Find the settings file of a project, from the working directory upward.

In one folder vllm-doctor.toml has precedence over pyproject.toml.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from vllm_doctor.patterns import lazy

OWN_FILE = "vllm-doctor.toml"
PROJECT = "pyproject.toml"
TABLE = "vllm-doctor"
_TOOL = lazy(r"""\s*\[\s*["']?tool["']?\s*\]""")  # [tool], a rare spelling: our table follows on a later line


def places(start: str | os.PathLike[str] = ".") -> Iterator[str]:
    """Yield the files that may hold the settings of a folder, the nearest first."""
    try:
        folder, below = os.path.realpath(start), ""
    except OSError:  # the working directory is gone
        return
    while folder != below:
        own, project = os.path.join(folder, OWN_FILE), os.path.join(folder, PROJECT)
        if os.path.isfile(own):
            yield own
        if os.path.isfile(project) and _may_have_our_table(project):
            yield project
        folder, below = os.path.dirname(folder), folder


def _may_have_our_table(path: str) -> bool:
    """Return whether a pyproject.toml may have our table. Others are not parsed, so their errors are not reported."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return False
    lines = text.splitlines() if TABLE in text else ()
    return any("tool" in line and (TABLE in line or _TOOL.match(line)) for line in lines)
