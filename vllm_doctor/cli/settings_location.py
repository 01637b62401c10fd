"""Find the settings file of a project, from the working directory upward.

In one folder vllm-doctor.toml has precedence over pyproject.toml.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from vllm_doctor.errors import InputError
from vllm_doctor.text.patterns import lazy_pattern
from vllm_doctor.text_files import read_bytes

OWN_FILE = "vllm-doctor.toml"
PROJECT = "pyproject.toml"
TABLE = "vllm-doctor"
_TOOL = lazy_pattern(r"""\s*\[\s*["']?tool["']?\s*\]""")  # [tool], a rare spelling: our table follows on a later line


def places(start: str | os.PathLike[str] = ".") -> Iterator[str]:
    """Yield the files that may hold the settings of a folder, the nearest first."""
    try:
        folder, below = os.path.realpath(start), ""
    except OSError:  # the working directory is gone
        return
    while folder != below:
        own, project = os.path.join(folder, OWN_FILE), os.path.join(folder, PROJECT)
        if os.path.lexists(own):  # what is no file is told when it is read, not passed over
            yield own
        if os.path.isfile(project) and _may_have_our_table(project):
            yield project
        folder, below = os.path.dirname(folder), folder


def _may_have_our_table(path: str) -> bool:
    """Return whether a pyproject.toml may have our table. Others are not parsed, so their errors are not reported."""
    try:
        text = read_bytes(path).decode("utf-8", "replace")
    except InputError:
        return False
    lines = text.splitlines() if TABLE in text else ()
    return any("tool" in line and (TABLE in line or _TOOL.match(line)) for line in lines)
