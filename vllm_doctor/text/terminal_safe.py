"""Make text safe to print: characters that a terminal would interpret or hide are shown as `<U+001B>`.

Log text reaches terminals, CI annotations and web pages; escape sequences, bidirectional marks and invisible
characters in it must not change what a reader sees there.
"""

from __future__ import annotations

from vllm_doctor.text.patterns import lazy_pattern

# Control characters except newline and tab, bidirectional marks, invisible separators, fillers, tags and variation
# selectors (but U+FE0F, which emoji have), lone surrogates.
_UNSAFE = lazy_pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200c\u200e"
    "\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e01ef]"
)


def safe_text(text: str) -> str:
    """Return `text` with control and invisible characters as `<U+001B>`; newlines and tabs are kept."""
    if text.isascii() and text.replace("\n", "").isprintable():  # most texts: nothing to replace
        return text
    return _UNSAFE.sub(lambda match: f"<U+{ord(match[0]):04X}>", text)
