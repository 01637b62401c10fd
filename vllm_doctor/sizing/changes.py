"""What would make a launch fit: single changes first, then two together, by what they cost the user.

Each is planned again and kept only when it fits even at the cautious end of the estimates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from vllm_doctor.catalog import flags
from vllm_doctor.errors import InputError
from vllm_doctor.sizing.launch import Launch
from vllm_doctor.sizing.plan import Plan, plan

_MOST_GPUS = 16
_DEAR = frozenset({"--tensor-parallel-size", "--cpu-offload-gb"})  # more GPUs, or much slower: offered last
_SHORTEST = 512  # tokens; a shorter context is no help


@dataclass(frozen=True, slots=True)
class Change:
    """Flags as typed on the command line, what they cost, and the plan with them."""

    flags: dict[str, str]
    cost: str
    plan: Plan


def changes(made: Plan, *, length_given: bool, most: int = 4) -> tuple[Change, ...]:
    """Ways to make a plan fit, the smallest change first; empty when it fits, or when none of these helps.

    `length_given`: the user asked for this length, so that shortening it is not the first thing to offer.
    """
    if made.verdict == "fits":
        return ()
    singles = list(_singles(made))
    short = _shorter(made)
    if short is not None:
        singles.insert(len([one for one in singles if one.flags.keys() <= {"--gpu-memory-utilization"}])
                       if length_given else 0, short)
    cheap = [one for one in singles if not one.flags.keys() & _DEAR]
    if not cheap:
        pairs = [one for one in _pairs(made) if not one.flags.keys() & _DEAR]
        singles = [*pairs[:2], *(singles or list(_pairs(made)))]
    return tuple(singles[:most])


def _tried(before: Plan, launch: Launch) -> Plan | None:
    """The plan of a launch when it fits even at the cautious end, and leaves as much room outside the budget as needed.

    Where the user's own utilization leaves too little already, that is not held against a change that keeps it.
    """
    try:
        made = plan(before.subject, launch)
    except InputError:
        return None
    if not made.cautious:
        return None
    kept = before.verdict == "does-not-fit" and launch.utilization <= before.launch.utilization
    return made if kept or not made.crowded else None


def _exists(flag: str, launch: Launch) -> bool:
    """Whether the release has the flag."""
    found = flags.lookup(flag)
    return found is not None and found.exists(".".join(map(str, launch.version)))


def _steps(made: Plan) -> Iterator[tuple[Launch, dict[str, str], str]]:
    """The launches to try, each with its flags and cost, the cheapest first."""
    launch, subject = made.launch, made.subject
    if made.crowded:
        for hundredths in range(math.ceil(launch.utilization * 100 - 1e-9) - 1, 49, -1):
            yield (replace(launch, gpu_memory_utilization=hundredths / 100),
                   {"--gpu-memory-utilization": f"{hundredths / 100:.2f}"}, "a smaller KV cache")
    if launch.kv_cache_memory_bytes is None and launch.device != "cpu":
        limit = 97 if launch.enforce_eager or launch.reserves_graphs else 95
        free = subject.free_gib
        if free is not None and subject.device_gib:
            limit = min(limit, math.floor(free / subject.device_gib * 100 - 1))
        for hundredths in range(math.floor(launch.utilization * 100 + 1e-9) + 1, limit + 1):
            yield (replace(launch, gpu_memory_utilization=hundredths / 100),
                   {"--gpu-memory-utilization": f"{hundredths / 100:.2f}"},
                   "less room for other processes and for growth at run time")
    if made.sequences > 64:
        yield (replace(launch, max_num_seqs=64), {"--max-num-seqs": "64"}, "at most 64 requests run at once")
    if made.batched_tokens > 2048:
        yield (replace(launch, max_num_batched_tokens=2048), {"--max-num-batched-tokens": "2048"},
               "long prompts are read in smaller pieces: a slower first token")
    if launch.reserves_graphs:
        yield (replace(launch, enforce_eager=True), {"--enforce-eager": ""}, "slower decoding, most for small models")
    if launch.kv_cache_dtype == "auto" and _exists("--kv-cache-dtype", launch) and _half_cache(made):
        yield (replace(launch, kv_cache_dtype="fp8"), {"--kv-cache-dtype": "fp8"},
               "a little accuracy; not every attention kernel and GPU has it")


def _half_cache(made: Plan) -> bool:
    """Whether an eight-bit cache is smaller than this one."""
    model = made.subject.model
    return model is None or (model.kv_cache_dtype == "auto" and not made.launch.kv_cache_dtype.startswith("fp8"))


def _singles(made: Plan) -> Iterator[Change]:
    seen: set[str] = set()
    for launch, changed, cost in _steps(made):
        name = next(iter(changed))
        if name in seen:
            continue
        after = _tried(made, launch)
        if after is not None:
            seen.add(name)
            yield Change(changed, cost, after)
    yield from _more_gpus(made)
    yield from _offload(made)


def _more_gpus(made: Plan) -> Iterator[Change]:
    ranks, model = made.launch.tensor_parallel_size * 2, made.subject.model
    if made.launch.device == "cpu":
        return
    while ranks <= _MOST_GPUS:
        whole = model is None or model.attention_heads % ranks == 0
        after = _tried(made, replace(made.launch, tensor_parallel_size=ranks)) if whole else None
        if after is not None:
            yield Change({"--tensor-parallel-size": str(ranks)}, f"{ranks} GPUs", after)
            return
        ranks *= 2


def _offload(made: Plan) -> Iterator[Change]:
    """CPU offload, where what lacks is at most a quarter of the weights: more makes decoding crawl."""
    weights = next(part.gib for part in made.parts if part.name == "weights")
    lacking = made.lacking_gib
    if made.launch.device == "cpu" or made.launch.cpu_offload_gb or lacking <= 0 or lacking * 1.12 > weights.low / 4:
        return
    if not _exists("--cpu-offload-gb", made.launch):
        return
    for gib in (math.ceil(lacking * 1.12 + 0.1), math.ceil(lacking * 1.25 + 1)):
        after = _tried(made, replace(made.launch, cpu_offload_gb=float(gib)))
        if after is not None:
            yield Change({"--cpu-offload-gb": str(gib)}, "decoding reads those weights over PCIe: much slower", after)
            return


def _shorter(made: Plan) -> Change | None:
    """The longest context that fits at the cautious end, in whole blocks and from 4096 on in whole 256s."""
    longest = made.longest(cautious=True)
    step = made.layout.block_size if longest < 4096 else max(256, made.layout.block_size)
    length = longest // step * step if longest >= step else longest
    if length < _SHORTEST or length >= made.length:
        return None
    after = _tried(made, replace(made.launch, max_model_len=length))
    return None if after is None else Change(
        {"--max-model-len": str(length)}, f"requests longer than {length:,} tokens are refused", after)


def _pairs(made: Plan) -> Iterator[Change]:
    """Two changes together, where none alone is enough: the highest utilization or an eight-bit cache and another."""
    steps = list(_steps(made))
    last = [step for step in steps if "--gpu-memory-utilization" in step[1]][-1:]
    cache = [step for step in steps if "--kv-cache-dtype" in step[1]]
    for launch, changed, cost in last + cache:
        base = plan(made.subject, launch)
        for more, other, price in _steps(base):
            if other.keys() & (changed.keys() | {"--gpu-memory-utilization"}):
                continue
            after = _tried(made, more)
            if after is not None:
                yield Change({**changed, **other}, f"{cost}; {price}", after)
        short = _shorter(base)
        if short is not None:
            yield Change({**changed, **short.flags}, f"{cost}; {short.cost}", short.plan)
        for change in _more_gpus(base):
            yield Change({**changed, **change.flags}, f"{cost}; {change.cost}", change.plan)
