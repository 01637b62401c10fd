"""How vLLM's flags are spelled, and how many values follow each.

`--max_model_len` is `--max-model-len`, `-tp` is `--tensor-parallel-size`, `--no-x` switches `--x` off,
`--x.key` sets one key of the mapping that `--x` takes (vLLM's FlexibleArgumentParser, 0.4.1 to 0.33.0).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, Protocol

from vllm_doctor.catalog import flags
from vllm_doctor.text.patterns import lazy_pattern
from vllm_doctor.text.size_units import FACTORS

MODEL = "--model"


class FlagInfo(Protocol):
    """The part of a flag table entry that commands need (`catalog.flags.Flag` implements it)."""

    @property
    def name(self) -> str:
        """Return the canonical long flag, `--max-model-len`."""

    @property
    def kind(self) -> str:
        """Return the type: `bool`, `int`, `human_int`, `float`, `str`, `json`, `list` ..."""

    @property
    def keyword(self) -> str | None:
        """Return the Python keyword, `max_model_len`; None for a flag that only the server has."""

    def default(self, version: str | None = None) -> object:
        """Return the default in a release."""

    def kind_in(self, version: str | None = None) -> str:
        """Return the type in a release."""

    def negation(self, version: str | None = None) -> str | None:
        """Return the spelling that switches the flag off in a release, or None."""


Lookup = Callable[[str], FlagInfo | None]

# Flags without a value, for spellings that the flag table does not know.
_SWITCH = lazy_pattern(
    r"--(?:enable|disable|no|use|skip|trust|enforce|allow|log|calculate|return|multi|ray|worker-use|engine-use)-.+"
    r"|--(?:async-scheduling|language-model-only|headless|h|help|version)"
)
_NO_SWITCH = lazy_pattern(
    r"--(?:log-config-file|allowed-[a-z-]+|enable-ssl-.[^=]*=.*|disable-log-stats-.+|use-tqdm-.+|log-level)"
)
DASHES = "\u2010-\u2015\u2212\ufe58\ufe63\uff0d"
"""The class of typographic characters that programs put in place of - or --, for an expression."""
_FLAG = lazy_pattern(rf"--?[A-Za-z]|-{{0,3}}[{DASHES}][-{DASHES}]{{0,3}}[A-Za-z]")
_TYPOGRAPHIC = lazy_pattern(rf"(?=[^=]{{0,80}}[{DASHES}])[-{DASHES}]{{1,4}}[A-Za-z][\w.{DASHES}-]{{0,80}}")
_DASH = lazy_pattern(rf"[{DASHES}]")
_HUMAN = lazy_pattern(r"(\d+(?:\.\d+)?)([kKmMgGtT])", re.ASCII)
_INTEGER = lazy_pattern(r"[-+]?\d+", re.ASCII)
_FLOAT = lazy_pattern(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,4})?", re.ASCII)
_MAX_DIGITS = 100


def is_flag(text: str) -> bool:
    """Return whether a word is a flag, perhaps with a typographic dash; `-1` and `-0.5` are values."""
    return bool(_FLAG.match(text))


def is_typographic(text: str) -> bool:
    """Return whether a word is a flag with a typographic dash, which no parser takes for one: `\u2014enforce-eager`."""
    return not text.isascii() and _TYPOGRAPHIC.fullmatch(text.partition("=")[0]) is not None


def with_plain_dashes(text: str) -> str:
    """Return a flag with typographic dashes as it is written plainly; any other text is not changed."""
    if not is_typographic(text):
        return text
    name, equals, value = text.partition("=")
    name = _DASH.sub("-", name).lstrip("-")
    long, short = f"--{name}", f"-{name}"
    is_short = known_flag(long) is None and flags.lookup(short) is not None
    return (short if is_short else long) + equals + value


@lru_cache(maxsize=1024)
def known_flag(name: str) -> FlagInfo | None:
    """Look up a flag in the flag table; an unambiguous prefix (`--gpu-memory-util`) is accepted."""
    return flags.lookup(name) or flags.accepted(name)


class Spelling(NamedTuple):
    """The meaning of a flag as typed: `--a.b` is `name="--a"`, `path="b"`.

    `known` says that the flag table has the name.
    """

    name: str
    path: str = ""
    negated: bool = False
    known: bool = True


def parse_flag(typed: str, lookup: Lookup = known_flag) -> Spelling:
    """Parse a flag as typed, without its value."""
    base, _, path = with_plain_dashes(typed).partition(".")
    if base == "-O" and path:  # the whole flag has become another one's short form, its keys have not
        base = "--compilation-config"
    if base.startswith("--"):
        base = "--" + base[2:].replace("_", "-")
    elif not base.startswith("-"):
        base = "--" + base.replace("_", "-")
    if base.startswith("--no-"):
        positive = "--" + base[5:]
        known = lookup(positive)
        return Spelling(known.name if known else positive, path, negated=True, known=known is not None)
    known = lookup(base)
    name = known.name if known else None
    inverse = (
        base.replace("--enable-", "--disable-", 1)
        if base.startswith("--enable-")
        else (base.replace("--disable-", "--enable-", 1))
    )
    negated = name == inverse and name != base  # from 0.33.0 `--disable-x` switches `--enable-x` off
    return Spelling(name or base, path, negated=negated, known=name is not None)


def is_same_flag(one: Spelling, other: Spelling) -> bool:
    """Return whether two spellings mean the same flag; an unknown one may be a prefix (`--gpu-memory-util`)."""
    if one.name == other.name:
        return True
    short, long = (one, other) if len(one.name) < len(other.name) else (other, one)
    return not short.known and len(short.name) > len("--max-m") and long.name.startswith(short.name)


def value_count(typed: str, lookup: Lookup = known_flag) -> int | None:
    """Return how many values a flag takes: 0, 1, or None for any number."""
    spelling = parse_flag(typed, lookup)
    if spelling.negated:
        return 0
    if spelling.path:
        return 1
    flag = lookup(spelling.name)
    if flag is not None:
        kind = flag.kind
        if kind.startswith("bool"):
            return 0
        return None if kind == "list" else 1
    return 0 if _SWITCH.fullmatch(spelling.name) and not _NO_SWITCH.fullmatch(spelling.name) else 1


def takes_several_values(name: str, lookup: Lookup = known_flag) -> bool:
    """Return whether a flag takes several values."""
    return value_count(name, lookup) is None


def keyword_of(name: str, lookup: Lookup = flags.lookup) -> str:
    """Return the Python keyword of a flag."""
    flag = lookup(name)
    return (flag.keyword if flag is not None else "") or name.lstrip("-").replace("-", "_")


def read_typed(text: str, kind: str = "") -> object:
    """Convert a value as typed to the value vLLM's parser would produce (`8k` is 8000, `8K` is 8192)."""
    stripped = text.strip()
    if kind.startswith("bool") or stripped.lower() in {"true", "false"}:
        return {"": True, "true": True, "1": True, "false": False, "0": False}.get(stripped.lower(), text)
    if kind == "str":
        return text
    if stripped[:1] in {"{", "["}:
        return read_json(stripped, text)
    if len(stripped) > _MAX_DIGITS:
        return text
    if human := _HUMAN.fullmatch(stripped):
        number = int(float(human.group(1)) * FACTORS[human.group(2)])
        return number if kind.startswith(("int", "human_int")) else text
    if _INTEGER.fullmatch(stripped):
        return int(stripped)
    return float(stripped) if _FLOAT.fullmatch(stripped) else text


def read_json(text: str, otherwise: object) -> object:
    """Parse JSON; return `otherwise` for a text that is not JSON or is nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return otherwise
