"""Unit letters as vLLM parses them: k is 1,000, K is 1,024 (human_readable_int in engine/arg_utils.py)."""

from __future__ import annotations

from collections.abc import Mapping

DECIMAL: Mapping[str, int] = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
BINARY: Mapping[str, int] = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
FACTORS: Mapping[str, int] = {"": 1, **DECIMAL, **BINARY}
GIB_OF_UNIT: Mapping[str, float] = {"B": 2.0**-30, **{unit: factor / 2**30 for unit, factor in BINARY.items()}}
"""The size of each unit in GiB; where vLLM prints GB, it means GiB."""
