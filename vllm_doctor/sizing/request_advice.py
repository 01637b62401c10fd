"""Compare a server's settings with what the requests of a file need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vllm_doctor.facts.store import number
from vllm_doctor.messages import joined, message
from vllm_doctor.sizing.request_lengths import Lengths, Requests

_FAR = 2  # times what is needed: a limit further away is worth a word


def advice(requests: Requests, name: str, facts: Mapping[str, Any], derived: Mapping[str, Any]) -> str:
    """Return what the requests of the file `name` need, and how far the settings of the log are from it."""
    counted = message(" ({remark})", remark=requests.counted) if requests.counted else ""
    numbers = {"name": name, "count": requests.count, "counted": counted,
               "prompts": _percentiles(requests.prompts)}
    if requests.outputs is None:
        text = message("{name} has {count:,} requests{counted}: prompts of {prompts} tokens.", **numbers)
    else:
        text = message("{name} has {count:,} requests{counted}: prompts of {prompts} tokens, outputs of {outputs}.",
                       **numbers, outputs=_percentiles(requests.outputs))
    return joined(" ", [text, *_limits(requests, {**derived, **facts})])


def _limits(requests: Requests, known: Mapping[str, Any]) -> list[str]:
    needed, length, sequences = requests.needed, number(known, "max_model_len"), number(known, "max_num_seqs")
    lines: list[str] = []
    if length and length < needed:
        lines.append(message("--max-model-len {length:,.0f} rejects the longest of them: they need {needed:,}.",
                             length=length, needed=needed))
    elif length and length >= _FAR * needed:
        lines.append(message("They need --max-model-len {needed:,}; {length:,.0f} is {ratio:.1f} times that.",
                             needed=needed, length=length, ratio=length / needed))
    else:
        lines.append(message("They need --max-model-len {needed:,}.", needed=needed))
    tokens = number(known, "kv_cache_tokens") or number(known, "kv_cache_capacity_tokens")
    if tokens and requests.mean_total:
        at_once = int(tokens / requests.mean_total)
        if at_once < 1:
            lines.append(message("The KV cache holds {tokens:,.0f} tokens, less than one request of their mean length "
                                 "({mean_total:,}).", tokens=tokens, mean_total=requests.mean_total))
        else:
            lines.append(message("At their mean length of {mean:,} tokens the KV cache of {tokens:,.0f} tokens holds "
                                 "{count:,} at once{limit}.", mean=requests.mean_total, tokens=tokens, count=at_once,
                                 limit=_beside(at_once, sequences)))
    return lines


def _beside(at_once: int, sequences: float | None) -> str:
    if not sequences:
        return ""
    if at_once < sequences:
        return message("; --max-num-seqs {sequences:,.0f} allows more, which are preempted when the cache is full",
                       sequences=sequences)
    if at_once >= _FAR * sequences:
        return message("; --max-num-seqs {sequences:,.0f} is the limit", sequences=sequences)
    return message("; --max-num-seqs is {sequences:,.0f}", sequences=sequences)


def _percentiles(lengths: Lengths) -> str:
    return joined(", ", (f"P{percent} {tokens:,}" for percent, tokens in sorted(lengths.percentiles.items())))
