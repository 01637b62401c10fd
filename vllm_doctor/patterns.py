"""Regular expressions compiled at their first use: a log needs some of them, compiling all would slow every start."""

from __future__ import annotations

import re
import sys

from vllm_doctor.typed import Any, AnyStr, cast


class _Lazy:
    """Stands for a compiled expression; each of its methods is fetched once."""

    def __init__(self, regex: Any, flags: int) -> None:
        self._made = regex, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._made), name)
        setattr(self, name, value)
        return value


def lazy(regex: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The expression, used as what `re.compile` gives."""
    return cast("re.Pattern[AnyStr]", _Lazy(regex, flags))


def portable(regex: str) -> str:
    """The expression for this Python: before 3.11 a repeat cannot be told to keep what it took (`++`)."""
    return regex if sys.version_info >= (3, 11) else re.sub(r"(?<=[^\\][+*?}])\+", "", regex)
