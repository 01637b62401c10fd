"""The filters that rules may use, `value | name(argument, …)`, in expressions and texts.

A filter is a plain function. Its first parameter is the value before the bar. A parameter whose default is None gets
None if the log does not show that fact; any other unknown argument makes the result unknown. Returning None means
"cannot be computed".
"""

from __future__ import annotations

import inspect
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from vllm_doctor import phases
from vllm_doctor.catalog.releases import Releases
from vllm_doctor.memory import solver
from vllm_doctor.templating import advice_filters, flag_filters, model_filters, name_filters, value_filters

REFUSALS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""The exceptions of a filter for an unsuitable value, such as a string in place of a number."""
_MAX_COUNT = 2**20  # larger than any dimension of a model or number of ranks; bounds the search for a divisor
_MAX_DIGITS = 15


def floor_to(value: float, step: float) -> float:
    """Return the largest multiple of `step` not above `value`."""
    return _without_float_error(math.floor(value / step + 1e-9) * step, step)


def ceil_to(value: float, step: float) -> float:
    """Return the smallest multiple of `step` not below `value`."""
    return _without_float_error(math.ceil(value / step - 1e-9) * step, step)


def _without_float_error(value: float, step: float) -> float:
    return int(value) if float(step).is_integer() else round(value, 6)


def round_to(value: float, digits: int = 2) -> float:
    """Return `value` rounded to that many decimals, at most 15."""
    return round(value, min(max(int(digits), 0), _MAX_DIGITS)) if digits else round(value)


def at_least(value: float, bound: float | None = None) -> float:
    """Return the larger of the two; `value` if the bound is unknown."""
    return value if bound is None else max(value, bound)


def at_most(value: float, bound: float | None = None) -> float:
    """Return the smaller of the two; `value` if the bound is unknown."""
    return value if bound is None else min(value, bound)


def power_of_two(value: float) -> int | None:
    """Return the largest power of two not above `value`."""
    return None if value < 1 else 1 << (int(value).bit_length() - 1)


def largest_divisor(value: float, limit: float) -> int | None:
    """Return the largest divisor of `value` that is not above `limit`; None if `value` is above a million."""
    whole = int(value)
    if whole > _MAX_COUNT:
        return None
    return next((number for number in range(min(int(limit), whole), 0, -1) if whole % number == 0), None)


def power_of_two_divisor(value: float, limit: float) -> int | None:
    """Return the largest power of two up to `limit` that divides `value`, as vLLM's kernels and KV heads prefer."""
    number, whole = 1, int(value)
    if whole < 1 or limit < 1:
        return None
    while number * 2 <= limit and whole % (number * 2) == 0:
        number *= 2
    return number


def aligned_parallel(shard: float, parallel: float, unit: float) -> int | None:
    """Return the largest number of ranks below `parallel` whose shard is a multiple of `unit`.

    `shard` is the shard size at `parallel` ranks. Only divisors of `parallel` count, because they divide the heads too.
    None if there is none, and for more than a million ranks.
    """
    if parallel > _MAX_COUNT:
        return None
    whole = int(shard) * int(parallel)
    ranks = (number for number in range(int(parallel) - 1, 0, -1) if int(parallel) % number == 0)
    return next((number for number in ranks if (whole // number) % int(unit) == 0), None)


def or_else(value: Any = None, fallback: Any = None) -> Any:
    """Return `value`, or `fallback` if it is unknown."""
    return fallback if value is None else value


def given(value: Any, condition: bool) -> Any:
    """Return `value` if the condition certainly holds, else unknown."""
    return value if condition else None


def since(releases: Releases, version: str) -> bool | None:
    """Return whether all possible releases are `version` or newer; unknown if only some are."""
    return releases.since(version)


def before(releases: Releases, version: str) -> bool | None:
    """Return whether all possible releases are older than `version`; unknown if only some are."""
    answer = releases.since(version)
    return None if answer is None else not answer


def reached(phase: str, other: str) -> bool:
    """Return whether a server in `phase` has reached phase `other`."""
    return phases.reached(phase, other)


def contains(text: Any, part: str) -> bool:
    """Return whether the text contains `part`, ignoring case."""
    return part.lower() in str(text).lower()


def starts_with(text: Any, part: str) -> bool:
    """Return whether the text starts with `part`, ignoring case."""
    return str(text).lower().startswith(part.lower())


def first_directory(path: str) -> str | None:
    """Return the directory that a path begins with (`models` of `models/a`); unknown for a name alone."""
    directory, slash, _ = path.partition("/")
    return directory if slash else None


def is_local_path(model: str) -> bool:
    """Return whether a model name is a path rather than a repository id (`org/name`)."""
    return model.startswith(("/", "./", "../", "~")) or model.count("/") > 1


def count(items: Any) -> int:
    """Return the number of items of a list (1 for a single value)."""
    return len(items) if isinstance(items, Sequence) and not isinstance(items, str) else 1


def listed(text: Any) -> int:
    """Return the number of comma-separated items of a text: 2 for `0, 1`, 0 for an empty text."""
    return sum(1 for item in str(text).split(",") if item.strip())


def spaced(text: str) -> str:
    """Return a comma-separated list with a space after each comma: `a, b` for `a,b`."""
    return ", ".join(item.strip() for item in text.split(","))


def shell_word(text: str) -> str:
    """Return a text as one word of a shell command: `'a>=1'` for `a>=1`."""
    return shlex.quote(text)


def gib(value: float) -> str:
    """Format a size given in GiB: `4.5 GiB`, `512 MiB`."""
    if abs(value) < 0.1 and value:
        return f"{value * 1024:.0f} MiB"
    return f"{value:.2f}".rstrip("0").rstrip(".") + " GiB"


def number(value: float) -> str:
    """Format a number with thousands separators: `131,072`."""
    return f"{value:,.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"


def percent(value: float) -> str:
    """Format a fraction as a percentage: `92 %` for 0.92."""
    return f"{value * 100:.1f}".rstrip("0").rstrip(".") + " %"


def plural(value: float, one: str, many: str) -> str:
    """Format a count with its noun: `1 GPU` for 1 with 'GPU' and 'GPUs'."""
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
    first_directory,
    is_local_path,
    spaced,
    shell_word,
    count,
    listed,
    gib,
    number,
    percent,
    plural,
)

_NAMES = {function.__name__: function for function in _OWN}
# All public names of these modules are filters.
_MODULES = (solver, value_filters, flag_filters, advice_filters, model_filters, name_filters)


def names() -> list[str]:
    """Return the names of all filters, sorted."""
    return sorted({*_NAMES, *(name for module in _MODULES for name in module.__all__)})


@lru_cache(maxsize=256)
def find_filter(name: str) -> Callable[..., Any] | None:
    """Return the filter of that name, or None."""
    if name in _NAMES:
        return _NAMES[name]
    for module in _MODULES:
        if name in module.__all__:
            function: Callable[..., Any] = getattr(module, name)
            return function
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


# As strings (`from __future__ import annotations`) and as types.
_NUMBERS = ("int", "float", "int | None", "float | None", int, float, int | None, float | None)


def _signature(name: str) -> Mapping[str, inspect.Parameter]:
    function = find_filter(name)
    return inspect.signature(function).parameters if function else {}
