"""The filters rules may use: `value | name(argument, …)`, in expressions and in the words of a rule.

A filter is a plain function. Its first parameter is the value before the bar. A parameter whose default is None gets
None when the log does not show that fact; any other unknown argument makes the whole result unknown. Answering None
means "cannot be computed".
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from vllm_doctor import phases
from vllm_doctor.catalog.releases import Releases
from vllm_doctor.memory import solver
from vllm_doctor.templating import flag_filters, model_filters, value_filters

REFUSALS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a filter raises when a value is none for it: a text where a number belongs, a number beyond all bounds."""
_MAX_COUNT = 2**20  # no dimension of a model and no number of ranks is larger; bounds the search for a divisor
_MAX_DIGITS = 15


def floor_to(value: float, step: float) -> float:
    """The largest multiple of `step` not above `value`."""
    return _tidy(math.floor(value / step + 1e-9) * step, step)


def ceil_to(value: float, step: float) -> float:
    """The smallest multiple of `step` not below `value`."""
    return _tidy(math.ceil(value / step - 1e-9) * step, step)


def _tidy(value: float, step: float) -> float:
    return int(value) if float(step).is_integer() else round(value, 6)


def round_to(value: float, digits: int = 2) -> float:
    """`value` with that many decimals, at most 15."""
    return round(value, min(max(int(digits), 0), _MAX_DIGITS)) if digits else round(value)


def at_least(value: float, bound: float | None = None) -> float:
    """The larger of the two; `value` when the bound is unknown."""
    return value if bound is None else max(value, bound)


def at_most(value: float, bound: float | None = None) -> float:
    """The smaller of the two; `value` when the bound is unknown."""
    return value if bound is None else min(value, bound)


def power_of_two(value: float) -> int | None:
    """The largest power of two not above `value`."""
    return None if value < 1 else 1 << (int(value).bit_length() - 1)


def largest_divisor(value: float, limit: float) -> int | None:
    """The largest whole divisor of `value` that is not above `limit`. None for more than a million."""
    whole = int(value)
    if whole > _MAX_COUNT:
        return None
    return next((number for number in range(min(int(limit), whole), 0, -1) if whole % number == 0), None)


def power_of_two_divisor(value: float, limit: float) -> int | None:
    """The largest power of two not above `limit` that divides `value`: vLLM's kernels and KV heads like these best."""
    number, whole = 1, int(value)
    if whole < 1 or limit < 1:
        return None
    while number * 2 <= limit and whole % (number * 2) == 0:
        number *= 2
    return number


def aligned_parallel(shard: float, parallel: float, unit: float) -> int | None:
    """The largest number of ranks below `parallel` whose share of the split dimension is a whole number of units.

    `shard` is the share at `parallel` ranks; only divisors of `parallel` count, for they divide the heads as well.
    None when none fits, not even a single rank, and for more than a million ranks.
    """
    if parallel > _MAX_COUNT:
        return None
    whole = int(shard) * int(parallel)
    ranks = (number for number in range(int(parallel) - 1, 0, -1) if int(parallel) % number == 0)
    return next((number for number in ranks if (whole // number) % int(unit) == 0), None)


def or_else(value: Any = None, fallback: Any = None) -> Any:
    """`value`, or `fallback` when it is unknown."""
    return fallback if value is None else value


def given(value: Any, condition: bool) -> Any:
    """`value` when the condition certainly holds, else unknown."""
    return value if condition else None


def since(releases: Releases, version: str) -> bool | None:
    """Whether every release this log can be of is `version` or newer; unknown when some are and some are not."""
    return releases.since(version)


def before(releases: Releases, version: str) -> bool | None:
    """Whether every release this log can be of is older than `version`; unknown when some are and some are not."""
    answer = releases.since(version)
    return None if answer is None else not answer


def reached(phase: str, other: str) -> bool:
    """Whether a start in `phase` has come as far as `other`."""
    return phases.reached(phase, other)


def contains(text: Any, part: str) -> bool:
    """Whether `part` stands in the text, without regard to case."""
    return part.lower() in str(text).lower()


def starts_with(text: Any, part: str) -> bool:
    """Whether the text begins with `part`, without regard to case."""
    return str(text).lower().startswith(part.lower())


def is_local_path(model: str) -> bool:
    """Whether a model name is a path rather than a repository id (`org/name`)."""
    return model.startswith(("/", "./", "../", "~")) or model.count("/") > 1


def count(items: Any) -> int:
    """How many items a list holds (1 for a single value)."""
    return len(items) if isinstance(items, Sequence) and not isinstance(items, str) else 1


def listed(text: Any) -> int:
    """How many items a text lists, separated by commas: 2 for `0, 1`, 0 for an empty one."""
    return sum(1 for item in str(text).split(",") if item.strip())


def spaced(text: str) -> str:
    """A list with a blank behind each comma: `a, b` for `a,b`."""
    return ", ".join(item.strip() for item in text.split(","))


def gib(value: float) -> str:
    """A quantity of memory in words: `4.5 GiB`, `512 MiB`."""
    if abs(value) < 0.1 and value:
        return f"{value * 1024:.0f} MiB"
    return f"{value:.2f}".rstrip("0").rstrip(".") + " GiB"


def number(value: float) -> str:
    """A number with thousands separated: `131,072`."""
    return f"{value:,.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"


def percent(value: float) -> str:
    """A share in words: `0.92` is `92 %`."""
    return f"{value * 100:.1f}".rstrip("0").rstrip(".") + " %"


def plural(value: float, one: str, many: str) -> str:
    """A value with its noun: 1 with 'GPU' and 'GPUs' is `1 GPU`."""
    return f"{number(value)} {one if value == 1 else many}"


_OWN: tuple[Callable[..., Any], ...] = (
    floor_to,
    ceil_to,
    round_to,
    at_least,
    at_most,
    power_of_two,
    largest_divisor,
    power_of_two_divisor,
    aligned_parallel,
    or_else,
    given,
    since,
    before,
    reached,
    contains,
    starts_with,
    is_local_path,
    spaced,
    count,
    listed,
    gib,
    number,
    percent,
    plural,
)

_NAMES = {function.__name__: function for function in _OWN}
_MODULES = (solver, value_filters, flag_filters, model_filters)  # all their public names are filters


def names() -> list[str]:
    """The names of all filters, in order."""
    return sorted({*_NAMES, *(name for module in _MODULES for name in module.__all__)})


@lru_cache(maxsize=256)
def find(name: str) -> Callable[..., Any] | None:
    """Return the filter of that name, or None."""
    if name in _NAMES:
        return _NAMES[name]
    for module in _MODULES:
        if name in module.__all__:
            found: Callable[..., Any] = getattr(module, name)
            return found
    return None


@lru_cache(maxsize=256)
def parameters(name: str) -> tuple[str, ...]:
    """Return the names of a filter's parameters, the value before the bar first; empty for an unknown filter."""
    return tuple(_signature(name))


@lru_cache(maxsize=256)
def optional_parameters(name: str) -> frozenset[str]:
    """Return the parameters of a filter whose default is None."""
    return frozenset(key for key, parameter in _signature(name).items() if parameter.default is None)


@lru_cache(maxsize=256)
def numeric_parameters(name: str) -> frozenset[str]:
    """Return the parameters of a filter that are numbers."""
    return frozenset(key for key, parameter in _signature(name).items() if parameter.annotation in _NUMBERS)


# As `from __future__ import annotations` keeps them, and as values.
_NUMBERS = ("int", "float", "int | None", "float | None", int, float, int | None, float | None)


def _signature(name: str) -> Mapping[str, inspect.Parameter]:
    found = find(name)
    return inspect.signature(found).parameters if found else {}
