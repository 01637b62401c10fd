"""Regular expressions that are compiled at their first use, because most logs need few of them."""

from __future__ import annotations

import re
import sys
from typing import Any, AnyStr, cast


class _LazyPattern:
    """A proxy of a compiled expression that compiles it at the first use."""

    def __init__(self, regex: Any, flags: int) -> None:
        self._arguments = regex, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._arguments), name)
        setattr(self, name, value)
        return value


class _CuedPattern(_LazyPattern):
    """A lazy expression that is not compiled before a text contains one of its cues."""

    def __init__(self, regex: Any, flags: int, cues: tuple[str, ...]) -> None:
        super().__init__(regex, flags)
        self._cues = cues

    def match(self, text: str, *places: int) -> re.Match[str] | None:
        """Match like `re.Pattern.match`."""
        return self.__getattr__("match")(text, *places) if any(cue in text for cue in self._cues) else None

    def search(self, text: str, *places: int) -> re.Match[str] | None:
        """Search like `re.Pattern.search`."""
        return self.__getattr__("search")(text, *places) if any(cue in text for cue in self._cues) else None

    def fullmatch(self, text: str) -> re.Match[str] | None:
        """Match like `re.Pattern.fullmatch`."""
        return self.__getattr__("fullmatch")(text) if any(cue in text for cue in self._cues) else None

    def sub(self, new: Any, text: str) -> str:
        """Substitute like `re.Pattern.sub`."""
        return self.__getattr__("sub")(new, text) if any(cue in text for cue in self._cues) else text


def lazy_pattern(regex: AnyStr, flags: int = 0, cues: tuple[str, ...] = ()) -> re.Pattern[AnyStr]:
    """Return an expression to use like the result of `re.compile`, except that no `match.re` is identical to it.

    With `cues`, every text that it matches must contain one of them.
    """
    return cast("re.Pattern[AnyStr]", _CuedPattern(regex, flags, cues) if cues else _LazyPattern(regex, flags))


def portable(regex: str) -> str:
    """Return the expression for this Python: possessive quantifiers (`++`) work since 3.11.5 (gh-106052)."""
    return regex if sys.version_info >= (3, 11, 5) else re.sub(r"(?<=[^\\][+*?}])\+", "", regex)
