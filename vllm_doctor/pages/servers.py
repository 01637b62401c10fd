"""Which excerpts of output on a page are of one server: those whose facts and times can belong together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from vllm_doctor.logs.pasted_text import Row
from vllm_doctor.pages import line_kinds
from vllm_doctor.pages.page_text import TextLine
from vllm_doctor.text.patterns import lazy_pattern

T = TypeVar("T")

_PROCESS = lazy_pattern(r"\((?P<name>[A-Za-z]\w*)(?: rank=(?P<rank>\d{1,5}))? pid=(?P<pid>\d{1,9})")
_TIME = lazy_pattern(r"(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) (?:\d{4}-)?(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)")
# A value of which a server has one; two excerpts without a common value are of two servers.
_IDENTITIES = tuple(lazy_pattern(pattern) for pattern in (
    r"\bmodel='([^']{1,300})'", r"API server version ([\w.+]{3,40})|LLM engine \(v?([\w.+]{3,40})\)",
    r"tensor_parallel_size=(\d{1,5})", r"gpu_memory_utilization=([\d.]{1,9})\b",
    r"max(?:_model_len|_seq_len|imum model length|'s max seq len)(?:=| \(| is )(\d{2,9})",
    r"(?:[Mm]odel loading took|[Ll]oading model weights took|weights take) ([\d.]{1,9})",
    r"GPU KV cache size: ([\d,]{1,15})", r"total capaci?ty of ([\d.]{1,9}) GiB",
    r"Available KV cache memory: (-?[\d.]{1,9})", r"available KV cache memory \((-?[\d.]{1,9}) GiB",
))
_UTILIZATION = lazy_pattern(r"gpu_memory_utilization(?:=|': ?)([\d.]{1,9})")
_HELD = lazy_pattern(r"total capaci?ty of ([\d.]{1,9}) GiB.{0,200}this process has ([\d.]{1,9}) GiB memory in use",
                   re.DOTALL)
_SPREAD = 1.25  # a process may hold more than its budget: CUDA graphs, activations, the CUDA context
_OUTSIDE = 2.0  # GiB
_STAGES = tuple(lazy_pattern(pattern) for pattern in (
    r"Starting to load model|Loading weights took|[Mm]odel loading took|Loading model weights took|Initializing an? ",
    r"GPU KV cache size|Available KV cache memory|# GPU blocks|No available memory for the cache|KV cache is needed",
    r"Graph capturing finished|Capturing CUDA graph", r"init engine |Application startup complete|Available routes are",
    r"Avg prompt throughput|\"(?:GET|POST) /",
))
_FAILED = lazy_pattern(
    r"Traceback \(most recent|(?:Error|Exception): |out of memory|EngineCore failed|died unexpectedly")
_BACKWARDS = 120  # seconds; lines of several processes are not in order


def with_server_boundaries(excerpts: Sequence[Sequence[TextLine]],
                           make: Callable[[tuple[Row, ...], int, bool], T]) -> Iterator[T]:
    """Yield the excerpts, made with whether each begins another server than the one before."""
    server: list[str] = []
    for lines in excerpts:
        own = "\n".join(line.text for line in lines)
        output = [line for line in lines if line_kinds.is_output(line.text)]
        is_new = bool(server) and (_contradict("\n".join(server), own) or _starts_again("\n".join(server), lines))
        server = [own] if is_new else [*server, own]
        first = (output or list(lines))[0].number
        yield make(tuple(Row(line.number, line.text) for line in lines), first, is_new)


def _contradict(before: str, own: str) -> bool:
    """Return whether the facts, processes or times of two texts cannot be of one server."""
    for pattern in _IDENTITIES:
        earlier, later = _values(pattern, before), _values(pattern, own)
        if earlier and later and not earlier & later:
            return True
    earlier_ids, later_ids = _processes(before), _processes(own)
    if any(earlier_ids[key].isdisjoint(later_ids[key]) for key in earlier_ids.keys() & later_ids.keys()):
        return True
    last, first = max(_seconds(before), default=None), min(_seconds(own), default=None)
    if last is not None and first is not None and first < last - _BACKWARDS:
        return True
    return _exceeds(before, own) or _exceeds(own, before)


def _values(pattern: re.Pattern[str], text: str) -> set[str]:
    return {next(filter(None, match.groups()), "") for match in pattern.finditer(text)}


def _processes(text: str) -> dict[tuple[str, str], set[str]]:
    """Return the process ids of each name and rank; ranks without a number share a name."""
    found: dict[tuple[str, str], set[str]] = {}
    for match in _PROCESS.finditer(text):
        found.setdefault((match["name"], match["rank"] or ""), set()).add(match["pid"])
    return found


def _seconds(text: str) -> list[int]:
    return [((int(month) * 31 + int(day)) * 24 + int(hour)) * 3600 + int(minute) * 60 + int(second)
            for month, day, hour, minute, second in _TIME.findall(text)]


def _exceeds(settings: str, failure: str) -> bool:
    """Return whether a process holds far more than the share of the memory that the settings give it."""
    shares = {float(value) for value in _UTILIZATION.findall(settings) if value.replace(".", "", 1).isdigit()}
    return any(float(held) > max(shares) * float(total) * _SPREAD + _OUTSIDE
               for total, held in _HELD.findall(failure) if shares)


def _starts_again(before: str, lines: Sequence[TextLine]) -> bool:
    """Return whether an excerpt shows a start from its beginning after another one that failed or served."""
    own = "\n".join(line.text for line in lines)
    typed = any(line_kinds.is_command(line.text) and not line_kinds.is_output(line.text) for line in lines)
    has_failed = _FAILED.search(before) is not None
    if typed and has_failed:
        return True
    reached = max((at for at, stage in enumerate(_STAGES) if stage.search(before)), default=-1)
    begins = min((at for at, stage in enumerate(_STAGES) if stage.search(own)), default=len(_STAGES))
    return begins == 0 and (reached > 0 or has_failed)
