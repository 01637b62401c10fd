"""The filters that rules may use, `value | name(argument, …)`, in expressions and texts.

A filter is a plain function. Its first parameter is the value before the bar. A parameter whose default is None gets
None if the log does not show that fact; any other unknown argument makes the result unknown. Returning None means
"cannot be computed".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from vllm_doctor.memory import solver
from vllm_doctor.templating import (
    advice_filters,
    condition_filters,
    flag_filters,
    model_filters,
    name_filters,
    number_filters,
    repair_filters,
    text_filters,
)

REFUSALS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""The exceptions of a filter for an unsuitable value, such as a string in place of a number."""
_MODULES = (number_filters, condition_filters, text_filters, solver, repair_filters, flag_filters, advice_filters,
            model_filters, name_filters)
_FILTERS: Mapping[str, Callable[..., Any]] = {
    name: getattr(module, name) for module in _MODULES for name in module.__all__}
"""All public names of these modules are filters."""


def names() -> list[str]:
    """Return the names of all filters, sorted."""
    return sorted(_FILTERS)


def find_filter(name: str) -> Callable[..., Any] | None:
    """Return the filter of that name, or None."""
    return _FILTERS.get(name)


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
