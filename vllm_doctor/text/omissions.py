"""Lines that stand for lines left out: `...`, `[...]`, `<snip>`, `... 200 lines omitted ...`, `(... 9 calls ...)`."""

from __future__ import annotations

import re

from vllm_doctor.text.patterns import lazy_pattern

_OMISSION = lazy_pattern(
    r"[\s\[(<.…*-]{0,12}"
    r"(?:\.{3,60}|…"
    r"|(?:\d+ )?(?:more )?(?:(?:lines?|frames?|calls?) )?(?:snip(?:ped)?|truncated|omitted|skipped|cut)(?: lines?)?"
    r"|(?:\.{3}|…) ?(?:\d+ )?(?:more |other )?(?:lines?|frames?|calls?) ?(?:\.{3}|…))"
    r"[\s\])>.…*-]{0,12}", re.IGNORECASE)
_OMISSION_WIDTH = 60
_WORDS = ("...", "…", "snip", "truncated", "omitted", "skipped", "cut")
"""Of which every such line has one."""


def is_omission(text: str) -> bool:
    """Return whether a line represents omitted lines."""
    if len(text) >= _OMISSION_WIDTH:
        return False
    small = text.lower()
    return any(word in small for word in _WORDS) and _OMISSION.fullmatch(text) is not None
