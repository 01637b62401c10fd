"""Tables of GPU tools: nvidia-smi, hl-smi, xpu-smi 2, nvitop, npu-smi, amd-smi, gpustat, nvtop.

A card is found by its bus id or its place in a row, and takes the next memory figure that no other card took. So it
does not matter where copying left out spaces, column marks or line breaks. `Card.line` is an offset here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice

from vllm_doctor.gpu_status.card import Card, Process
from vllm_doctor.gpu_status.units import gib
from vllm_doctor.text.patterns import lazy_pattern

_BAR = r"[|\u2502\u2503\u2551\u2506\u250a]"
_BUS = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]"
_TOOL = lazy_pattern(
    r"(?:(?P<tool>NVIDIA-SMI|HL-SMI|XPU-SMI|NVITOP|AMD-SMI|PPU-SMI)\b[^\n|]{0,80}?"
    r"(?:Driver(?: Version)?|amdgpu version)|(?P<npu>npu-smi)\b[^\n|]{0,80}?Version): {0,60}(?P<driver>[\w.+-]{3,40})"
    r"|(?P<bare>NVIDIA-SMI|HL-SMI|XPU-SMI|NVITOP|npu-smi|AMD-SMI)\b"
    r"|Driver Version: {1,60}(?P<later>\d[\w.+-]{2,40})")
_ON = r"(?:On|Off|N/A|WDDM|TCC|MCDM|Disabled|Enabled|[ED])"
_MEMORY = lazy_pattern(
    r"(?<![\d.])(?P<used>\d{1,7}(?:\.\d{1,3})?) ?(?P<unit>[MG])i?B? ?/ {0,6}"
    r"(?P<total>\d{1,7}(?:\.\d{1,3})?) ?(?P<total_unit>[MG])i?B\b")
_DEVICE = lazy_pattern(
    r"(?<![\d.:])(?P<index>\d{1,3}) {1,8}(?P<name>[A-Z][\w./()+@-]{0,40}(?: [\w./()+@-]{1,40}){0,8}?)"
    rf" {{1,40}}(?:{_ON} {{0,20}})?(?:{_BAR} {{0,12}})?(?P<bus>{_BUS})")
_MIG = lazy_pattern(
    rf"(?<!\d)(?P<index>\d{{1,3}}) {{1,6}}(?P<gi>\d{{1,2}}) {{1,6}}(?P<ci>\d{{1,2}}) {{1,6}}(?P<dev>\d{{1,2}}) {{0,6}}"
    rf"{_BAR} {{0,40}}(?P<used>\d{{1,7}}) ?MiB ?/ {{0,6}}(?P<total>\d{{1,7}}) ?MiB")
_MIG_TITLE = lazy_pattern(r"MIG devices:|GI {1,6}CI {1,6}MIG\b")
_NAMELESS = lazy_pattern(  # compact rows: index, fan, temperature, power, memory
    rf"(?m)^[ ]{{0,4}}{_BAR} {{0,6}}(?P<index>\d{{1,3}}) {{1,8}}(?:\d{{1,3}}%|N/A|MAX) [^\n|\u2502]{{0,60}}{_BAR}"
    r" {0,40}(?P<used>\d{1,7}(?:\.\d{1,3})?) ?(?P<unit>[MG])i?B ?/ {0,6}(?P<total>\d{1,7}(?:\.\d{1,3})?) ?"
    r"(?P<total_unit>[MG])i?B")
_NPU = lazy_pattern(rf"{_BAR} {{0,6}}(?P<index>\d{{1,3}}) {{1,9}}(?P<name>[A-Za-z0-9][\w-]{{1,30}}) {{0,40}}{_BAR}"
                  r" {0,6}(?:OK|Warning|Alarm|Critical|UNKNOWN)\b")
_NPU_MEMORY = lazy_pattern(
    rf"{_BAR} {{0,6}}(?P<chip>\d{{1,3}})(?: {{1,9}}(?P<phy>\d{{1,3}}))? {{0,40}}{_BAR} {{0,6}}(?:{_BUS}|NA)"
    rf" {{0,12}}{_BAR}"
    r"(?P<figures>[ \d./%-]{3,120})")
_RATIO = lazy_pattern(r"(\d{1,7}) {0,6}/ {0,6}(\d{1,7})")
_AMD = lazy_pattern(
    rf"(?P<bus>{_BUS}) {{1,40}}(?P<name>[A-Z][\w./()+-]{{0,40}}(?: [\w./()+-]{{1,40}}){{0,6}}) {{0,40}}{_BAR}")
_AMD_MEMORY = lazy_pattern(
    rf"{_BAR} {{0,6}}(?P<index>\d{{1,3}}) {{1,20}}[\w/ -]{{1,60}}{_BAR}[^\n|\u2502]{{0,60}}?(?P<used>\d{{1,7}}) ?/ ?"
    r"(?P<total>\d{1,7}) ?MB")
_GPUSTAT = lazy_pattern(
    r"\[(?P<index>\d{1,3})\] (?P<name>[A-Z][^\n|\[\]]{1,60}?) {0,12}\|[^\n|]{1,60}\| {0,8}(?P<used>\d{1,7}) / {0,8}"
    r"(?P<total>\d{1,7}) MB")
_NVTOP = lazy_pattern(
    r"Device (?P<index>\d{1,3}) \[(?P<name>[^\[\]\n]{1,60})\](?:[^\n]{0,200}\n){0,3}?[^\n]{0,120}?MEM\[[| ]{0,120}"
    r"(?P<used>\d{1,5}\.\d{1,3})Gi/(?P<total>\d{1,5}\.\d{1,3})Gi\]")
_PROCESS = lazy_pattern(
    r"(?<!\d)(?P<index>\d{1,3}) {1,20}(?:(?:N/A|\d{1,3}) {1,20}(?:N/A|\d{1,3}) {1,20})?(?P<pid>\d{2,9})"
    r" {1,20}(?:C|G|C\+G|M\+C|M) {1,20}(?P<name>\S[^\n|\u2502]{0,200}?) {1,90}(?P<used>\d{1,7}) ?MiB\b")
_GPUSTAT_TOOLS = ("gpustat", "nvtop")
_ROW = lazy_pattern(rf"\s{{0,8}}(?:[+|\u2502\u2503\u2551\u251c\u2560\u2554\u255a\u2552\u2558\u255e\u2500\u2550=-]"
                  rf"[^\n]{{0,400}}[+|\u2502\u2503\u2551\u2524\u2563\u2557\u255d\u2555\u255b\u2561=-]"
                  rf"|\+[-=+]{{10,200}}|{_BAR}[ =+-]{{1,200}})\s{{0,8}}$")
_BUS_ID = lazy_pattern(_BUS)
_MOST_CARDS, _MOST_PROCESSES, _MOST_TOOLS = 128, 512, 64  # of a text; no machine has more


def is_row(line: str) -> bool:
    """Return whether a line is a row of a table of a GPU tool."""
    return len(line) <= 512 and (_ROW.match(line) is not None or (_BUS_ID.search(line) is not None and "|" in line))


def cards(text: str) -> Iterator[Card]:
    """Yield the cards in the tables of a text; `line` is the offset of the memory figure."""
    tools = sorted(islice(_tools(text), _MOST_TOOLS))
    processes = list(islice(_PROCESS.finditer(text), _MOST_PROCESSES))
    layouts = (_nvidia(text), _npu(text), _amd(text), _simple(text))
    found = list(chain.from_iterable(islice(layout, _MOST_CARDS) for layout in layouts))
    seen: set[tuple[int, str]] = set()
    for card in sorted(found, key=lambda one: one.line):
        if (card.line, card.instance) in seen:
            continue
        seen.add((card.line, card.instance))
        tool, driver = _tool_at(tools, card.line, card.tool)
        table = _table_at(tools, card.line)
        own = tuple(Process(int(one["pid"]), one["name"][:120], gib(one["used"])) for one in processes
                    if int(one["index"]) == card.number and _table_at(tools, one.start()) == table)
        yield card._replace(tool=tool, driver=driver, processes=own[:64])


def _tools(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (offset, tool, driver) for each heading of a table."""
    for match in _TOOL.finditer(text):
        tool = match["tool"] or match["npu"] or match["bare"] or ""
        yield match.start(), tool.lower(), match["driver"] or match["later"] or ""


def _table_at(tools: list[tuple[int, str, str]], at: int) -> int:
    """Return the offset of the last heading that names a tool before an offset; -1 without one."""
    return max((begin for begin, tool, _ in tools if tool and begin <= at), default=-1)


def _tool_at(tools: list[tuple[int, str, str]], at: int, usual: str) -> tuple[str, str]:
    """Return the tool that the table at an offset is of, and the driver's version it names."""
    begin = _table_at(tools, at)
    name = next((tool for start, tool, _ in tools if start == begin), "") or usual
    if usual in {"npu-smi", "amd-smi", *_GPUSTAT_TOOLS}:
        name = usual
    driver = next((version for start, _, version in tools if begin <= start <= at and version), "")
    # npu-smi prints its own version, which is the driver package's.
    return name, driver


def _nvidia(text: str) -> Iterator[Card]:
    """Yield the cards of nvidia-smi and the tools with its layout: hl-smi, xpu-smi 2, nvitop."""
    title = _MIG_TITLE.search(text)
    instances = [] if title is None else list(_MIG.finditer(text, title.end()))
    taken = {match.start("used") for match in instances}
    names: dict[int, str] = {}
    events = sorted(chain(_DEVICE.finditer(text), _MEMORY.finditer(text)), key=lambda match: match.start())
    device: re.Match[str] | None = None
    whole: list[Card] = []
    for match in events:
        if "name" in match.re.groupindex:
            device = match
            names[int(match["index"])] = _name(match["name"])
        elif device is not None and match.start() not in taken:
            whole.append(Card("nvidia-smi", int(device["index"]), gib(match["total"], match["total_unit"]),
                              gib(match["used"], match["unit"]), name=_name(device["name"]), line=match.start()))
            device = None
    split = {int(match["index"]) for match in instances}
    yield from (card for card in whole if card.number not in split)
    for match in instances:
        index = int(match["index"])
        yield Card("nvidia-smi", index, gib(match["total"]), gib(match["used"]), name=names.get(index, ""),
                   line=match.start("used"), instance=f"MIG {match['gi']}/{match['ci']}/{match['dev']}")
    if not names:
        for match in _NAMELESS.finditer(text):
            yield Card("nvidia-smi", int(match["index"]), gib(match["total"], match["total_unit"]),
                       gib(match["used"], match["unit"]), line=match.start("used"))


def _npu(text: str) -> Iterator[Card]:
    """Yield the chips of npu-smi: a row with the name, then a row with the HBM figures at its end."""
    events = sorted(chain(_NPU.finditer(text), _NPU_MEMORY.finditer(text)), key=lambda match: match.start())
    name, index = "", -1
    for match in events:
        if "name" in match.re.groupindex:
            name, index = match["name"], int(match["index"])
            continue
        ratios = [(used, total) for used, total in _RATIO.findall(match["figures"]) if int(total) > 0]
        if ratios and index >= 0:
            used, total = ratios[-1]
            place = match["phy"] if match["phy"] is not None else index
            yield Card("npu-smi", int(place), gib(total), gib(used), name=_npu_name(name), line=match.start("figures"))


def _npu_name(name: str) -> str:
    return name if name.startswith("Ascend") else f"Ascend {name}"


def _amd(text: str) -> Iterator[Card]:
    """Yield the cards of the amd-smi table of ROCm 7."""
    events = sorted(chain(_AMD.finditer(text), _AMD_MEMORY.finditer(text)), key=lambda match: match.start())
    name = ""
    for match in events:
        if "name" in match.re.groupindex:
            name = _name(match["name"])
        elif name:
            yield Card("amd-smi", int(match["index"]), gib(match["total"]), gib(match["used"]), name=name,
                       line=match.start("used"))


def _simple(text: str) -> Iterator[Card]:
    """Yield the cards of gpustat and nvtop, one in a line."""
    for match in _GPUSTAT.finditer(text):
        yield Card("gpustat", int(match["index"]), gib(match["total"]), gib(match["used"]), name=_name(match["name"]),
                   line=match.start("used"))
    for match in _NVTOP.finditer(text):
        yield Card("nvtop", int(match["index"]), gib(match["total"], "G"), gib(match["used"], "G"),
                   name=_name(match["name"]), line=match.start("used"))


def _name(name: str) -> str:
    """Return a card's name without the setting in the column behind it."""
    return re.sub(rf" {{1,40}}{_ON}$", "", name.strip()).strip(" .")
