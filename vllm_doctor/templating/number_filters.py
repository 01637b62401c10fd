"""Filters that round, bound and factorise numbers."""

from __future__ import annotations

import math

__all__ = [
    "aligned_parallel",
    "at_least",
    "at_most",
    "ceil_to",
    "floor_to",
    "largest_divisor",
    "power_of_two",
    "power_of_two_divisor",
    "round_to",
]

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
