"""Read the lengths of real requests from a JSON Lines file, to choose a context length.

A line has lengths or text: OpenAI requests and batch lines, usage records, ShareGPT conversations, prompt/completion
pairs. Text is counted with a tokenizer file if one is given, else as four characters per token.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from vllm_doctor.errors import InputError
from vllm_doctor.facts.request_lengths import percentile
from vllm_doctor.messages import message

_PROMPT_LENGTHS = ("prompt_tokens", "input_tokens", "prompt_len", "input_len", "input_length", "num_prompt_tokens",
                   "prompt_length")
_OUTPUT_LENGTHS = ("completion_tokens", "output_tokens", "output_len", "output_length", "num_output_tokens",
                   "max_completion_tokens", "max_tokens", "max_output_tokens")
_PROMPT_TEXTS = ("prompt", "messages", "input", "text", "question", "instruction")
_OUTPUT_TEXTS = ("completion", "response", "output", "answer", "generated_text", "choices")
_WRAPPERS = ("body", "usage", "request", "params")
_CHARACTERS = 4
_CHAT_TOKENS = 4  # added to each message by the chat template, roughly
_MOST_LINE = 64 << 20
_MOST_TOKENS = 1 << 40


class Lengths(NamedTuple):
    """The percentiles of lengths in tokens ({50: …, 95: …, 99: …}) and the maximum."""

    percentiles: dict[int, int]
    longest: int


@dataclass(frozen=True)
class Requests:
    """The lengths of the requests of a file, in tokens."""

    count: int
    prompts: Lengths
    outputs: Lengths | None
    totals: Lengths
    mean_total: int
    counted: str  # how text was counted, as a phrase; "" if all lines had lengths
    skipped: int = 0

    @property
    def needed(self) -> int:
        """Return the max_model_len that holds a P99 prompt and a P99 output, rounded up to a multiple of 16."""
        output = self.outputs.percentiles[99] if self.outputs is not None else 0
        return math.ceil((self.prompts.percentiles[99] + output) / 16) * 16


def read_requests(path: str | Path, tokenizer: str | Path | None = None) -> Requests:
    """Read a JSON Lines file. Raises InputError if no line has a prompt or its length."""
    count = _counter(tokenizer)
    prompts: list[int] = []
    outputs: list[int | None] = []
    skipped, texts = 0, False
    try:
        with Path(path).open("rb") as file:
            while line := file.readline(_MOST_LINE):
                if not line.strip():
                    continue
                tokens = _line(line, count)
                if tokens is None:
                    skipped += 1
                    continue
                prompts.append(tokens[0])
                outputs.append(tokens[1])
                texts = texts or tokens[2]
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    if not prompts:
        raise InputError(f"{path}: no line has the length or the text of a prompt (expected JSON lines)")
    known = [one for one in outputs if one is not None]
    totals = [prompt + (output or 0) for prompt, output in zip(prompts, outputs, strict=True)]
    how_counted = ""
    if texts:
        how_counted = (message("counted with {tokenizer}", tokenizer=Path(tokenizer).name) if tokenizer
                       else message("estimated as {characters} characters per token", characters=_CHARACTERS))
    return Requests(len(prompts), _lengths(prompts), _lengths(known) if known else None, _lengths(totals),
                    round(sum(totals) / len(totals)), how_counted, skipped)


def _lengths(values: Sequence[int]) -> Lengths:
    return Lengths({percent: percentile(values, percent) for percent in (50, 95, 99)}, max(values))


def _counter(tokenizer: str | Path | None) -> Callable[[str], int]:
    if tokenizer is None:
        return lambda text: math.ceil(len(text) / _CHARACTERS)
    try:
        from tokenizers import Tokenizer  # type: ignore[import-not-found,unused-ignore] # noqa: PLC0415 - optional
    except ImportError as error:
        raise InputError("--tokenizer needs the package `tokenizers`; without it, text is counted as four "
                         "characters per token") from error
    try:
        loaded = Tokenizer.from_file(str(tokenizer))
    except Exception as error:  # the package raises plain Exception
        raise InputError(f"{tokenizer}: not a tokenizer.json ({error})") from error
    return lambda text: len(loaded.encode(text).ids)


def _line(line: bytes, count: Callable[[str], int]) -> tuple[int, int | None, bool] | None:
    """Return the prompt and output tokens of one line, and whether text was counted; None without a prompt."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, Mapping):
        return None
    merged: dict[str, Any] = {}
    for name in _WRAPPERS:
        inner = value.get(name)
        if isinstance(inner, Mapping):
            merged |= inner
    merged |= {key: inner for key, inner in value.items() if key not in _WRAPPERS}
    if isinstance(turns := merged.get("conversations"), list) and turns:
        merged = {"prompt": turns[:1], "completion": turns[1:2]}
    prompt, output = _length(merged, _PROMPT_LENGTHS), _length(merged, _OUTPUT_LENGTHS)
    texts = False
    if prompt is None and _is_token_ids(ids := merged.get("prompt")):
        prompt = len(ids)
    if prompt is None and (text := _text(merged, _PROMPT_TEXTS)) is not None:
        prompt, texts = count(text[0]) + text[1] * _CHAT_TOKENS, True
    if prompt is None:
        return None
    if output is None and (text := _text(merged, _OUTPUT_TEXTS)) is not None:
        output, texts = count(text[0]), True
    return prompt, output, texts


def _is_token_ids(value: Any) -> TypeGuard[list[int]]:
    """Return whether a prompt is given as the ids of its tokens."""
    return isinstance(value, list) and bool(value) and all(type(one) is int for one in value)


def _length(value: Mapping[str, Any], names: Sequence[str]) -> int | None:
    for name in names:
        number = value.get(name)
        if isinstance(number, (int, float)) and not isinstance(number, bool) and 0 <= number < _MOST_TOKENS:
            return int(number)
    return None


def _text(value: Mapping[str, Any], names: Sequence[str]) -> tuple[str, int] | None:
    """Return the text of the first of these fields, and how many chat messages it consists of."""
    for name in names:
        content = value.get(name)
        if isinstance(content, str):
            return content, 0
        if isinstance(content, list) and content:
            pieces = [_piece(one) for one in content]
            return "\n".join(pieces), sum(isinstance(one, Mapping) for one in content)
    return None


def _piece(value: Any) -> str:
    """Return the text of a message: its content, a choice's message, or the string itself."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        return ""
    for name in ("content", "value", "text", "message"):
        inner = value.get(name)
        if isinstance(inner, str):
            return inner
        if isinstance(inner, list):
            return " ".join(_piece(one) for one in inner)
        if isinstance(inner, Mapping):
            return _piece(inner)
    return ""
