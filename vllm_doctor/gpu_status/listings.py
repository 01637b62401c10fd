"""Listings of GPU tools, a name and a value in each line: nvidia-smi -q, rocm-smi, amd-smi metric, xpu-smi.

`Card.line` is an offset here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from vllm_doctor.gpu_status.card import Card
from vllm_doctor.gpu_status.units import gib
from vllm_doctor.text.patterns import lazy_pattern

# (expression, what it says); `value` is the value, `index` the card it is about where the line names it.
_LINES = lazy_pattern(
    r"(?m)^[ \t>|]{0,12}(?:"
    r"GPU\[(?P<rocm>\d{1,3})\]\s{0,8}: (?:VRAM Total (?P<rocm_used>Used )?Memory \(B\): (?P<bytes>\d{1,15})"
    r"|Card [Ss]eries:\s{1,8}(?P<series>[^\n]{1,80})|Card [Mm]odel:[^\n]{1,80})"
    r"|Driver version: (?P<rocm_driver>[\w.+-]{2,40})"
    r"|GPU: (?P<amd>\d{1,3})\s*$"
    r"|(?P<amd_kind>TOTAL|USED|FREE)_VRAM: (?P<amd_value>\d{1,9}(?:\.\d{1,3})?) (?P<amd_unit>[MG])B"
    r"|MARKET_NAME: (?P<market>[^\n]{1,80})"
    r"|GPU (?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s*$"
    r"|Driver Version\s{1,60}: (?P<q_driver>[\w.+-]{2,40})"
    r"|Product Name\s{1,60}: (?P<product>[^\n]{1,80})"
    r"|(?P<section>FB Memory Usage|BAR1 Memory Usage|Conf Compute Protected Memory Usage)\s*$"
    r"|(?P<q_kind>Total|Used|Free)\s{1,60}: (?P<q_value>\d{1,9}) MiB"
    r"|Device ID\s{1,40}\|\s(?P<xpu>\d{1,3})\s"
    r"|(?P<xpu_row>\d{1,3})\s{1,12}\| Device Name: (?P<xpu_name>[^\n|]{1,80})"
    r"|Device Name:? {0,40}\|? ?(?P<xpu_plain>[^\n|]{1,80})"
    r"|\|? {0,40}Memory Physical Size: (?P<xpu_total>\d{1,9}(?:\.\d{1,3})?) (?P<xpu_unit>[MG])iB"
    r"|GPU Memory Used \(MiB\)\s{1,40}\|(?P<xpu_used>[^\n|]{1,200})"
    r")")
_TILE = lazy_pattern(r"(?:Tile \d{1,2}: ?)?(\d{1,9}(?:\.\d{1,3})?)")
_JSON = lazy_pattern(r'\{\s*"(?:card\d|system)')
_MOST_JSON = 64 * 1024
_MOST_CARDS = 128


class _Draft:
    """A card whose lines are being read."""

    def __init__(self, tool: str, index: int) -> None:
        self.tool = tool
        self.index = index
        self.sizes: dict[str, float] = {}
        self.name = ""
        self.line = 0

    def add(self, kind: str, size: float | None, at: int) -> None:
        if size is not None:
            self.sizes[kind] = size
            self.line = at

    def card(self, driver: str) -> Card:
        return Card(self.tool, self.index, self.sizes.get("total"), self.sizes.get("used"), self.sizes.get("free"),
                    self.name, driver, self.line)


def cards(text: str) -> Iterator[Card]:
    """Yield the cards in listings; `line` is the offset of the last memory figure."""
    drafts: dict[tuple[str, int], _Draft] = {}
    buses: dict[str, int] = {}  # a card's place on the bus -> its number
    current: _Draft | None = None
    driver, section = "", ""

    def draft(tool: str, index: int) -> _Draft:
        if len(drafts) >= _MOST_CARDS:
            return drafts.get((tool, index), _Draft(tool, index))
        return drafts.setdefault((tool, index), _Draft(tool, index))

    for match in _LINES.finditer(text):
        at = match.start()
        if match["rocm"]:
            current = draft("rocm-smi", int(match["rocm"]))
            if match["bytes"]:
                current.add("used" if match["rocm_used"] else "total", gib(match["bytes"], "B"), at)
            elif match["series"]:
                current.name = match["series"].strip()
        elif match["rocm_driver"] or match["q_driver"]:
            driver = match["rocm_driver"] or match["q_driver"]
        elif match["amd"]:
            current = draft("amd-smi", int(match["amd"]))
        elif match["bus"]:
            current, section = draft("nvidia-smi", buses.setdefault(match["bus"], len(buses))), ""
        elif match["section"]:
            section = match["section"]
        elif match["xpu"] or match["xpu_row"]:
            current = draft("xpu-smi", int(match["xpu"] or match["xpu_row"]))
            current.name = (match["xpu_name"] or current.name).strip()
        elif current is not None:
            _read(current, match, section, at)
    yield from (one.card(driver) for one in drafts.values() if one.sizes)
    yield from _json(text)


def _read(current: _Draft, match: re.Match[str], section: str, at: int) -> None:
    """Read a line that names no card itself."""
    if match["amd_kind"]:
        current.add(match["amd_kind"].lower(), gib(match["amd_value"], match["amd_unit"]), at)
    elif match["q_kind"] and section == "FB Memory Usage":
        current.add(match["q_kind"].lower(), gib(match["q_value"]), at)
    elif match["xpu_total"]:
        current.add("total", gib(match["xpu_total"], match["xpu_unit"]), at)
    elif match["xpu_used"]:
        tiles = _TILE.findall(match["xpu_used"])
        if tiles:
            current.add("used", gib(str(sum(map(float, tiles)))), at)
    elif name := match["market"] or match["product"] or match["xpu_plain"]:
        current.name = name.strip()


def _json(text: str) -> Iterator[Card]:
    """Yield the cards of `rocm-smi --showmeminfo vram --json`."""
    match = _JSON.search(text)
    if match is None:
        return
    try:
        found: Any = json.JSONDecoder().raw_decode(text[match.start():match.start() + _MOST_JSON])[0]
    except (ValueError, RecursionError):
        return
    if not isinstance(found, dict):
        return
    system = found.get("system")
    driver = str(system.get("Driver version", ""))[:40] if isinstance(system, dict) else ""
    for key, values in found.items():
        number = re.fullmatch(r"card(\d{1,3})", str(key))
        if number is None or not isinstance(values, dict):
            continue
        total, used = values.get("VRAM Total Memory (B)"), values.get("VRAM Total Used Memory (B)")
        if total is not None:
            name = str(values.get("Card Series", values.get("Card series", "")))[:80]
            yield Card("rocm-smi", int(number[1]), gib(str(total), "B"),
                       gib(str(used), "B") if used is not None else None, name=name, driver=driver, line=match.start())
