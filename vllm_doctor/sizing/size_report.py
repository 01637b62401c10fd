"""Render the plan of `vllm-doctor size` as text or JSON."""

from __future__ import annotations

import json
import shlex
import textwrap
from typing import Any

from vllm_doctor.sizing.changes import Change, four_bit_plan
from vllm_doctor.sizing.kv_pages import layer_kinds
from vllm_doctor.sizing.length_table import length_table
from vllm_doctor.sizing.memory_estimate import Range
from vllm_doctor.sizing.plan import LENGTHS, Plan, PlannedPart
from vllm_doctor.sizing.request_lengths import Lengths, Requests
from vllm_doctor.version import __version__

SCHEMA_VERSION = "1.0"
_WORDS = {"full": "every token", "sliding": "a window of tokens", "mla": "a latent of every token",
          "indexer": "an index of every token", "state": "a state of fixed size"}
_VERDICTS = {"fits": "✓ Fits", "likely": "! Probably fits", "does-not-fit": "✗ Does not fit"}
_NAMES = {"non_torch": "non-torch memory", "cuda_graphs": "CUDA graphs"}


def as_json(plan: Plan, changes: tuple[Change, ...], requests: Requests | None = None) -> str:
    """Return the plan as one JSON object."""
    return json.dumps(document(plan, changes, requests), indent=2, ensure_ascii=False) + "\n"


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
            "vllm_version": ".".join(map(str, plan.launch.version)), "max_model_len": plan.length,
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


def as_text(plan: Plan, changes: tuple[Change, ...], requests: Requests | None = None, width: int = 100) -> str:
    """Return the plan as text of at most `width` columns: the verdict, what makes it fit, then the arithmetic."""
    lines = [*_head(plan, width), "", *_fixes(plan, changes, width)]
    lines += [f"Memory of one {'node' if plan.launch.device == 'cpu' else 'GPU'}, GiB"]
    if plan.launch.device != "cpu":
        lines += [_row("total", Range.exactly(plan.target.device_gib), ""),
                  _row(f"budget ({plan.launch.utilization:g} of it)", Range.exactly(plan.budget_gib), "")]
    lines += [_row(_part_name(part), part.gib, part.origin + ", outside the budget" * part.outside)
              for part in plan.parts]
    by_hand = plan.launch.kv_cache_memory_bytes is not None
    lines += _cache_rows(plan.kv_gib, "as given" if by_hand else "rest of the budget", width)
    lines += ["", *_cache(plan, width), "", *_length_rows(plan)]
    if requests is not None:
        lines += ["", *_wrap(_requests(requests, plan), width)]
    lines += [""] + [line for note in plan.notes for line in _wrap(note, width)]
    if any(part.origin == "estimated" for part in plan.parts):
        lines += _wrap("Estimates are ranges; only vLLM's memory profiling run measures them. Of two numbers of "
                       "tokens or requests, the first is the cautious one.", width)
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def _head(plan: Plan, width: int) -> list[str]:
    """Return the verdict and, where it is not certain, its reason in one sentence."""
    model, launch = plan.target.model, plan.launch
    name = model.name if model is not None else "the launch in the log"
    gpus = launch.tensor_parallel_size * launch.pipeline_parallel_size
    where = "the CPU" if launch.device == "cpu" else \
        f"{gpus} GPU{'s' if gpus > 1 else ''} of {plan.target.device_gib:.2f} GiB"
    release = ".".join(map(str, launch.version))
    verdict = f"{_VERDICTS[plan.verdict]}: {name} with {plan.length:,} tokens of context on {where} (vLLM {release})"
    return [*_wrap(verdict, width, 0, 2), *_wrap(_reason(plan), width, 2)]


def _reason(plan: Plan) -> str:
    if plan.refusal:
        return f"{plan.refusal}."
    kv_cache = max(0.0, plan.kv_gib.expected)
    if plan.verdict == "likely":
        return ("Memory outside the budget, mostly CUDA graphs, may not fit." if plan.fits_at_cautious_end
                else "At the cautious end of the estimates it does not fit.")
    if plan.verdict == "fits" or kv_cache >= plan.need_gib:
        return ""
    left = f"{kv_cache:.2f} GiB is expected to be" if round(kv_cache, 2) else "nothing is expected to be"
    return f"One request of {plan.length:,} tokens needs {plan.need_gib:.2f} GiB of KV cache, and {left} left for it."


def _fixes(plan: Plan, changes: tuple[Change, ...], width: int) -> list[str]:
    """Return the changes that make it fit as numbered fixes, the first with the entire command."""
    lines: list[str] = []
    for number, change in enumerate(changes, 1):
        lines += _wrap(f"Fix {number}  Set {_typed(change.flags)}", width, 2, 9)
        lines += _wrap(f"KV cache {_range_text(change.plan.kv_gib)} GiB. Cost: {change.cost}.", width, 9)
        if number == 1 and plan.target.model is not None and plan.launch.device != "cpu":
            lines += _command(plan.target.model.name, {**plan.launch.flags, **change.flags}, width)
        lines.append("")
    four_bit = four_bit_plan(plan)
    if four_bit is not None:
        lines += [*_wrap(f"Fix {len(changes) + 1}  Use a 4-bit checkpoint (AWQ or GPTQ) of this model, if there is one",
                         width, 2, 9),
                  *_wrap(f"KV cache {_range_text(four_bit.kv_gib)} GiB. Cost: some accuracy.", width, 9), ""]
    elif plan.verdict == "does-not-fit" and not changes:
        lines += [*_wrap("No usual change, nor two of them, makes it fit. Use a smaller or quantized model, "
                         "or a larger GPU.", width, 2), ""]
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


def _part_name(part: PlannedPart) -> str:
    return _NAMES.get(part.name) or part.name.replace("_", " ")


def _cache(plan: Plan, width: int) -> list[str]:
    layout = plan.layout
    grows = "per further token" if not layout.linear else "per token"
    lines = [f"KV cache: {layout.bytes_per_token:,} bytes {grows}"]
    if layout.block_size > 1:
        lines[0] += f", blocks of {layout.block_size} tokens"
    model = plan.target.model
    if model is not None and not layout.linear:
        kinds = layer_kinds(model.layers)
        lines += _wrap("Layers that keep " + ", ".join(f"{_WORDS[kind]}: {count}" for kind, count in kinds.items())
                       + ". A request's KV cache is not proportional to its length.", width, 2)
    lines.append(f"  one request of {plan.length:,} tokens needs {plan.need_gib:.2f} GiB")
    low, expected = plan.longest(cautious=True), plan.longest()
    if expected:
        lines.append(f"  longest max_model_len that fits: {_low_to_expected(low, expected)}")
    low, expected = plan.tokens("low"), plan.tokens()
    if expected:
        lines.append(f"  tokens of all requests: {_low_to_expected(low, expected)}")
        rows = [(length, plan.concurrency(length, "low"), plan.concurrency(length)) for length in _lengths(plan)]
        lines.append("  requests at once: " + "; ".join(
            f"{one:.1f} to {other:.1f} of {length:,} tokens" if f"{one:.1f}" != f"{other:.1f}"
            else f"{other:.1f} of {length:,} tokens" for length, one, other in rows))
        if rows and rows[0][2] > plan.sequences:
            lines.append(f"  and at most --max-num-seqs {plan.sequences}")
    return [line for text in lines for line in (_wrap(text, width, 2, 4) if text.startswith("  ") else [text])]


def _length_rows(plan: Plan) -> list[str]:
    """Return the table of context lengths: KV cache of a request, requests at once, utilization for one of them."""
    rows = length_table(plan)
    has_fp8 = any(row.fp8_gib is not None for row in rows)
    has_utilization = any(row.utilization is not None for row in rows)
    lines = ["  context    KV cache  requests at once" + "  FP8 cache  requests at once" * has_fp8
             + "  utilization for one" * has_utilization]
    for row in rows:
        line = f"  {row.tokens:>7,}  {row.gib:>6.2f} GiB  {row.requests:>16.1f}"
        if has_fp8:
            line += f"  {row.fp8_gib or 0:>5.2f} GiB  {row.fp8_requests or 0:>16.1f}"
        if has_utilization:
            line += f"  {f'{row.utilization:.2f}' if row.utilization is not None else 'none':>19}"
        lines.append(line)
    return lines


def _requests(requests: Requests, plan: Plan) -> str:
    def percentile_text(name: str, lengths: Lengths) -> str:
        tail = ", ".join(f"P{percent} {value:,}" for percent, value in lengths.percentiles.items())
        return f"{name} {tail}, longest {lengths.longest:,}"

    counting = f" ({requests.counted})" if requests.counted else ""
    text = f"{requests.count:,} requests{counting}: " + percentile_text("prompts", requests.prompts)
    text += "; " + percentile_text("outputs", requests.outputs) if requests.outputs else "; output lengths unknown"
    text += f". A max_model_len of {requests.needed:,} covers a P99 prompt and a P99 output."
    if requests.mean_total and plan.kv_gib.expected > 0:
        at_once = min(plan.concurrency(requests.mean_total), plan.sequences)
        text += f" At their mean of {requests.mean_total:,} tokens, {at_once:.0f} run at once."
    return text + (f" {requests.skipped:,} lines had no prompt." if requests.skipped else "")


def _lengths(plan: Plan) -> list[int]:
    """Return the lengths to report the concurrency for: the usual ones below the planned length, and that length."""
    return sorted({length for length in LENGTHS if length < plan.length} | {plan.length})


def _row(name: str, gib: Range, origin: str) -> str:
    return f"  {name:<28}{_range_text(gib):>33}  {origin}"


def _range_text(gib: Range) -> str:
    if round(gib.low, 2) == round(gib.high, 2):
        return f"{gib.expected:.2f}"
    return f"{gib.low:.2f} to {gib.high:.2f}, expected {gib.expected:.2f}"


def _cache_rows(gib: Range, origin: str, width: int) -> list[str]:
    """Return the row of the KV cache, never below zero: a shortage is a sentence of its own."""
    row = _row("KV cache", Range(*(max(0.0, end) for end in (gib.low, gib.expected, gib.high))), origin)
    if gib.low >= 0:
        return [row]
    if gib.high >= 0:
        return [row, *_wrap(f"At the cautious end, the parts inside the budget exceed it by {-gib.low:.2f} GiB.",
                            width, 2)]
    short = _range_text(Range(-gib.high, -gib.expected, -gib.low))
    return _wrap(f"Without any KV cache, the parts inside the budget exceed it by {short} GiB.", width, 2)


def _low_to_expected(low: int, expected: int) -> str:
    if not low:
        return f"{expected:,} at the expected values, none at the cautious end"
    return f"{low:,} to {expected:,}" if low != expected else f"{expected:,}"


def _wrap(text: str, width: int, indent: int = 0, hang: int | None = None) -> list[str]:
    return textwrap.wrap(text.strip(), max(40, width), initial_indent=" " * indent,
                         subsequent_indent=" " * (indent if hang is None else hang), break_on_hyphens=False)


def _part(part: PlannedPart) -> dict[str, Any]:
    return {"name": part.name, **_range(part.gib), "from": part.origin, "in_budget": not part.outside}


def _range(gib: Range) -> dict[str, float]:
    return {"low": _round(gib.low), "expected": _round(gib.expected), "high": _round(gib.high)}


def _percentiles(lengths: Lengths) -> dict[str, int]:
    return {**{f"p{percent}": value for percent, value in lengths.percentiles.items()}, "longest": lengths.longest}


def _round(value: float) -> float:
    return round(value, 4)
