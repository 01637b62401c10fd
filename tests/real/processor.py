"""What Linux says that the processor can do."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1)
def flags() -> frozenset[str]:
    """The flags of /proc/cpuinfo, as `avx512f` and `amx_tile`."""
    return frozenset(Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("flags")[2].partition("\n")[0].split())
