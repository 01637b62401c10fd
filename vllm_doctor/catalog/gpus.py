"""The total memory of GPUs by name, as reported by cudaMemGetInfo."""

from __future__ import annotations

import re

from vllm_doctor.text.patterns import lazy_pattern

# GiB; all words must occur in the GPU's name, and the first match counts. Drivers and ECC change the total by 0.1-0.3.
# GPUs sold with two memory sizes under one name (H20, RTX 3080) are listed with the size in the name, or not at all.
_TOTALS: tuple[tuple[str, float], ...] = (
    ("a100 80gb", 79.25), ("a800 80gb", 79.25), ("a100 40gb", 39.49), ("h100 nvl", 93.1),
    ("h100 80gb", 79.19), ("h100 pcie", 79.19), ("h800", 79.19), ("h200", 139.8), ("h20 3e", 139.8),
    ("b200", 178.35), ("rtx pro 6000", 94.97), ("rtx 6000 ada", 47.5), ("rtx a6000", 47.53),
    ("rtx a5000", 23.68), ("l40s", 44.4), ("l40", 44.4), ("l20", 44.53), ("a10g", 22.05), ("a10", 21.99),
    ("l4", 22.05), ("t4", 14.58), ("v100 32gb", 31.74), ("v100 16gb", 15.77), ("rtx 5090", 31.36),
    ("rtx 5080", 15.48), ("rtx 4090", 23.52), ("rtx 3090", 23.69), ("gb10", 121.69), ("mi300x", 191.98),
)
NAMES: tuple[str, ...] = tuple(name.replace(" ", "-") for name, _ in _TOTALS)
"""The names as typed on the command line, such as `h100-80gb`."""

_VGPU_PROFILE = lazy_pattern(r"\d{1,3}[abcq]")
_SIZE = lazy_pattern(r"(\d{1,18}(?:\.\d{1,18})?)\s*(gib|gb|mib|mb)?", re.IGNORECASE)
_FACTORS = {"gib": 1.0, "gb": 1e9 / 2**30, "mib": 1 / 1024, "mb": 1e6 / 2**30}
# Short names and the GPU they usually mean.
_SHORT_NAMES = {"a100": "a100 80gb", "h100": "h100 80gb", "v100": "v100 16gb", "a800": "a800 80gb",
          "4090": "rtx 4090", "3090": "rtx 3090", "5090": "rtx 5090", "5080": "rtx 5080", "a6000": "rtx a6000"}


def _words(name: str) -> set[str]:
    return set(name.lower().replace("-", " ").replace("_", " ").split())


def total_for_gpu(gpu_name: str) -> float | None:
    """Return the usual total of a GPU of that name in GiB, an estimate.

    None for an unknown name, a MIG slice, a slice of NVIDIA vGPU (`A10-8Q`) and a laptop GPU.
    """
    words = _words(gpu_name)
    if words & {"mig", "laptop"} or any(map(_VGPU_PROFILE.fullmatch, words)):
        return None
    return next((total for name, total in _TOTALS if words.issuperset(name.split())), None)


def gib_of(text: str) -> float | None:
    """Return the GiB of a GPU given as a size (`24GiB` or `24`; `80GB` is 80 * 10**9 bytes) or a name (`h100-80gb`).

    None for any other text.
    """
    size = _SIZE.fullmatch(text.strip())
    if size is not None:
        gib = float(size.group(1)) * _FACTORS[(size.group(2) or "gib").lower()]
        # A number without unit from 1024 on is a model number (4090), not a size.
        if gib > 0 and (size.group(2) or gib < 1024):
            return gib
    name = _SHORT_NAMES.get(text.strip().lower().replace("nvidia-", ""), text)
    return total_for_gpu(name)
