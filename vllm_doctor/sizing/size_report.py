"""Render the plan of `vllm-doctor size` as text or JSON."""

from __future__ import annotations

import json
import shlex
from typing import Any

from vllm_doctor.language import ENGLISH, Language
from vllm_doctor.messages import N_, Message, joined, message, say
from vllm_doctor.reports import texts
from vllm_doctor.sizing.changes import Change, four_bit_plan
from vllm_doctor.sizing.kv_pages import layer_kinds
from vllm_doctor.sizing.length_table import length_table
from vllm_doctor.sizing.memory_estimate import Range
from vllm_doctor.sizing.plan import LENGTHS, Plan, PlannedPart
from vllm_doctor.sizing.request_lengths import Lengths, Requests
from vllm_doctor.text.terminal_width import ljust, rjust, wrap
from vllm_doctor.version import __version__

SCHEMA_VERSION = "1.0"
_WORDS = {"full": N_("every token"), "sliding": N_("a window of tokens"), "mla": N_("a latent of every token"),
          "indexer": N_("an index of every token"), "state": N_("a state of fixed size")}
_VERDICTS = {"fits": N_("✓ Fits: {launch}"), "likely": N_("! Probably fits: {launch}"),
             "does-not-fit": N_("✗ Does not fit: {launch}")}


def as_json(plan: Plan, changes: tuple[Change, ...], requests: Requests | None = None,
            language: Language = ENGLISH) -> str:
    """Return the plan as one JSON object."""
    return json.dumps(say(document(plan, changes, requests), language.gettext), indent=2, ensure_ascii=False) + "\n"


def document(plan: Plan, changes: tuple[Change, ...], requests: Requests | None = None) -> dict[str, Any]:
    """Return the plan as plain values. GiB are per GPU; a range has a low, an expected and a high end."""
    layout, model = plan.layout, plan.target.model
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "vllm-doctor", "version": __version__},
        "verdict": plan.verdict,
        "refusal": plan.refusal,
        "model": None if model is None else {
            "path": model.name, "type": model.model_type, "layers": model.num_layers, "dtype": model.dtype,
            "quantization": model.quantization, "kv_layers": layer_kinds(model.layers),
            "weights_by_dtype": model.checkpoint.by_dtype if model.checkpoint else {},
            "max_model_len": model.max_model_len},
        "launch": {
            "vllm_version": plan.launch.release, "max_model_len": plan.length,
            "tensor_parallel_size": plan.launch.tensor_parallel_size,
            "pipeline_parallel_size": plan.launch.pipeline_parallel_size,
            "gpu_memory_utilization": plan.launch.utilization, "max_num_seqs": plan.sequences,
            "max_num_batched_tokens": plan.batched_tokens, "kv_cache_dtype": plan.launch.kv_cache_dtype,
            "enforce_eager": plan.launch.enforce_eager, "cpu_offload_gb": plan.launch.cpu_offload_gb},
        "memory": {
            "device_gib": _round(plan.target.device_gib), "budget_gib": _round(plan.budget_gib),
            "parts": [_part(part) for part in plan.parts]},
        "kv_cache": {
            "gib": _range(plan.kv_gib), "needed_gib": _round(plan.need_gib), "bytes_per_token": layout.bytes_per_token,
            "block_size": layout.block_size, "linear": layout.linear,
            "tokens": {end: plan.tokens(end) for end in ("low", "expected", "high")}},
        "longest_max_model_len": {"cautious": plan.longest(cautious=True), "expected": plan.longest()},
        "concurrency": [
            {"length": length, "cautious": _round(plan.concurrency(length, "low")),
             "expected": _round(plan.concurrency(length))} for length in _lengths(plan)],
        "lengths": [{"tokens": row.tokens, "kv_cache_gib": _round(row.gib), "requests": _round(row.requests),
                     "gpu_memory_utilization": row.utilization,
                     "fp8_kv_cache_gib": None if row.fp8_gib is None else _round(row.fp8_gib),
                     "fp8_requests": None if row.fp8_requests is None else _round(row.fp8_requests)}
                    for row in length_table(plan)],
        "changes": [{"flags": change.flags, "cost": change.cost, "max_model_len": change.plan.length,
                     "kv_cache_gib": _range(change.plan.kv_gib)} for change in changes],
        "requests": None if requests is None else {
            "count": requests.count, "skipped": requests.skipped, "counted": requests.counted or None,
            "prompt_tokens": _percentiles(requests.prompts),
            "output_tokens": _percentiles(requests.outputs) if requests.outputs else None,
            "total_tokens": _percentiles(requests.totals), "needed_max_model_len": requests.needed},
        "notes": list(plan.notes),
    }


def as_text(plan: Plan, changes: tuple[Change, ...], requests: Requests | None = None, width: int = 100,
            language: Language = ENGLISH) -> str:
    """Return the plan as text of at most `width` columns: the verdict, what makes it fit, then the arithmetic."""
    _ = language.say
    lines = [*_head(plan, width, language), "", *_fixes(plan, changes, width, language)]
    lines += [_("Memory of one node, GiB") if plan.launch.device == "cpu" else _("Memory of one GPU, GiB")]
    if plan.launch.device != "cpu":
        lines += [_row(_("total"), Range.exactly(plan.target.device_gib), "", language),
                  _row(_("budget ({share:g} of it)", share=plan.launch.utilization), Range.exactly(plan.budget_gib), "",
                       language)]
    for part in plan.parts:
        origin = _(part.origin)
        lines.append(_row(texts.part_label(part.name, language), part.gib,
                          _("{origin}, outside the budget", origin=origin) if part.outside else origin, language))
    by_hand = plan.launch.kv_cache_memory_bytes is not None
    lines += _cache_rows(plan.kv_gib, _("as given") if by_hand else _("rest of the budget"), width, language)
    lines += ["", *_cache(plan, width, language), "", *_length_rows(plan, language)]
    if requests is not None:
        lines += ["", *_wrap(_requests(requests, plan).translated(language.gettext), width)]
    lines += [""] + [line for note in plan.notes for line in _wrap(say(note, language.gettext), width)]
    if any(part.origin == "estimated" for part in plan.parts):
        lines += _wrap(_("Estimates are ranges; only vLLM's memory profiling run measures them. Of two numbers of "
                         "tokens or requests, the first is the cautious one."), width)
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def _head(plan: Plan, width: int, language: Language) -> list[str]:
    """Return the verdict and, where it is not certain, its reason in one sentence."""
    model, launch = plan.target.model, plan.launch
    gpus = launch.tensor_parallel_size * launch.pipeline_parallel_size
    where = message("the CPU") if launch.device == "cpu" else message(
        N_("{count} GPUs of {gib:.2f} GiB") if gpus > 1 else N_("1 GPU of {gib:.2f} GiB"), count=gpus,
        gib=plan.target.device_gib)
    verdict = message(_VERDICTS[plan.verdict], launch=message(
        "{name} with {tokens:,} tokens of context on {place} (vLLM {release})",
        name=model.name if model is not None else message("the launch in the log"), tokens=plan.length, place=where,
        release=launch.release))
    return [*_wrap(verdict.translated(language.gettext), width, 0, 2),
            *_wrap(say(_reason(plan), language.gettext), width, 2)]


def _reason(plan: Plan) -> str:
    if plan.refusal:
        return message("{sentence}.", sentence=plan.refusal)
    kv_cache = max(0.0, plan.kv_gib.expected)
    if plan.verdict == "likely":
        return (message("Memory outside the budget, mostly CUDA graphs, may not fit.") if plan.fits_at_cautious_end
                else message("At the cautious end of the estimates it does not fit."))
    if plan.verdict == "fits" or kv_cache >= plan.need_gib:
        return ""
    if round(kv_cache, 2):
        return message("One request of {tokens:,} tokens needs {gib:.2f} GiB of KV cache, and {left:.2f} GiB is "
                       "expected to be left for it.", tokens=plan.length, gib=plan.need_gib, left=kv_cache)
    return message("One request of {tokens:,} tokens needs {gib:.2f} GiB of KV cache, and nothing is expected to be "
                   "left for it.", tokens=plan.length, gib=plan.need_gib)


def _fixes(plan: Plan, changes: tuple[Change, ...], width: int, language: Language) -> list[str]:
    """Return the changes that make it fit as numbered fixes, the first with the entire command."""
    _ = language.say
    lines: list[str] = []

    def fix(number: int, title: str, cache: Range, cost: str) -> None:
        lines.extend(_wrap(_("Fix {number}  {title}", number=number, title=title), width, 2, 9))
        lines.extend(_wrap(_("KV cache {gib} GiB. Cost: {cost}.", gib=_range_text(cache), cost=cost), width, 9))

    for number, change in enumerate(changes, 1):
        fix(number, _("Set {setting}", setting=_typed(change.flags)), change.plan.kv_gib, change.cost)
        if number == 1 and plan.target.model is not None and plan.launch.device != "cpu":
            lines += _command(plan.target.model.name, {**plan.launch.flags, **change.flags}, width)
        lines.append("")
    four_bit = four_bit_plan(plan)
    if four_bit is not None:
        fix(len(changes) + 1, _("Use a 4-bit checkpoint (AWQ or GPTQ) of this model, if there is one"), four_bit.kv_gib,
            message("some accuracy"))
        lines.append("")
    elif plan.verdict == "does-not-fit" and not changes:
        lines += [*_wrap(_("No usual change, nor two of them, makes it fit. Use a smaller or quantized model, "
                           "or a larger GPU."), width, 2), ""]
    return lines


def _command(model: str, flags: dict[str, str], width: int) -> list[str]:
    """Return the command, broken between flags where it is longer than the width."""
    words = [f"vllm serve {shlex.quote(model)}", *(_typed({name: flags[name]}) for name in flags)]
    rows = [words[0]]
    for word in words[1:]:
        if len(rows[-1]) + len(word) + 12 > width:
            rows[-1] += " \\"
            rows.append(f"    {word}")
        else:
            rows[-1] += f" {word}"
    return [f"         {row}" for row in rows]


def _typed(flags: dict[str, str]) -> str:
    return " ".join(f"{name} {value}".strip() for name, value in flags.items())


def _cache(plan: Plan, width: int, language: Language) -> list[str]:
    _ = language.say
    layout = plan.layout
    lines = [_("KV cache: {size:,} bytes per token", size=layout.bytes_per_token) if layout.linear
             else _("KV cache: {size:,} bytes per further token", size=layout.bytes_per_token)]
    if layout.block_size > 1:
        lines[0] += _(", blocks of {count} tokens", count=layout.block_size)
    model = plan.target.model
    if model is not None and not layout.linear:
        kinds = layer_kinds(model.layers)
        counts = joined(", ", (message("{name}: {reason}", name=message(_WORDS[kind]), reason=count)
                               for kind, count in kinds.items()))
        lines += _wrap(_("Layers that keep {counts}. A request's KV cache is not proportional to its length.",
                         counts=counts), width, 2)
    lines.append("  " + _("one request of {tokens:,} tokens needs {gib:.2f} GiB", tokens=plan.length,
                          gib=plan.need_gib))
    low, expected = plan.longest(cautious=True), plan.longest()
    if expected:
        lines.append("  " + _("longest max_model_len that fits: {lengths}", lengths=_low_to_expected(low, expected)))
    low, expected = plan.tokens("low"), plan.tokens()
    if expected:
        lines.append("  " + _("tokens of all requests: {tokens}", tokens=_low_to_expected(low, expected)))
        rows = [(length, plan.concurrency(length, "low"), plan.concurrency(length)) for length in _lengths(plan)]
        counts = joined("; ", (
            message("{low:.1f} to {high:.1f} of {length:,} tokens", low=one, high=other, length=length)
            if f"{one:.1f}" != f"{other:.1f}" else message("{count:.1f} of {length:,} tokens", count=other,
                                                           length=length) for length, one, other in rows))
        lines.append("  " + _("requests at once: {counts}", counts=counts))
        if rows and rows[0][2] > plan.sequences:
            lines.append("  " + _("and at most --max-num-seqs {count}", count=plan.sequences))
    return [line for text in lines for line in (_wrap(text, width, 2, 4) if text.startswith("  ") else [text])]


def _length_rows(plan: Plan, language: Language) -> list[str]:
    """Return the table of context lengths: KV cache of a request, requests at once, utilization for one of them."""
    rows = length_table(plan)
    has_fp8 = any(row.fp8_gib is not None for row in rows)
    has_utilization = any(row.utilization is not None for row in rows)
    _ = language.say
    heads = [rjust(_("context"), 7), rjust(_("KV cache"), 10), rjust(_("requests at once"), 16)]
    heads += [rjust(_("FP8 cache"), 9), rjust(_("requests at once"), 16)] if has_fp8 else []
    heads += [rjust(_("utilization for one"), 19)] if has_utilization else []
    lines = ["  " + "  ".join(heads)]
    for row in rows:
        line = f"  {row.tokens:>7,}  {row.gib:>6.2f} GiB  {row.requests:>16.1f}"
        if has_fp8:
            line += f"  {row.fp8_gib or 0:>5.2f} GiB  {row.fp8_requests or 0:>16.1f}"
        if has_utilization:
            line += "  " + rjust(f"{row.utilization:.2f}" if row.utilization is not None else _("none"), 19)
        lines.append(line)
    return lines


def _requests(requests: Requests, plan: Plan) -> Message:
    def percentiles(source: str, lengths: Lengths) -> Message:
        shares = joined(", ", (f"P{percent} {value:,}" for percent, value in lengths.percentiles.items()))
        return message(source, shares=shares, longest=lengths.longest)

    outputs = (percentiles(N_("outputs {shares}, longest {longest:,}"), requests.outputs) if requests.outputs
               else message("output lengths unknown"))
    lines = [message("{count:,} requests{counted}: {prompts}; {outputs}.", count=requests.count,
                     counted=message(" ({remark})", remark=requests.counted) if requests.counted else "",
                     prompts=percentiles(N_("prompts {shares}, longest {longest:,}"), requests.prompts),
                     outputs=outputs),
             message("A max_model_len of {length:,} covers a P99 prompt and a P99 output.", length=requests.needed)]
    if requests.mean_total and plan.kv_gib.expected > 0:
        at_once = min(plan.concurrency(requests.mean_total), plan.sequences)
        lines.append(message("At their mean of {tokens:,} tokens, {count:.0f} run at once.", tokens=requests.mean_total,
                             count=at_once))
    if requests.skipped:
        lines.append(message("{count:,} lines had no prompt.", count=requests.skipped))
    return joined(" ", lines)


def _lengths(plan: Plan) -> list[int]:
    """Return the lengths to report the concurrency for: the usual ones below the planned length, and that length."""
    return sorted({length for length in LENGTHS if length < plan.length} | {plan.length})


def _row(name: str, gib: Range, origin: str, language: Language) -> str:
    return f"  {ljust(name, 28)}{rjust(_range_text(gib).translated(language.gettext), 33)}  {origin}"


def _range_text(gib: Range) -> Message:
    if round(gib.low, 2) == round(gib.high, 2):
        return message("{gib:.2f}", gib=gib.expected)
    return message("{low:.2f} to {high:.2f}, expected {expected:.2f}",
                   low=gib.low, high=gib.high, expected=gib.expected)


def _cache_rows(gib: Range, origin: str, width: int, language: Language) -> list[str]:
    """Return the row of the KV cache, never below zero: a shortage is a sentence of its own."""
    row = _row(language.say("KV cache"), Range(*(max(0.0, end) for end in (gib.low, gib.expected, gib.high))), origin,
               language)
    if gib.low >= 0:
        return [row]
    if gib.high >= 0:
        return [row, *_wrap(language.say(
            "At the cautious end, the parts inside the budget exceed it by {gib:.2f} GiB.", gib=-gib.low), width, 2)]
    short = _range_text(Range(-gib.high, -gib.expected, -gib.low))
    return _wrap(language.say("Without any KV cache, the parts inside the budget exceed it by {gib} GiB.", gib=short),
                 width, 2)


def _low_to_expected(low: int, expected: int) -> Message:
    if not low:
        return message("{count:,} at the expected values, none at the cautious end", count=expected)
    return (message("{low:,} to {high:,}", low=low, high=expected) if low != expected
            else message("{count:,}", count=expected))


def _wrap(text: str, width: int, indent: int = 0, hang: int | None = None) -> list[str]:
    return wrap(text.strip(), max(40, width), " " * indent, " " * (indent if hang is None else hang))


def _part(part: PlannedPart) -> dict[str, Any]:
    return {"name": part.name, **_range(part.gib), "from": part.origin, "in_budget": not part.outside}


def _range(gib: Range) -> dict[str, float]:
    return {"low": _round(gib.low), "expected": _round(gib.expected), "high": _round(gib.high)}


def _percentiles(lengths: Lengths) -> dict[str, int]:
    return {**{f"p{percent}": value for percent, value in lengths.percentiles.items()}, "longest": lengths.longest}


def _round(value: float) -> float:
    return round(value, 4)
