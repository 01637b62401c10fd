"""Regular expressions compiled at their first use: a log needs some of them, compiling all would slow every start."""

from __future__ import annotations

import re
import sys
from typing import Any, AnyStr, cast


class _Lazy:
    """Stands for a compiled expression; each of its methods is fetched once."""

    def __init__(self, regex: Any, flags: int) -> None:
        self._made = regex, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._made), name)
        setattr(self, name, value)
        return value


class _Cued(_Lazy):
    """Is not compiled before a text with one of its cues comes."""

    def __init__(self, regex: Any, flags: int, cues: tuple[str, ...]) -> None:
        super().__init__(regex, flags)
        self._cues = cues

    def match(self, text: str, *places: int) -> re.Match[str] | None:
        """As the expression's."""
        return self.__getattr__("match")(text, *places) if any(cue in text for cue in self._cues) else None

    def search(self, text: str, *places: int) -> re.Match[str] | None:
        """As the expression's."""
        return self.__getattr__("search")(text, *places) if any(cue in text for cue in self._cues) else None

    def fullmatch(self, text: str) -> re.Match[str] | None:
        """As the expression's."""
        return self.__getattr__("fullmatch")(text) if any(cue in text for cue in self._cues) else None

    def sub(self, new: Any, text: str) -> str:
        """As the expression's."""
        return self.__getattr__("sub")(new, text) if any(cue in text for cue in self._cues) else text


def lazy(regex: AnyStr, flags: int = 0, cues: tuple[str, ...] = ()) -> re.Pattern[AnyStr]:
    """The expression, used as what `re.compile` gives. Each text it matches holds one of the `cues`, if there are."""
    return cast("re.Pattern[AnyStr]", _Cued(regex, flags, cues) if cues else _Lazy(regex, flags))


def portable(regex: str) -> str:
    """The expression for this Python: before 3.11.5 no repeat keeps what it took (`++`), or not always (gh-106052)."""
    return regex if sys.version_info >= (3, 11, 5) else re.sub(r"(?<=[^\\][+*?}])\+", "", regex)
