"""Where a project's settings may stand: looked for from the working directory upward.

In one folder vllm-doctor.toml comes before pyproject.toml. Most runs find none, and need nothing of `settings`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from vllm_doctor.errors import InputError
from vllm_doctor.patterns import lazy
from vllm_doctor.text_files import read_bytes

OWN_FILE = "vllm-doctor.toml"
PROJECT = "pyproject.toml"
TABLE = "vllm-doctor"
_TOOL = lazy(r"""\s*\[\s*["']?tool["']?\s*\]""")  # [tool], as nobody writes it: our table is a line below


def places(start: str | os.PathLike[str] = ".") -> Iterator[str]:
    """The files that may hold settings for a folder, the one that counts first."""
    try:
        folder, below = os.path.realpath(start), ""
    except OSError:  # the working directory is gone
        return
    while folder != below:
        own, project = os.path.join(folder, OWN_FILE), os.path.join(folder, PROJECT)
        if os.path.lexists(own):  # what is no file is told when it is read, not passed over
            yield own
        if os.path.isfile(project) and _speaks_of_us(project):
            yield project
        folder, below = os.path.dirname(folder), folder


def _speaks_of_us(path: str) -> bool:
    """Whether a pyproject.toml may hold our table: one that does not is not parsed, so its faults are not ours."""
    try:
        text = read_bytes(path).decode("utf-8", "replace")
    except InputError:
        return False
    lines = text.splitlines() if TABLE in text else ()
    return any("tool" in line and (TABLE in line or _TOOL.match(line)) for line in lines)
