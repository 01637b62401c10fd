"""Event -> Fact: the quantities a log states, each with its line, rank and run.

The wordings that carry a fact are data (`rules/facts/*.yaml`): the named groups of the patterns are the fact names.
Lines that print many settings at once (`args: Namespace(…)`, `non-default args: {…}`, the engine's config) are parsed
by `python_literals`, and `names.yaml` maps the settings to facts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from vllm_doctor.catalog.release_numbers import is_untagged
from vllm_doctor.facts.last_items import add_last
from vllm_doctor.facts.python_literals import Repr, read_pairs, read_value
from vllm_doctor.logs.untrusted_text import HIDDEN
from vllm_doctor.text.patterns import lazy_pattern
from vllm_doctor.text.size_units import FACTORS, GIB_OF_UNIT

_QUANTITY = lazy_pattern(r"\s*(-?\d[\d,]*(?:\.\d*)?|-?\.\d+)\s*([KMGT]?)i?(B(?:ytes?)?|bytes?)?", re.IGNORECASE)
_INTEGER = lazy_pattern(r"\s*(-?(?:\d{1,3}(?:,\d{3})+|\d[\d_]*)(?:\.\d+)?),?\s*(?:([kKmMgGtT])\s*)?$")
# Without `.dev1+gabc`.
_VERSION = lazy_pattern(r"[vV]?(\d{1,9}(?:\.\d{1,9}){1,5}(?!\d)(?:\.post\d{1,6}|rc\d{1,6}|[ab]\d{1,6})?)")
_MAX = 1e18  # no quantity of a log is larger
_KEEP = 8  # observations kept at each end of a fact's list


class FactName(NamedTuple):
    """The definition of one fact in `rules/facts/names.yaml`."""

    name: str
    type: str
    merge: str
    about: str
    args: str = ""
    config: str = ""
    flag: str = ""
    ignore: Sequence[str] = ()
    args_unit: str = ""

    def from_setting(self, value: Any) -> Any:
        """Return the value of an argument as it would be captured from text: a plain number of bytes gets its unit."""
        return f"{value} B" if self.args_unit == "bytes" and str(value).isdigit() else value


class Fact(NamedTuple):
    """One observation: `value` in the unit of the name, its line, and the rank that printed it."""

    name: str
    value: Any
    line: int
    rank: int | None = None


def number(values: Mapping[str, Any], name: str) -> float | None:
    """Return a value by name as a number; None if it is missing or no number."""
    value = values.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def convert(kind: str, text: Any) -> Any:
    """Convert a captured text to a value of type `kind`; return None if it is not of that type.

    GiB are 2^30 bytes; a number without a unit is in GiB, and so is one in GB, because vLLM prints GiB as GB.
    """
    if text is None:
        return None
    if isinstance(text, (int, float)) and not isinstance(text, bool) and kind in {"gib", "float", "int"}:
        if not abs(text) <= _MAX:
            return None
        return int(text) if kind == "int" else float(text)
    if kind == "bool":
        return text if isinstance(text, bool) else {"true": True, "false": False, "1": True, "0": False}.get(
            str(text).strip().lower())
    words = str(text).strip()
    if len(words) < 19 and (plain := _convert_plain(kind, words)) is not None:
        return plain
    if kind == "gib":
        match = _QUANTITY.match(words)
        if not match:
            return None
        unit = match[2].upper() or ("B" if match[3] else "G")
        return _number(match[1], GIB_OF_UNIT[unit])
    if kind == "float":
        match = _QUANTITY.match(words)
        return _number(match[1], 1.0) if match else None
    if kind == "capability":  # a compute capability: 7.5, or 75 as some messages print it
        match = _QUANTITY.match(words)
        value = _number(match[1], 1.0) if match else None
        return value / 10 if value is not None and value >= 20 else value
    if kind == "int":
        match = _INTEGER.match(words)
        if not match:
            return None
        value = _number(match[1], float(FACTORS.get(match[2], 1)))
        return None if value is None else int(value)
    if kind == "version":
        match = _VERSION.match(re.sub(r"(?<=\d)-(?=\d)", ".", words))  # a path may have dashes: vllm-0-10-0
        return match[1] if match and not is_untagged(words) else None
    if kind == "platform":  # cuda:7 is the platform and the index of the device
        words = words.partition(":")[0]
    return words or None


def _convert_plain(kind: str, words: str) -> Any:
    """Convert the most frequent forms of a value without a regular expression."""
    if kind == "int":
        return int(words) if words.isdecimal() else None
    if kind in {"float", "gib"}:
        number = words.removesuffix(" GiB") if kind == "gib" else words
        return float(number) if number.replace(".", "", 1).isdecimal() else None
    if kind == "version" and not is_untagged(words):
        parts = words.split(".")
        return words if len(parts) > 1 and all(part.isdecimal() for part in parts) else None
    return None


def _number(text: str, factor: float) -> float | None:
    try:
        value = float(text.replace(",", "").replace("_", "")) * factor
    except ValueError:
        return None
    return value if abs(value) <= _MAX else None


class _Observations:
    """The observations of one fact in one run: the merged value, and the first and last few."""

    def __init__(self, fact: Fact) -> None:
        self.value = fact.value
        self.first = [fact]
        self.last: list[Fact] = []


class FactStore:
    """The facts of one run, merged by the rule of each fact: the largest, smallest, first or last value."""

    def __init__(self, names: Mapping[str, FactName]) -> None:
        self._names = names
        self._seen: dict[str, _Observations] = {}

    def add(self, name: str, raw: Any, line: int, rank: int | None = None) -> Fact | None:
        """Add an observation; return None if the value is empty or no fact has this name."""
        definition = self._names.get(name)
        if definition is None:
            return None
        value = convert(definition.type, _plain(raw))
        if value is None or (definition.ignore and str(value) in definition.ignore):
            return None
        if isinstance(value, str) and HIDDEN in value:
            return None
        fact = Fact(name, value, line, rank)
        observed = self._seen.get(name)
        if observed is None:
            self._seen[name] = _Observations(fact)
            return fact
        if definition.merge != "last" or line >= (observed.last or observed.first)[-1].line:
            observed.value = _merge(definition.merge, observed.value, value)
        if len(observed.first) < _KEEP:
            observed.first.append(fact)
        else:
            add_last(observed.last, fact, _KEEP)
        return fact

    def exceeds(self, name: str, raw: Any) -> bool:
        """Return whether a value exceeds all earlier ones of a fact that keeps its largest or smallest value."""
        definition, observed = self._names[name], self._seen.get(name)
        value = convert(definition.type, raw)
        if value is None or observed is None:
            return value is not None
        return bool(_merge(definition.merge, observed.value, value) != observed.value)

    def get(self, name: str) -> Any:
        """Return the merged value, or None."""
        observed = self._seen.get(name)
        return None if observed is None else observed.value

    def merge_of(self, name: str) -> str:
        """Return the merge rule of a fact: max, min, first or last."""
        return self._names[name].merge if name in self._names else ""

    def values(self) -> dict[str, Any]:
        """Return all merged values, in the order in which the facts are declared."""
        return {name: self._seen[name].value for name in self._names if name in self._seen}

    def observations(self, name: str) -> tuple[Fact, ...]:
        """Return the first and last few observations of a fact."""
        observed = self._seen.get(name)
        return (*observed.first, *observed.last) if observed else ()


def _merge(rule: str, old: Any, new: Any) -> Any:
    if rule == "max":
        return max(old, new)
    if rule == "min":
        return min(old, new)
    return old if rule == "first" else new


def _plain(value: Any) -> Any:
    """Return a setting's value as one text or number: an enum's member, a device's type, a list's first item."""
    if isinstance(value, str):
        word = value.rsplit(".", 1)[-1] if value.startswith("torch.") else value
        if word.startswith("LoadFormat."):  # as the releases before 0.10.1 print it
            word = word.rsplit(".", 1)[-1].lower()
        return None if word in {"None", ""} else word
    if isinstance(value, Repr):
        return _plain(value.get("value", value.get("type")))  # an enum's member, a device's type
    if isinstance(value, (list, tuple)):
        return _plain(value[0]) if value else None
    if isinstance(value, dict):
        return str(value) if value else None
    return value


class Settings(NamedTuple):
    """The settings printed on one line; `complete` is False if the line was cut."""

    kind: str  # "arguments" | "non-default" | "engine-args" | "config"
    values: dict[str, Any]
    complete: bool


_RENAMED = {"chunked_prefill_enabled": "enable_chunked_prefill"}  # its name in the engine's line before 0.12
_NAMESPACE = lazy_pattern(r"\bargs: (?=Namespace\()", cues=("args: Namespace(",))
_NON_DEFAULT = lazy_pattern(r"\bnon-default args: (?=\{)", cues=("non-default args: {",))
_ENGINE_ARGS = lazy_pattern(r"\bargs: (?=(?:Async)?EngineArgs\()", cues=("args: AsyncEngineArgs(", "args: EngineArgs("))
_CONFIG = lazy_pattern(r"(?:Initializing an?|Dumping input data for) (?:V\d )?LLM engine (?:\([^)]*\) )?with config: ",
               cues=("with config: ",))


def read_settings(text: str) -> Settings | None:
    """Parse the four kinds of lines that print many settings; return None for any other text.

    "engine-args" are printed by a program that starts the engine itself, such as Ray Serve or a RunPod worker.
    """
    for kind, pattern in (("arguments", _NAMESPACE), ("non-default", _NON_DEFAULT), ("engine-args", _ENGINE_ARGS)):
        match = pattern.search(text)
        if match:
            read = read_value(text, match.end())
            values = read.value.as_dict() if isinstance(read.value, Repr) else read.value
            named = values.items() if isinstance(values, Mapping) else ()
            return Settings(kind, {key: value for key, value in named if isinstance(key, str)}, read.complete)
    match = _CONFIG.search(text)
    if match:
        pairs = read_pairs(text, match.end())
        return Settings("config", {_RENAMED.get(key, key): value for key, value in pairs.value.items()}, pairs.complete)
    return None
