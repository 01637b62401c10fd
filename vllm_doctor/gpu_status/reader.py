"""Find the output of GPU tools in a text: nvidia-smi, nvitop, gpustat, rocm-smi, amd-smi, npu-smi, xpu-smi, hl-smi.

A table counts however its spaces and line breaks were squeezed by copying. Each layout is a module; the cards of one
layout never complete those of another, except the names that a second output of the same tool gives.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from vllm_doctor.gpu_status import columns, listings, tables
from vllm_doctor.gpu_status.card import Card
from vllm_doctor.text.patterns import lazy_pattern

_MOST = 1 << 18  # characters that are searched; people paste less
_MOST_CARDS = 128
# A literal of each alternative below: most logs hold none of them.
_WORDS = ("-smi", "-SMI", "NVITOP", "nvitop", "gpustat", "nvtop", "iB /", "iB/", "iB  /", "memory.", "VRAM", "/ ",
          "FB Memory Usage", "HBM-Usage", "GPU Memory Used", "Memory Physical Size", "NPU   Name", "Gi/")
_HINTS = lazy_pattern(
    r"(?i)-smi\b|nvitop|gpustat|nvtop|MiB\s*/|GiB\s*/|memory\.(?:used|total|free)|VRAM|FB Memory Usage|HBM-Usage"
    r"|GPU Memory Used|Memory Physical Size|NPU   Name|\d / {0,6}\d{3,6} {1,60}\||\d / \d{3,6} MB\b|Gi/[\d.]+Gi")


def _may_show_cards(text: str) -> bool:
    return any(word in text for word in _WORDS) and _HINTS.search(text) is not None


def cards_in(text: str) -> list[Card]:
    """Return the GPUs that outputs of their tools in a text show, in the order of their lines."""
    text = text[:_MOST]
    if not _may_show_cards(text):
        return []
    text = text.replace("\r\n", "\n")
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    found = [card._replace(line=bisect_right(starts, card.line))
             for layout in (tables, columns, listings) for card in layout.cards(text)]
    return sorted(found, key=lambda card: card.line)[:_MOST_CARDS]


def line_numbers(text: str) -> frozenset[int]:
    """Return the numbers of the lines that belong to tables of GPU tools, which no server printed."""
    if not _may_show_cards(text[:_MOST]):
        return frozenset()
    return frozenset(number for number, line in enumerate(text.splitlines(), 1) if tables.is_row(line))
