"""Text made safe to print: what a terminal would obey, or hide, is shown as `<U+001B>`.

Log text reaches terminals, CI annotations and web pages; escapes, direction marks and invisible characters in it must
not change what a reader sees there.
"""

from __future__ import annotations

import re
from functools import cache

# Control characters (but newline and tab), direction marks, invisible separators and tags, lone surrogates.
_UNSAFE = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


@cache
def _pattern() -> re.Pattern[str]:
    return re.compile(_UNSAFE)


def safe_text(text: str) -> str:
    """`text` with what a terminal would obey (or hide) shown as `<U+001B>`; newlines and tabs stay."""
    if text.replace("\n", "").isprintable():  # most texts: nothing to show, no pattern to compile
        return text
    return _pattern().sub(lambda match: f"<U+{ord(match[0]):04X}>", text)
