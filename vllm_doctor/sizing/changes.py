"""Search for flag changes that make a launch fit, single ones and pairs, ordered by what the user loses.

Each change is planned again and kept only if it fits even at the cautious end of the estimates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from vllm_doctor.catalog import flags
from vllm_doctor.diagnosis.fix_order import Loss, loss
from vllm_doctor.errors import InputError
from vllm_doctor.memory.solver.utilization import utilization_limit
from vllm_doctor.messages import joined, message
from vllm_doctor.reports.model import Fix
from vllm_doctor.sizing.launch import Launch
from vllm_doctor.sizing.plan import Plan, plan

_MAX_GPUS = 16
_MOST_PAIRS = 2
_FIRST_FP8_WEIGHTS = (0, 5, 0)  # --quantization fp8 with scales computed while loading
_MIN_CONTEXT = 512  # tokens; a shorter context is no help


@dataclass(frozen=True, slots=True)
class Change:
    """Flags as typed on the command line, their trade-offs, and the plan with them."""

    flags: dict[str, str]
    costs: tuple[str, ...]
    plan: Plan

    @property
    def cost(self) -> str:
        """The trade-offs, what two flags have in common once."""
        return joined("; ", dict.fromkeys(self.costs))


def changes(current: Plan, *, most: int = 6) -> tuple[Change, ...]:
    """Ways to make a plan fit, by what the user loses; empty when it fits, or when none of these helps.

    Pairs are tried where no single change keeps the context and the hardware.
    """
    if current.verdict == "fits":
        return ()
    short = _shorter_context(current)
    found = [*_single_changes(current), *([] if short is None else [short])]
    if all(_loss(one) >= Loss.CAPACITY for one in found):
        pairs = sorted(_paired_changes(current), key=_loss)
        found += [one for one in pairs if _loss(one) < Loss.THROUGHPUT][:_MOST_PAIRS] or ([] if found else pairs)
    return tuple(sorted(found, key=_loss)[:most])


def _loss(change: Change) -> Loss:
    return loss(Fix("", "", flags=change.flags), {})


def four_bit_plan(current: Plan) -> Plan | None:
    """Return the plan with a 4-bit checkpoint of the same model (AWQ or GPTQ), if it fits and the current does not."""
    model, launch, measured = current.target.model, current.launch, current.target.measured
    if (current.verdict != "does-not-fit" or model is None or model.quantization or launch.quantization
            or launch.device == "cpu" or (measured is not None and measured.weights is not None)):
        return None
    return _plan_if_it_fits(current, replace(launch, quantization="awq"))


def _plan_if_it_fits(before: Plan, launch: Launch) -> Plan | None:
    """Return the plan of a launch if it fits at the cautious end and leaves enough memory outside the budget.

    A launch whose utilization already leaves too little memory outside the budget is not rejected for that, as long
    as the change does not raise the utilization.
    """
    try:
        planned = plan(before.target, launch)
    except InputError:
        return None
    if not planned.fits_at_cautious_end:
        return None
    was_lacking = before.verdict == "does-not-fit" and launch.utilization <= before.launch.utilization
    return planned if was_lacking or not planned.lacks_room_outside_budget else None


def _flag_exists(flag: str, launch: Launch) -> bool:
    """Return whether the release has the flag."""
    known_flag = flags.lookup(flag)
    return known_flag is not None and known_flag.exists(launch.release)


def _launches_to_try(current: Plan) -> Iterator[tuple[Launch, dict[str, str], tuple[str, ...]]]:
    """Yield the launches to try, each with its changed flags and their trade-offs, the cheapest first."""
    launch, target = current.launch, current.target
    if current.lacks_room_outside_budget:
        for hundredths in range(math.ceil(launch.utilization * 100 - 1e-9) - 1, 49, -1):
            yield (replace(launch, gpu_memory_utilization=hundredths / 100),
                   {"--gpu-memory-utilization": f"{hundredths / 100:.2f}"}, (message("a smaller KV cache"),))
    if launch.kv_cache_memory_bytes is None and launch.device != "cpu":
        limit = round(utilization_limit(launch.enforce_eager, launch.reserves_graphs) * 100)
        free = target.free_gib
        if free is not None and target.device_gib:
            limit = min(limit, math.floor(free / target.device_gib * 100 - 1))
        for hundredths in range(math.floor(launch.utilization * 100 + 1e-9) + 1, limit + 1):
            yield (replace(launch, gpu_memory_utilization=hundredths / 100),
                   {"--gpu-memory-utilization": f"{hundredths / 100:.2f}"},
                   (message("less memory for other processes and activation peaks"),))
    if current.sequences > 64:
        yield (replace(launch, max_num_seqs=64), {"--max-num-seqs": "64"},
               (message("at most 64 requests run at once"),))
    if current.batched_tokens > 2048:
        yield (replace(launch, max_num_batched_tokens=2048), {"--max-num-batched-tokens": "2048"},
               (message("long prompts take more prefill steps"),))
    if launch.reserves_graphs:
        yield (replace(launch, enforce_eager=True), {"--enforce-eager": ""},
               (message("slower decode, most for small models"),))
    accuracy = message("slight accuracy loss")
    if launch.kv_cache_dtype == "auto" and _flag_exists("--kv-cache-dtype", launch) and _fp8_halves_cache(current):
        yield (replace(launch, kv_cache_dtype="fp8"), {"--kv-cache-dtype": "fp8"},
               (accuracy, message("not every attention backend supports an FP8 cache")))
    if _can_quantize_weights(current):
        yield (replace(launch, quantization="fp8"), {"--quantization": "fp8"},
               (accuracy, message("not every GPU supports FP8 weights")))


def _can_quantize_weights(current: Plan) -> bool:
    """Return whether vLLM can load the weights in FP8: unquantized ones that fit on the GPU before the conversion."""
    model, launch, measured = current.target.model, current.launch, current.target.measured
    weights = next(part.gib for part in current.parts if part.name == "weights")
    return (model is not None and not model.quantization and not launch.quantization and launch.device != "cpu"
            and (measured is None or measured.weights is None) and _flag_exists("--quantization", launch)
            and launch.version >= _FIRST_FP8_WEIGHTS and weights.high < current.target.device_gib)


def _fp8_halves_cache(current: Plan) -> bool:
    """Return whether an FP8 KV cache is smaller than the planned one."""
    model = current.target.model
    return model is None or model.kv_cache_dtype == "auto"


def _single_changes(current: Plan) -> Iterator[Change]:
    seen: set[str] = set()
    for launch, changed, costs in _launches_to_try(current):
        name = next(iter(changed))
        if name in seen:
            continue
        after = _plan_if_it_fits(current, launch)
        if after is not None:
            seen.add(name)
            yield Change(changed, costs, after)
    yield from _more_gpus(current)
    yield from _offload(current)


def _more_gpus(current: Plan) -> Iterator[Change]:
    ranks, model = current.launch.tensor_parallel_size * 2, current.target.model
    if current.launch.device == "cpu":
        return
    while ranks <= _MAX_GPUS:
        divides_heads = model is None or model.attention_heads % ranks == 0
        launch = replace(current.launch, tensor_parallel_size=ranks)
        after = _plan_if_it_fits(current, launch) if divides_heads else None
        if after is not None:
            count = ranks * current.launch.pipeline_parallel_size
            yield Change({"--tensor-parallel-size": str(ranks)}, (message("{count} GPUs", count=count),), after)
            return
        ranks *= 2


def _offload(current: Plan) -> Iterator[Change]:
    """Yield CPU offload if at most a quarter of the weights must move: with more, decoding is too slow to be useful."""
    weights = next(part.gib for part in current.parts if part.name == "weights")
    launch, missing = current.launch, current.missing_gib
    if launch.device == "cpu" or launch.cpu_offload_gb or missing <= 0 or missing * 1.12 > weights.low / 4:
        return
    if not _flag_exists("--cpu-offload-gb", current.launch):
        return
    for gib in (math.ceil(missing * 1.12 + 0.1), math.ceil(missing * 1.25 + 1)):
        after = _plan_if_it_fits(current, replace(current.launch, cpu_offload_gb=float(gib)))
        if after is not None:
            yield Change({"--cpu-offload-gb": str(gib)},
                         (message("much slower decode: it reads these weights over PCIe"),), after)
            return


def _shorter_context(current: Plan) -> Change | None:
    """Return the longest context that fits at the cautious end, in whole blocks; from 4096 tokens a multiple of 256."""
    longest = current.longest(cautious=True)
    step = current.layout.block_size if longest < 4096 else max(256, current.layout.block_size)
    length = longest // step * step if longest >= step else longest
    if length < _MIN_CONTEXT or length >= current.length:
        return None
    after = _plan_if_it_fits(current, replace(current.launch, max_model_len=length))
    return None if after is None else Change(
        {"--max-model-len": str(length)},
        (message("requests longer than {length:,} tokens are rejected", length=length),), after)


def _paired_changes(current: Plan) -> Iterator[Change]:
    """Yield pairs of changes: the highest utilization or an FP8 KV cache, together with one other change."""
    steps = list(_launches_to_try(current))
    last = [step for step in steps if "--gpu-memory-utilization" in step[1]][-1:]
    cache = [step for step in steps if "--kv-cache-dtype" in step[1]]
    for launch, changed, costs in last + cache:
        base = plan(current.target, launch)
        for more, other, prices in _launches_to_try(base):
            if other.keys() & (changed.keys() | {"--gpu-memory-utilization"}):
                continue
            after = _plan_if_it_fits(current, more)
            if after is not None:
                yield Change({**changed, **other}, costs + prices, after)
        short = _shorter_context(base)
        if short is not None:
            yield Change({**changed, **short.flags}, costs + short.costs, short.plan)
        for change in _more_gpus(base):
            yield Change({**changed, **change.flags}, costs + change.costs, change.plan)
