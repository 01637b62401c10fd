"""CSV and column output of GPU tools: nvidia-smi --query-gpu, xpu-smi, rocm-smi --csv, amd-smi monitor.

`Card.line` is an offset here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vllm_doctor.gpu_status.card import Card
from vllm_doctor.gpu_status.units import gib
from vllm_doctor.text.patterns import lazy_pattern

_QUERY = lazy_pattern(r"--query-gpu[= ](?P<fields>[\w.,]{4,400})")
_FIELDS = {
    "memory.total": "total", "memory.used": "used", "memory.free": "free", "name": "name", "gpu_name": "name",
    "index": "index", "driver_version": "driver", "vram total memory (b)": "total",
    "vram total used memory (b)": "used",
    "device": "index", "gpu": "index", "deviceid": "index", "device id": "index", "gpu memory used (mib)": "used",
    "card series": "name", "vram_total": "total", "vram_used": "used", "vram_free": "free", "market_name": "name",
    "total_vram": "total", "used_vram": "used", "free_vram": "free",
}
_HEADING = lazy_pattern(r"(?i)memory\.(?:used|free|total)|vram (?:total|used)|GPU Memory Used|(?:total|used)_vram")
_NUMBER = lazy_pattern(r"(\d{1,15}(?:\.\d{1,6})?) ?([KMGT])?i?B?\b")
_MONITOR = lazy_pattern(r"(?m)^[ \t]{0,8}GPU\b[^\n]{0,300}\bVRAM_?(?:USED|USAGE)\b[^\n]{0,200}$")
_MONITOR_CELL = lazy_pattern(r"(\d{1,9}(?:\.\d{1,3})?)(?:/ ?(\d{1,9}(?:\.\d{1,3})?))? ?([MG])i?B\b")
_MONITOR_NAMES = lazy_pattern(r"VRAM_?(USED|FREE|TOTAL|USAGE)\b")
_MOST_ROWS = 256
_LONGEST = 2048  # characters of a row


def cards(text: str) -> Iterator[Card]:
    """Yield the cards in CSV and column output; `line` is the offset of the row."""
    yield from _csv(text)
    for heading in _MONITOR.finditer(text):
        yield from _monitor(text, heading)


def _rows(text: str, begin: int) -> Iterator[tuple[int, str]]:
    """Yield (offset, line) of the lines from an offset on, up to an empty one."""
    for _ in range(_MOST_ROWS):
        end = text.find("\n", begin)
        line = text[begin:] if end < 0 else text[begin:end]
        if not line.strip():
            return
        yield begin, line
        if end < 0:
            return
        begin = end + 1


def _csv(text: str) -> Iterator[Card]:
    asked: list[str] = []
    begin = row = 0  # `row` numbers the cards of a table without their index
    stamp, sampled = None, ""  # the column of the times, the last one
    columns: list[tuple[str, str]] = []
    for line in text.split("\n"):
        at, begin = begin, begin + len(line) + 1
        query = _QUERY.search(line)
        if query:
            asked = query["fields"].strip(",").split(",")
            columns, row = [(_FIELDS.get(name.lower(), ""), "M") for name in asked], 0
            continue
        is_single = len(columns) == 1 and _NUMBER.fullmatch(line.strip()) is not None
        if len(line) > _LONGEST or ("," not in line and not is_single):
            columns = columns if not line.strip() or line.startswith(("$", "#", "```")) else []
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if _HEADING.search(line):
            columns, row = [_column(cell) for cell in cells], 0
            stamp = next((place for place, cell in enumerate(cells) if cell.strip('"') == "timestamp"), None)
            continue
        if stamp is not None and len(cells) == len(columns) and cells[stamp] != sampled:
            row, sampled = 0, cells[stamp]  # of a query that is repeated
        card = _card(cells, columns, row, at) if columns and len(cells) == len(columns) else None
        if card is not None:
            row += 1
            yield card


def _column(heading: str) -> tuple[str, str]:
    """Return what a column holds and the unit of its plain numbers."""
    name = heading.strip().strip('"').lower()
    unit = "B" if "(b)" in name else "M"
    return _FIELDS.get(re.sub(r" ?\[[^\]]{0,12}\]$", "", name), ""), unit


def _card(cells: Sequence[str], columns: Sequence[tuple[str, str]], row: int, at: int) -> Card | None:
    sizes: dict[str, float | None] = {}
    index, name, driver = row, "", ""
    for cell, (kind, unit) in zip(cells, columns, strict=True):
        text = cell.strip('"')
        if kind == "index":
            digits = re.search(r"\d{1,3}$", text)
            index = int(digits[0]) if digits else 0
        elif kind == "name":
            name = text[:80]
        elif kind == "driver":
            driver = text[:40]
        elif kind and (match := _NUMBER.fullmatch(text)):
            sizes[kind] = gib(match[1], match[2] or unit)
    if not sizes:
        return None
    tool = "nvidia-smi" if any(kind in {"driver", "free"} for kind, _ in columns) else "csv"
    return Card(tool, index, sizes.get("total"), sizes.get("used"), sizes.get("free"), name, driver, at)


def _monitor(text: str, heading: re.Match[str]) -> Iterator[Card]:
    """Yield the rows of `amd-smi monitor`, whose VRAM columns are the cells with a unit of memory."""
    kinds = _MONITOR_NAMES.findall(heading[0])
    begin = heading.end() + 1
    for at, line in _rows(text, begin):
        index = re.match(r"\s{0,8}(\d{1,3})\s", line)
        cells = _MONITOR_CELL.findall(line)
        if index is None or not cells:
            return
        sizes: dict[str, float | None] = {}
        for kind, (first, second, unit) in zip(kinds, cells, strict=False):
            if kind == "USAGE" or second:
                sizes.update(USED=gib(first, unit), TOTAL=gib(second, unit) if second else None)
            else:
                sizes[kind] = gib(first, unit)
        yield Card("amd-smi", int(index[1]), sizes.get("TOTAL"), sizes.get("USED"), sizes.get("FREE"), line=at)
