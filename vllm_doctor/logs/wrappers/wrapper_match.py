"""The result of a wrapper function: the wrapper, the text inside, and whether the form alone proves it.

A form that is no proof by itself names a key (`compose:web-1`): once a line with that key is proven to be wrapped,
all lines with it are. A wrapper that splits long messages says which part this is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class WrapperMatch(NamedTuple):
    """One wrapper removed from a line: its name, the text inside and the source it names."""

    name: str
    rest: str  # may contain newlines (a JSON record with several lines)
    source: str = ""
    key: str = ""  # what such a line proves: `compose:web-1`
    sure: bool = True  # False: the form alone proves nothing; evidence for the key is needed
    repeats: bool = False  # the same key on several consecutive lines is evidence too
    part: str = ""  # not empty: a part of this stream's message; `last` says whether the message ends here
    last: bool = True
    drop: bool = False  # the wrapper's own marker without a message
    head: str = ""  # of each line of `rest`: they are one record of a structured logger


Wrapper = Callable[[str], WrapperMatch | None]
