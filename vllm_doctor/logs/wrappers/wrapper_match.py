"""What a wrapper function answers: the wrapper it took off, what was inside, and how sure it is of that.

A form that proves nothing by itself names a key (`compose:web-1`): once a line with that key is proven to be wrapped,
all lines with it are. A wrapper that splits long messages says which part this is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Peeled(NamedTuple):
    """One wrapper taken off: its name, what was inside and what it named."""

    name: str
    rest: str  # may hold newlines (a JSON record with several lines)
    source: str = ""
    key: str = ""  # what is proven once such a line is: `compose:web-1`
    sure: bool = True  # False: the form alone proves nothing; evidence for the key is needed
    repeats: bool = False  # …and the same key on several lines in a row is evidence too
    part: str = ""  # not empty: a part of the message of this stream; `last` says whether it ends here
    last: bool = True
    drop: bool = False  # the wrapper's own marker, no message


Wrapper = Callable[[str], "Peeled | None"]
