"""The units of memory in the outputs of GPU tools: all of them mean powers of two, also where they print MB and GB."""

from __future__ import annotations

from vllm_doctor.text.size_units import GIB_OF_UNIT

_MOST = 1 << 16  # GiB; no GPU has more


def gib(number: str, unit: str = "M") -> float | None:
    """Return a size in GiB; None if it is no size of a GPU's memory."""
    try:
        value = float(number.replace(",", "")) * GIB_OF_UNIT.get(unit[:1].upper(), 0.0)
    except ValueError:
        return None
    return value if 0 <= value <= _MOST else None
