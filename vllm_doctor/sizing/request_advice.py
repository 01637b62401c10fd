"""Compare a server's settings with what the requests of a file need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vllm_doctor.facts.store import number
from vllm_doctor.sizing.request_lengths import Lengths, Requests

_FAR = 2  # times what is needed: a limit further away is worth a word


def advice(requests: Requests, name: str, facts: Mapping[str, Any], derived: Mapping[str, Any]) -> str:
    """Return what the requests of the file `name` need, and how far the settings of the log are from it."""
    counted = f" ({requests.counted})" if requests.counted else ""
    text = f"{name} has {requests.count:,} requests{counted}: prompts of {_percentiles(requests.prompts)} tokens"
    text += f", outputs of {_percentiles(requests.outputs)}. " if requests.outputs is not None else ". "
    return text + " ".join(_limits(requests, {**derived, **facts}))


def _limits(requests: Requests, known: Mapping[str, Any]) -> list[str]:
    needed, length, sequences = requests.needed, number(known, "max_model_len"), number(known, "max_num_seqs")
    said = []
    if length and length < needed:
        said.append(f"--max-model-len {length:,.0f} rejects the longest of them: they need {needed:,}.")
    elif length and length >= _FAR * needed:
        said.append(f"They need --max-model-len {needed:,}; {length:,.0f} is {length / needed:.1f} times that.")
    else:
        said.append(f"They need --max-model-len {needed:,}.")
    tokens = number(known, "kv_cache_tokens") or number(known, "kv_cache_capacity_tokens")
    if tokens and requests.mean_total:
        at_once = int(tokens / requests.mean_total)
        if at_once < 1:
            said.append(f"The KV cache holds {tokens:,.0f} tokens, less than one request of their mean length "
                        f"({requests.mean_total:,}).")
        else:
            said.append(f"At their mean length of {requests.mean_total:,} tokens the KV cache of {tokens:,.0f} tokens "
                        f"holds {at_once:,} at once" + _beside(at_once, sequences) + ".")
    return said


def _beside(at_once: int, sequences: float | None) -> str:
    if not sequences:
        return ""
    if at_once < sequences:
        return f"; --max-num-seqs {sequences:,.0f} allows more, which are preempted when the cache is full"
    if at_once >= _FAR * sequences:
        return f"; --max-num-seqs {sequences:,.0f} is the limit"
    return f"; --max-num-seqs is {sequences:,.0f}"


def _percentiles(lengths: Lengths) -> str:
    return ", ".join(f"P{percent} {tokens:,}" for percent, tokens in sorted(lengths.percentiles.items()))
