"""The memory of a device and the table of context lengths."""

from __future__ import annotations

from vllm_doctor.language import ENGLISH, Language
from vllm_doctor.memory import CacheNeed, Memory
from vllm_doctor.messages import N_
from vllm_doctor.reports.model import Report
from vllm_doctor.text.devices import device_word

_LENGTH_HEADS = (N_("Context"), N_("KV cache"), N_("requests at once"), N_("FP8 cache"), N_("requests at once"))
_PARTS = {
    "kv_cache": N_("KV cache"), "cuda_graphs": N_("CUDA graphs"), "non_torch": N_("non-torch memory"),
    "runtime": N_("CUDA context, NCCL, allocator"), "reserved_unallocated": N_("reserved, not allocated"),
    "weights": N_("weights"), "activations": N_("activations"), "other_processes": N_("other processes"),
    "free": N_("free"), "outside_budget": N_("outside budget"), "unaccounted": N_("unaccounted"),
}  # fmt: skip


def memory_shown(report: Report) -> Memory | None:
    """Return the memory, or None unless the log itself reports at least two parts of it."""
    memory = report.memory
    if memory is None or sum(part.origin == "log" for part in memory.parts) < 2:
        return None
    return memory


def memory_title(report: Report) -> str:
    """Return the title of the memory table, such as "Memory of one GPU of 24.00 GiB, budget 21.60 GiB"."""
    _, memory = report.language.say, report.memory
    kind = str(report.facts.get("device") or "")
    device = _("CPU node") if kind == "cpu" else device_word(kind)
    total, budget = (memory.device_gib, memory.budget_gib) if memory is not None else (None, None)
    if total and budget:
        return _("Memory of one {device} of {total:.2f} GiB, budget {budget:.2f} GiB", device=device, total=total,
                 budget=budget)
    if total:
        return _("Memory of one {device} of {total:.2f} GiB", device=device, total=total)
    if budget:
        return _("Memory of one {device}, budget {budget:.2f} GiB", device=device, budget=budget)
    return _("Memory of one {device}", device=device)


def part_label(name: str, language: Language = ENGLISH) -> str:
    """Return the display name of a part of the memory."""
    labels = [_PARTS.get(part, part.replace("_", " ")) for part in name.split("_and_")]
    return language.gettext(", ").join(map(language.gettext, labels))


def length_heads(report: Report) -> tuple[str, ...]:
    """Return the heads of the table of context lengths."""
    return tuple(map(report.language.gettext, _LENGTH_HEADS))


def length_rows(report: Report) -> list[tuple[str, str, str, str, str]]:
    """Return the cells of the table of context lengths, one row per length."""
    language = report.language
    return [(f"{row.tokens:,}", _gib(row.sixteen_bits), _requests(row.sixteen_bits, language),
             _gib(row.fp8), _requests(row.fp8, language)) for row in report.lengths]


def _gib(need: CacheNeed | None) -> str:
    return "" if need is None else f"{need.gib:.2f} GiB"


def _requests(need: CacheNeed | None, language: Language) -> str:
    """Return how many requests fit, and what it takes where not even one does."""
    if need is None or need.requests is None:
        return ""
    if need.requests >= 1:
        return f"{int(need.requests * 10) / 10:,.1f}"
    if need.utilization is not None:
        return language.say("0 (1 at utilization {share:g})", share=need.utilization)
    return "0" if need.suffices else language.say("0 (too long)")
