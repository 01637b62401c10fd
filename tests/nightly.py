"""Cases of which the ordinary run of the tests tries some, and each night's run all (`-m exhaustive`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def some(cases: Iterable[Any], count: int, name: Callable[[Any], str] | None = None) -> list[Any]:
    """Return the cases as parameters of a test: `count` of them, evenly spread, and the others marked as exhaustive.

    A tuple is the values of several parameters. The count is fixed, so that the ordinary run takes no longer when there
    are more rules or logs.
    """
    every = list(cases)
    tried = {number * len(every) // count for number in range(count)} if len(every) > count else set(range(len(every)))
    return [pytest.param(*(case if type(case) is tuple else (case,)), id=name(case) if name else None,
                         marks=() if number in tried else pytest.mark.exhaustive)
            for number, case in enumerate(every)]
