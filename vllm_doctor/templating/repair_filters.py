"""Filters that correct the values of flags: the choice, number or JSON that was probably meant.

`catalog.flags` knows which values exist in which release.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any

from vllm_doctor.catalog import flags
from vllm_doctor.catalog.releases import Releases
from vllm_doctor.command.flags import read_json
from vllm_doctor.messages import joined
from vllm_doctor.text.patterns import lazy_pattern
from vllm_doctor.text.size_units import FACTORS

__all__ = [
    "as_json",
    "as_json_list",
    "as_pairs",
    "bound_meant",
    "in_words",
    "inside_typographic_quotes",
    "integers_meant",
    "mm_limits",
    "nearest_choice",
    "number_meant",
    "release_with_choice",
    "share_meant",
    "table_choice",
    "with_key",
    "with_position_limit",
    "with_renamed_key",
    "yarn_overrides",
]

_MAX_LISTED = 200  # choices printed by a message that are considered
_MAX_VALUE = 80  # characters of one choice; bounds the similarity search
_MIN_PREFIX = 4  # letters that stand for a name by themselves
_MIN_SIMILARITY = 0.6  # of a value to the choice that was meant

_ALIASES: Mapping[str, tuple[str, ...]] = {
    "fp16": ("float16", "half"), "f16": ("float16", "half"), "torch.float16": ("float16", "half"),
    "bf16": ("bfloat16",), "torch.bfloat16": ("bfloat16",),
    "fp32": ("float32", "float"), "f32": ("float32", "float"), "torch.float32": ("float32", "float"),
    "avg": ("MEAN",), "average": ("MEAN",),
}

_NUMBER = lazy_pattern(
    r"((?:\d{1,3}(?:,\d{3})+|\d[\d_]*)(?:\.\d+)?(?:[eE]\+?\d{1,2})?)\s*([kKmMgGtT]?)(?:i?[bB]|tokens?)?")

_BOUND = lazy_pattern(
    r"(?P<how>[<>]=?|(?:greater|less) than(?: or equal to)?)\s*(?:\w{1,60} ?\(|\()?(?P<bound>-?\d{1,15})\b")
_TYPOGRAPHIC = lazy_pattern(
    r"(?<=[{\[,:\s])[\u2018-\u201f\u2033\u00ab\u00bb]|[\u2018-\u201f\u2033\u00ab\u00bb](?=\s*[}\],:])")
_TYPOGRAPHICALLY_QUOTED = lazy_pattern(
    r"[\u2018-\u201f\u2033\u00ab\u00bb]([^\s\u2018-\u201f\u2033\u00ab\u00bb]{1,300})[\u2018-\u201f\u2033\u00ab\u00bb]?")
_TOKEN = lazy_pattern(r"""
    '((?:[^'\\]|\\.)*)'                                        # a Python string
    | ("(?:[^"\\]|\\.)*")                                      # a JSON string
    | ([\[\]{}:,])
    | ([^\s\[\]{}:,'"]+(?::(?=[/\\])[^\s\[\]{},'"]+)?)       # a bare word or URL
    | \s+
""", re.VERBOSE)
_JSON_NUMBER = r"-?(?:0|[1-9]\d{0,40})(?:\.\d{1,40})?(?:[eE][-+]?\d{1,2})?"
_ESCAPED_MARK = lazy_pattern(r"\\(['\\])")
_WORDS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}


def scalar(text: str) -> Any:
    """Return the JSON value of a text, or the text itself if it is not JSON."""
    return read_json(text, text)


def in_words(value: Any, before: str) -> str:
    """Return the value with `before` in front of it."""
    return joined("", (before, value if isinstance(value, str) else str(value)))


def release_with_choice(value: Any, name: str, releases: Releases) -> str | None:
    """Return the first release newer than the possible ones whose flag accepts the value; None if there is none."""
    flag = flags.lookup(name)
    if flag is None:
        return None
    refusing = [release for release in releases.candidates if value not in flag.choices(release)]
    if not refusing:
        return None
    order = flags.releases()
    known = [release for release in refusing if flag.choices(release)] or refusing
    newer = order[order.index(known[-1]) + 1:]
    return next((release for release in newer if value in flag.choices(release)), None)


def _listed(choices: str) -> list[str]:
    """Return the values of a printed list: `'auto', 'half'`, `1, 8, 16`, `{ a,b }`."""
    words = re.findall(r"[A-Za-z0-9_][\w.+-]*", choices)
    return [word for word in words if word not in {"or", "and"} and len(word) <= _MAX_VALUE][:_MAX_LISTED]


def nearest_choice(value: Any, choices: str) -> str | None:
    """Return the printed choice that is probably meant: the next larger number, a dtype alias, or the most similar."""
    listed = _listed(choices)
    text = str(value).strip("'\" ")
    if len(text) > _MAX_VALUE:
        return None
    numbers = [int(item) for item in listed if item.isdigit()]
    if numbers and len(numbers) == len(listed):
        if not re.fullmatch(r"\d+(?:\.\d+)?", text):
            return None
        return str(min((number for number in numbers if number >= float(text)), default=max(numbers)))
    for other in _ALIASES.get(text.lower(), ()):
        if other in listed:
            return other

    with_prefix = [item for item in listed if item.lower().startswith(text.lower()) and text]
    # FLASH means FLASH_ATTN rather than FLASHMLA.
    with_prefix = [item for item in with_prefix if not item[len(text):][:1].isalnum()] or with_prefix
    candidates = with_prefix if len(text) >= _MIN_PREFIX and with_prefix else listed
    scored = [(_similarity(text, item), -place) for place, item in enumerate(candidates)]
    if scored and max(scored)[0] >= _MIN_SIMILARITY:
        return candidates[-max(scored)[1]]
    words = re.split(r"[\W_]+", text.lower())
    named = [item for item in listed if len(item) >= _MIN_PREFIX and item.lower() in words]
    return next(iter([*with_prefix, *named]), None)


def _similarity(value: str, choice: str) -> float:
    """Return the similarity of two names from 0 to 1. A common beginning counts more, as Winkler weighs it."""
    one, other = (re.sub(r"[-_]", "", name.lower()) for name in (value, choice))
    ratio = SequenceMatcher(None, one, other).ratio()
    begin = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one[:4], other[:4], strict=False)))
    return ratio + 0.1 * begin * (1 - ratio) if ratio >= _MIN_SIMILARITY else ratio


def table_choice(value: Any, name: str, releases: Releases) -> str | None:
    """Return the nearest choice of the release's flag, for a log that does not print the choices."""
    flag = flags.lookup(name)
    choices = flag.choices(releases.candidates[-1]) if flag is not None else ()
    return nearest_choice(value, ", ".join(choices)) if choices else None


def bound_meant(condition: str) -> int | None:
    """Return the integer nearest to a bound: 4 for `>= max_loras (4)`, 1 for `greater than or equal to 1` or `> 0`."""
    match = _BOUND.match(condition)
    if match is None:
        return None
    how, bound = match["how"], int(match["bound"])
    if how in {"<", "less than"}:
        return bound - 1
    return bound + 1 if how in {">", "greater than"} else bound


def number_meant(value: Any) -> int | None:
    """Return the integer in `32k`, `8,192`, `1e4` or `8192.0`, with vLLM's unit letters (k 1000, K 1024).

    None if it is not an integer, or already written plainly.
    """
    text = str(value).strip("'\" ")
    match = _NUMBER.fullmatch(text)
    if match is None or text.isdigit():
        return None
    number = float(match[1].replace(",", "").replace("_", "")) * FACTORS[match[2]]
    return int(number) if number.is_integer() else None


def integers_meant(value: Any) -> str | None:
    """Return `1 2 4`, the words a flag of several integers takes, for `1,2,4` or `[1, 2, 4]`; None for other texts."""
    text = str(value).strip("'\"[] ")
    items = [item.strip() for item in text.split(",")]
    return " ".join(items) if all(item.isdigit() for item in items) else None


def share_meant(value: Any) -> float | None:
    """Return the fraction in `90`, `90%` or `0,9` (0.9); None for other texts, such as `9`, which may mean 0.9 too."""
    match = re.fullmatch(r"(\d+(?:[.,]\d+)?)\s*(%?)", str(value).strip("'\" "))
    if match is None:
        return None
    number = float(match[1].replace(",", "."))
    if not match[2] and 2 < number < 10:
        return None
    if match[2] or number > 2:
        number = number / 100
    return round(number, 4) if 0 < number <= 1 else None


def as_json(value: Any) -> str | None:
    """Return the JSON that was meant by a Python dict, `image=4,audio=1`, or JSON without quotes or last brackets.

    Typographic quotes around keys and strings are read as plain ones.
    """
    text = str(value).strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    if text[:2] in {"\\{", "\\[", "{\\"}:  # a launcher escaped every mark
        text = text.replace("\\", "")
    text = _TYPOGRAPHIC.sub('"', text)
    if text.startswith("{{"):  # a template's doubled braces
        text = text.replace("{{", "{").replace("}}", "}")
    if re.fullmatch(r"[\w.-]+=[^,={}]+(?:,[\w.-]+=[^,={}]+)*", text):
        return json.dumps({key: scalar(item.strip())
                           for key, _, item in (part.partition("=") for part in text.split(","))})
    if text[:1] not in "{[":
        return None
    tokens, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return None
        single, double, mark, bare = match.groups()
        if single is not None:
            tokens.append(json.dumps(_ESCAPED_MARK.sub(r"\1", single)))
        elif bare is not None:
            tokens.append(_WORDS.get(bare) or (bare if re.fullmatch(_JSON_NUMBER, bare) else json.dumps(bare)))
        else:
            if mark in {"}", "]"} and tokens[-1:] == [","]:
                tokens.pop()
            tokens += filter(None, [double or mark])
        position = match.end()
    if "..." not in text:  # a value abbreviated by the message cannot be completed
        tokens += _missing_end(tokens)
    try:
        return json.dumps(json.loads("".join(tokens)))
    except (ValueError, RecursionError):
        return None


def _mapping_meant(value: Any) -> dict[str, Any] | None:
    """Return the JSON object that was meant; None if it is no object."""
    text = as_json(value)
    read = json.loads(text) if text else None
    return read if isinstance(read, dict) else None


def inside_typographic_quotes(value: Any) -> str | None:
    """Return a text without the typographic quotes around it, which no shell removes; None if it has none."""
    match = _TYPOGRAPHICALLY_QUOTED.fullmatch(str(value).strip("'\" "))
    return match[1] if match is not None else None


def as_json_list(value: Any) -> str | None:
    """Return the JSON list that was meant by comma-separated words: `*`, `GET,POST`, `[http://a]`."""
    text = str(value).strip("'\" ").removeprefix("[").removesuffix("]")
    items = [item.strip("'\" ") for item in text.split(",")]
    return json.dumps(items) if all(items) else None


def _missing_end(tokens: list[str]) -> list[str]:
    """Return the missing closing brackets."""
    closers: list[str] = []
    for mark in tokens:
        if mark in {"{", "["}:
            closers.append("}" if mark == "{" else "]")
        elif closers and mark == closers[-1]:
            closers.pop()
    return closers[::-1]


def as_pairs(value: Any) -> str | None:
    """Return a JSON object (or Python dict) of numbers as `image=4,audio=1`, the syntax before 0.10."""
    read = _mapping_meant(value)
    if read is None or not all(isinstance(item, int) for item in read.values()):
        return None
    return ",".join(f"{key}={item}" for key, item in read.items())


def mm_limits(modality: str, count: float, releases: Releases) -> str:
    """Return --limit-mm-per-prompt for one modality: `image=2` before 0.8.5, then JSON."""
    flag = flags.lookup("--limit-mm-per-prompt")
    text = json.dumps({modality: int(count)})
    takes_json = flag is None or flag.accepts(text, releases.candidates[-1])
    return text if takes_json else f"{modality}={int(count)}"


def yarn_overrides(length: float, original: float, theta: float, releases: Releases) -> str | None:
    """Return --hf-overrides that extend a RoPE model to `length` tokens with YaRN; None above a factor of 8.

    The keys are those of vllm/config/model.py: since 0.30.0 max_position_embeddings is no longer multiplied by the
    factor and must be set too.
    """
    factor = -(-int(length) // int(original))
    if not 1 < factor <= 8:
        return None
    rope = {"rope_type": "yarn", "factor": float(factor), "original_max_position_embeddings": int(original),
            "rope_theta": theta}
    overrides: dict[str, Any] = {"rope_parameters": rope}
    if releases.since("0.30.0"):
        overrides["max_position_embeddings"] = factor * int(original)
    return json.dumps(overrides)


def with_position_limit(overrides: Any, length: float) -> str | None:
    """Return the --hf-overrides with max_position_embeddings next to the RoPE settings, as required since 0.30.0."""
    read = _mapping_meant(overrides)
    if read is None:
        return None
    place = next((inner for inner in read.values() if isinstance(inner, dict)
                  and any(key.startswith("rope") and isinstance(inner[key], dict) for key in inner)), read)
    place["max_position_embeddings"] = int(length)
    return json.dumps(read)


def with_key(settings: Any, key: str, value: Any) -> str | None:
    """Return a JSON flag's settings with one key set; None if they are not a JSON object."""
    read = _mapping_meant(settings)
    return None if read is None else json.dumps({**read, key: value})


def with_renamed_key(settings: Any, old: str, new: str) -> str | None:
    """Return a JSON flag's settings with one key renamed, in the same position; None if the key is missing."""
    read = _mapping_meant(settings)
    if read is None or old not in read:
        return None
    return json.dumps({new if key == old else key: value for key, value in read.items()})
