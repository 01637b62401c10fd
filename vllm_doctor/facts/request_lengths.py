"""Lengths of the requests that a server logs: `Received request …: prompt: …, params: …, prompt_token_ids: [1, 2]`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vllm_doctor.text.patterns import lazy_pattern

MARKER = "Received request "
"""A literal that every such line holds."""

_RECEIVED = lazy_pattern(r"\] Received request [\w-]{1,100}: prompt: ")
_IDS = lazy_pattern(r"prompt_token_ids: \[(?P<ids>[\d, ]*)\]")
_MAX_TOKENS = lazy_pattern(r"\bmax_tokens=(?P<tokens>\d{1,9})\b")
_FEWEST = 20  # requests; fewer are no sample
_PARTS = 16  # lengths are offered in whole blocks


class RequestLengths:
    """The prompts and the longest outputs asked for, in tokens, of the requests that the beginning of a log shows."""

    def __init__(self) -> None:
        self.prompts: list[int] = []
        self.totals: list[int] = []

    def see(self, text: str) -> None:
        """Read a line. What follows the prompt is vLLM's own, so the last match counts, not one in a client's text."""
        if _RECEIVED.search(text) is None:
            return
        ids = text.rfind("prompt_token_ids: [")
        found = _IDS.match(text, ids) if ids >= 0 else None
        params = text.rfind("params: ", 0, ids) if ids >= 0 else -1
        if found is None or not found["ids"].strip() or params < 0:
            return
        prompt = found["ids"].count(",") + 1
        asked = _MAX_TOKENS.search(text, params, ids)
        self.prompts.append(prompt)
        self.totals.append(prompt + (int(asked["tokens"]) if asked else 0))

    def summary(self) -> dict[str, int]:
        """Return the percentiles by name; empty for too few requests."""
        if len(self.prompts) < _FEWEST:
            return {}
        found = {f"request_prompt_p{percent}": percentile(self.prompts, percent) for percent in (50, 95, 99)}
        longest = percentile(self.totals, 99)
        return {"logged_requests": len(self.prompts), **found, "request_total_p99": longest,
                "request_length_needed": math.ceil(longest / _PARTS) * _PARTS}


def percentile(values: Sequence[int], percent: int) -> int:
    """Return a percentile by the nearest-rank method."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]
