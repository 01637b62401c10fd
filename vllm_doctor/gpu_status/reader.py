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
# Searched in the text in lower case.
_NAMES = ("nvitop", "gpustat", "nvtop", "vram", "fb memory usage", "gpu memory used", "memory physical size",
          "npu   name")
_SIGNS = (  # of tables without a name
    lazy_pattern(r"-smi\b", cues=("-smi",)),
    lazy_pattern(r"[mg]ib\s*/", cues=("mib", "gib")),
    lazy_pattern(r"memory\.(?:used|total|free)", cues=("memory.",)),
    lazy_pattern(r"(?<=\d) /(?: {0,6}\d{3,6} {1,60}\|| \d{3,6} mb\b)", cues=(" /",)),
    lazy_pattern(r"gi/[\d.]+gi", cues=("gi/",)),
)


def _may_show_cards(text: str) -> bool:
    lower = text.lower()
    return any(name in lower for name in _NAMES) or any(sign.search(lower) for sign in _SIGNS)


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
    return frozenset(number for number, line in enumerate(text.split("\n"), 1) if tables.is_row(line))
