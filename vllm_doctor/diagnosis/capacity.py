"""The capacity of a server that runs, in sentences: where its memory went, what it holds, what limits it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vllm_doctor.facts.server_load import ROOMY_PERCENT, SATURATED_PERCENT
from vllm_doctor.facts.store import number
from vllm_doctor.memory import Memory
from vllm_doctor.memory.solver.rounding import GIB
from vllm_doctor.messages import N_, joined, message
from vllm_doctor.text.devices import device_word

_LENGTHS = (2048, 8192, 32768)
_FAR = 2  # times the needed length; less is a margin that one may want
_LASTING = 3  # statistics lines; one busy line is no pressure


def sentences(facts: Mapping[str, Any], derived: Mapping[str, Any], memory: Memory | None, *,
              is_explained: bool = False) -> tuple[str, ...]:
    """Return a short paragraph on a healthy log: weights against nvidia-smi, concurrency, one more GiB, pressure.

    Only what the facts show; empty if they show neither the weights nor the KV cache. `is_explained`: a finding
    names what limits the requests.
    """
    found = [_weights(facts, memory), _tokens(facts, derived), _one_more(facts, derived), requests(facts, derived),
             "" if is_explained else pressure(facts, derived)]
    return tuple(sentence for sentence in found if sentence)


def _weights(facts: Mapping[str, Any], memory: Memory | None) -> str:
    """Return how the weights compare with nvidia-smi: `Weights take 1.2 GiB, nvidia-smi shows 4.5`."""
    weights = number(facts, "model_weights_gib")
    if weights is None or memory is None or not memory.device_gib or memory.budget_gib is None:
        return ""
    cache = memory.gib("kv_cache")
    if cache is None or cache <= 0 or facts.get("device") == "cpu":
        return ""
    inside = [part for part in memory.parts if part.name not in {"outside_budget", "other_processes", "free"}]
    held = sum(part.gib for part in inside if part.gib > 0)
    rest = held - weights - cache
    share = memory.budget_gib / memory.device_gib
    seen = message("nvidia-smi shows") if facts.get("device") in {None, "cuda"} else message("in use are")
    parts = message("the weights, {cache:.2f} GiB of KV cache, and {rest:.2f} GiB of activations, CUDA graphs and "
                    "libraries.", cache=cache, rest=rest) if rest >= 0.05 else message(
                        "the weights, {cache:.2f} GiB of KV cache.", cache=cache)
    return (message("The weights take {weights:.2f} GiB of the {device}'s {device_gib:.2f}. vLLM fills its "
                    "share ({share:.0%}) at startup, so {seen} about {held:.1f} GiB: {parts}", weights=weights,
                    device=device_word(facts.get("device")),
                    device_gib=memory.device_gib, share=share, seen=seen, held=held, parts=parts))


def _tokens(facts: Mapping[str, Any], derived: Mapping[str, Any]) -> str:
    """Return the number of KV cache tokens, and how many requests of usual lengths they hold."""
    tokens = number(derived, "kv_cache_capacity_tokens")
    if not tokens or tokens < 0:
        return ""
    length = int(max(0.0, number(facts, "max_model_len") or 0.0))
    # Where layers have a window or a state, a short request holds more than its tokens' share.
    linear = linear_token_bytes(derived) is not None
    lengths = [at for at in _LENGTHS if not length or at < length] + ([length] if length else [])
    sequences = number(facts, "max_num_seqs")
    text = message("The KV cache holds {tokens:,.0f} tokens", tokens=tokens)
    if sequences and lengths and tokens / lengths[-1] >= sequences:
        return (message("{text}, enough for the {sequences} of --max-num-seqs at {length:,} tokens each.", text=text,
                        sequences=_counted(sequences, "sequence"), length=lengths[-1]))
    rooms = [(min(tokens / at, sequences or tokens), at) for at in lengths]
    exact = rooms if linear else rooms[-1:]
    first = message("{requests} of {length:,}", requests=_counted(exact[0][0], "request"), length=exact[0][1])
    parts = [message("{text}, enough for {requests} tokens at once", text=text,
                     requests=joined(", ", [first, *_rooms(exact[1:])]))]
    if len(exact) < len(rooms):
        parts.append(message(", at most {requests} (fewer if layers have a sliding window or a state)",
                             requests=joined(", ", _rooms(rooms[:-1]))))
    if sequences and lengths and tokens / lengths[0] > sequences:
        parts.append(message("; --max-num-seqs allows {sequences:,.0f}", sequences=sequences))
    return message("{sentence}.", sentence=joined("", parts))


def _rooms(rooms: Sequence[tuple[float, int]]) -> list[str]:
    return [message("{requests} of {length:,}", requests=_count(count), length=length) for count, length in rooms]


def _counted(value: float, noun: str) -> str:
    shown = _count(value)
    one, more = {"request": (N_("1 request"), N_("{count} requests")),
                 "sequence": (N_("1 sequence"), N_("{count} sequences"))}[noun]
    return message(one) if shown == "1" else message(more, count=shown)


def _one_more(facts: Mapping[str, Any], derived: Mapping[str, Any]) -> str:
    """Return the effect of one more GiB of KV cache."""
    per_token = linear_token_bytes(derived)
    if not per_token:
        return ""
    more = GIB / per_token
    ranks = int(number(facts, "tensor_parallel_size") or 1) * int(number(facts, "pipeline_parallel_size") or 1)
    device = device_word(facts.get("device"))
    where = message("each {device}", device=device) if ranks > 1 else message("the {device}", device=device)
    total = number(derived, "device_gib") or number(facts, "gpu_total_gib")
    share = message(" (--gpu-memory-utilization +{value:.3f})", value=1 / total) if total and total > 1 else ""
    at = int(min(8192.0, number(facts, "max_model_len") or 8192.0))
    if at <= 0:
        return ""
    return message("One more GiB on {where}{share} holds {tokens:,.0f} more tokens: {requests} of {length:,}.",
                   where=where, share=share, tokens=more, requests=_counted(more / at, "request"), length=at)


def requests(facts: Mapping[str, Any], derived: Mapping[str, Any]) -> str:
    """Return how far --max-model-len is from what the logged requests need; "" where it is near."""
    count, needed, length = (number(facts, name) for name in ("logged_requests", "request_length_needed",
                                                              "max_model_len"))
    if not count or not needed or not length or length < _FAR * needed:
        return ""
    prompts = joined(", ", (f"P{percent} {facts[f'request_prompt_p{percent}']:,}" for percent in (50, 95, 99)))
    parts: list[str] = [(message("The first {count:,.0f} requests in the log have prompts of {prompts} tokens; with "
                                 "the output they ask for, 99 % need at most {longest:,}. --max-model-len "
                                 "{length:,.0f} is {ratio:.1f} times that: --max-model-len {needed:,.0f} holds them",
                                 count=count, prompts=prompts, longest=facts["request_total_p99"], length=length,
                                 ratio=length / needed, needed=needed))]
    tokens = number(derived, "kv_cache_capacity_tokens")
    sequences = number(facts, "max_num_seqs")
    if tokens and linear_token_bytes(derived) is not None:
        parts.append(message(", {count} at once", count=_count(tokens / needed)))
        if sequences and tokens / needed < sequences:
            parts.append(message(" (--max-num-seqs is {sequences:,.0f}: more than that are preempted)",
                                 sequences=sequences))
    return message("{sentence}.", sentence=joined("", parts))


def linear_token_bytes(derived: Mapping[str, Any]) -> int | None:
    """Return the bytes of KV cache per token, if they fit a model that keeps every token in every layer.

    This number is layers * heads * head size * bytes, a multiple of 256; with sliding windows or states it is not.
    """
    found = number(derived, "kv_bytes_per_token")
    return int(found) if found and found % 256 == 0 else None


def pressure(facts: Mapping[str, Any], derived: Mapping[str, Any]) -> str:
    """Return what limits waiting requests, by the statistics counters (`ServerLoad.summary`); "" for none.

    The limit is a full KV cache, --max-num-seqs reached while the cache has room, or a scheduler that is stuck.
    """
    known = {**derived, **facts}
    usage, waiting = number(known, "kv_cache_usage_percent"), number(known, "waiting_requests")
    if (number(known, "stalled_at_end") or 0) >= _LASTING:
        return message("Requests are waiting and none is running: the engine has stalled. Memory is not the reason.")
    if usage is not None and usage == number(known, "stalled_usage_percent") and _computes_no_tokens(known):
        return ""  # a step that does not end: memory is not the reason
    saturated, pinned = number(known, "saturated_lines") or 0, number(known, "pinned_lines") or 0
    if known.get("saturation_periods") and saturated >= pinned:
        return message("Requests waited while the KV cache was full: it is the limit.")
    running = number(known, "peak_running")
    queued, sequences = number(known, "queued_lines") or pinned, number(known, "max_num_seqs") or running
    if pinned >= _LASTING and pinned * 2 >= queued and running == sequences:
        if usage is not None and running and _fills_cache(known):
            return (message("Requests wait for the KV cache: it is {usage:.0f} % full with {running:,.0f} running, "
                            "and one more of that length does not fit.", usage=usage, running=running))
        if _is_slow(known):
            return (message("Requests wait, and the {running:,.0f} running ones each get less than one token in 5 "
                            "seconds: the steps are slow. Memory is not the reason.", running=running))
        most = message(" of {running:,.0f}", running=running) if running else ""
        return message("Requests waited while the KV cache had room and a fixed number{most} ran: --max-num-seqs is "
                       "the limit.", most=most)
    if not waiting or usage is None:
        return ""
    if usage >= SATURATED_PERCENT:
        return message("At the end {waiting:,.0f} requests waited with {usage:.0f} % of the KV cache in use: it is "
                       "the limit.", waiting=waiting, usage=usage)
    running, sequences = number(known, "running_requests"), number(known, "max_num_seqs")
    if usage < ROOMY_PERCENT and running and sequences and running >= sequences:
        return message("At the end {waiting:,.0f} requests waited behind --max-num-seqs, {sequences:,.0f}; the cache "
                       "had room.", waiting=waiting, sequences=sequences)
    return ""


def _computes_no_tokens(known: Mapping[str, Any]) -> bool:
    """Return whether the last statistics show running requests but no token computed."""
    return bool(number(known, "running_requests")) and not any(
        number(known, name) for name in ("prompt_tokens_per_s", "generation_tokens_per_s"))


def _is_slow(known: Mapping[str, Any]) -> bool:
    """Return whether the last statistics show no prompt and under 0.2 tokens/s per request, with no known limit."""
    running, rate = number(known, "running_requests"), number(known, "generation_tokens_per_s")
    slow = running and rate is not None and rate < running * 0.2 and number(known, "prompt_tokens_per_s") == 0
    return bool(slow) and not _is_limited(known)


def _fills_cache(known: Mapping[str, Any]) -> bool:
    """Return whether requests as long as those that ran leave no room for one more, with no known limit."""
    running, fitting = number(known, "peak_running"), number(known, "requests_that_fit")
    return bool(running and fitting and fitting < running + 1) and not _is_limited(known)


def _is_limited(known: Mapping[str, Any]) -> bool:
    """Return whether --max-num-seqs is known, or as many requests ran as its usual value allows."""
    return number(known, "max_num_seqs") is not None or bool(known.get("peak_is_usual_limit"))


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}".removesuffix(".0")
