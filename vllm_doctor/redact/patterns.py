"""Patterns compiled when first used, and what stands in the place of a secret.

Most texts need few of the patterns; compiling all of them would cost every start.
"""

from __future__ import annotations

import re
from functools import cache

MASK = "***"


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled the first time."""
    return re.compile(pattern)


def looks_random(value: str) -> bool:
    """A generated value rather than a word, a path or a number."""
    letters = re.search("[A-Za-z]", value) is not None
    digits = re.search("[0-9]", value) is not None
    mixed = value.lower() != value != value.upper()
    return letters and digits and (len(value) >= 16 or (len(value) >= 8 and mixed))
