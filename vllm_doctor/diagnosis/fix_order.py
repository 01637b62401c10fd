"""Order alternative fixes by what the user loses: the fix that costs least and is proven to suffice comes first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from vllm_doctor.facts.store import number
from vllm_doctor.messages import N_, joined, message
from vllm_doctor.reports.model import Fix


class Loss(IntEnum):
    """What a fix costs the user, from nothing to another model."""

    NOTHING = 0
    HEADROOM = 1  # memory that other programs or peaks could have used
    SPEED = 2
    ACCURACY = 3
    CAPACITY = 4  # context length, concurrency or kinds of input
    THROUGHPUT = 5  # most of the speed
    HARDWARE = 6
    MODEL = 7


_TO_TRY = "a step to try"  # in the text of a fix that is not proven to suffice
_FIRST_STEP = N_("A step to try: the log does not prove that it suffices.")
_FURTHER_STEP = N_("A step to try.")
_UNPROVEN = (Loss.CAPACITY, 1)  # unproven steps come after proven ones that need no other hardware or model
_OF_SETTING: Mapping[str, Loss] = {
    "--gpu-memory-utilization": Loss.HEADROOM,
    "--kv-cache-memory-bytes": Loss.HEADROOM,
    "VLLM_CPU_KVCACHE_SPACE": Loss.HEADROOM,
    "VLLM_OPENVINO_KVCACHE_SPACE": Loss.HEADROOM,
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": Loss.HEADROOM,
    "--swap-space": Loss.HEADROOM,
    "--cuda-graph-sizes": Loss.SPEED,
    "--enable-chunked-prefill": Loss.SPEED,
    "--enforce-eager": Loss.SPEED,
    "--max-cudagraph-capture-size": Loss.SPEED,
    "--max-num-batched-tokens": Loss.SPEED,
    "VLLM_DEEP_GEMM_WARMUP": Loss.SPEED,
    "VLLM_SKIP_DEEP_GEMM_WARMUP": Loss.SPEED,
    "--kv-cache-dtype": Loss.ACCURACY,
    "--mm-processor-kwargs": Loss.ACCURACY,
    "--quantization": Loss.ACCURACY,
    "--max-model-len": Loss.CAPACITY,
    "--max-num-seqs": Loss.CAPACITY,
    "--max-loras": Loss.CAPACITY,
    "--max-lora-rank": Loss.CAPACITY,
    "--limit-mm-per-prompt": Loss.CAPACITY,
    "--language-model-only": Loss.CAPACITY,
    "--skip-mm-profiling": Loss.CAPACITY,
    "--cpu-offload-gb": Loss.THROUGHPUT,
    "--tensor-parallel-size": Loss.HARDWARE,
    "--pipeline-parallel-size": Loss.HARDWARE,
}
_OF_REMOVAL: Mapping[str, Loss] = {"--gpu-memory-utilization": Loss.HEADROOM}  # back to vLLM's default
_OF_ACTION: Mapping[str, Loss] = {
    "add-host-ram": Loss.HARDWARE, "use-larger-gpu": Loss.HARDWARE, "use-smaller-or-quantized-model": Loss.MODEL,
}
_RANKS = ("--tensor-parallel-size", "--pipeline-parallel-size")


class Candidate(NamedTuple):
    """A fix, and whether the log's numbers prove that it suffices."""

    fix: Fix
    is_proven: bool


def loss(fix: Fix, known: Mapping[str, Any]) -> Loss:
    """Return the greatest loss among the changes of a fix. A change of ranks that needs no more devices costs speed."""
    names = [name for name in (*fix.flags, *fix.env) if name not in _RANKS]
    losses = [_OF_SETTING.get(name, Loss.NOTHING) for name in names]
    losses += [_OF_REMOVAL.get(name, Loss.NOTHING) for name in fix.unset]
    if _needs_devices(fix.flags, known):
        losses.append(Loss.HARDWARE)
    elif any(name in fix.flags for name in _RANKS):
        losses.append(Loss.SPEED)
    if fix.action:
        losses.append(_OF_ACTION.get(fix.action, Loss.NOTHING))
    return max(losses, default=Loss.NOTHING)


def says_to_try(text: str) -> bool:
    """Return whether the text of a fix, in English, says that it is a step to try."""
    return _TO_TRY in text.lower()


def ordered(candidates: Iterable[Candidate], known: Mapping[str, Any]) -> list[Fix]:
    """Return the fixes by loss. Those that are not proven to suffice come later and say so."""
    ranked = sorted(candidates, key=lambda candidate: _rank(candidate, known))
    result: list[Fix] = []
    for candidate in ranked:
        words = _FURTHER_STEP if any(_FIRST_STEP in fix.why for fix in result) else _FIRST_STEP
        result.append(candidate.fix if candidate.is_proven else _as_a_step(candidate.fix, words))
    return result


def _rank(candidate: Candidate, known: Mapping[str, Any]) -> tuple[int, int, int]:
    lost = loss(candidate.fix, known)
    is_free = lost is Loss.NOTHING and not candidate.fix.action
    if candidate.is_proven or is_free or lost > Loss.CAPACITY:
        return lost, 0, 0
    return (*_UNPROVEN, lost)


def _needs_devices(flags: Mapping[str, str], known: Mapping[str, Any]) -> bool:
    before = after = 1
    for name in _RANKS:
        current = int(number(known, name.removeprefix("--").replace("-", "_")) or 1)
        before *= current
        after *= int(flags[name]) if flags.get(name, "").isdigit() else current
    return after > before


def _as_a_step(fix: Fix, words: str) -> Fix:
    if fix.action or fix.is_step or says_to_try(fix.cost):
        return fix
    return fix._replace(why=joined(" ", filter(None, (fix.why, message(words)))), is_step=True)
