"""The text of a line as its reader sees it: without ANSI and HTML escapes, control characters made visible.

Colours whose escape character was lost or spelled out are removed too, so that all later readers see the text that
the server wrote.
"""

from __future__ import annotations

import re

from vllm_doctor.text.patterns import lazy_pattern

_VISIBLE = {
    **{code: 0x2400 + code for code in range(32) if code not in (9, 10, 13)},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
    0x85: 0x2424, 0x2028: 0x2424, 0x2029: 0x2424, 0xA0: 0x20, 0xFEFF: None,
}  # fmt: skip
SGR = r"\x1b\[[\d;:]*m"
"""The expression for a terminal's colour."""
_SGR = lazy_pattern(SGR)
_ESCAPE = lazy_pattern(
    r"\x1b(?:\[(?P<csi>[0-?]*[ -/]*[@-~])|_(?P<bk>bk;t=\d{13})\x07|[\]PX^_][^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\]\d*;?|\[[0-?]*$|[ -/]+[0-~]|[0-Z\\-~]|$)|\x9b[0-?]*[ -/]*[@-~]",
)
# Colours whose escape character was lost or spelled out: `[0;36m(APIServer pid=1)[0;0m`, `\x1b[36m`.
_SPELLED = lazy_pattern(
    r"(?:\^\[|\\x1b|\\u001b|\\033|#033|␛)?\[(?:[0-47]|2[2-9]|[34][0-79]|9[0-7]|0[0-7]|38;5;\d{1,3}|48;5;\d{1,3})"
    r"(?:;\d{1,3}){0,4}m(?!\])",
)
RESETS = ("[0m", "[0;0m", "[39m", "[22m")
SPELLED_RETURN = "^M"
"""A carriage return at the end of a line, as editors and `cat -v` show it."""
_ENTITY = lazy_pattern(r"&(?:lt|gt|amp|quot|apos|nbsp|#39|#x27|#34);")
ENTITIES = {
    "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&apos;": "'", "&#39;": "'", "&#x27;": "'", "&#34;": '"',
    "&nbsp;": " ",
}  # fmt: skip
_BARE_AMPERSAND = lazy_pattern(r"&(?!(?:lt|gt|amp|quot|apos|nbsp|#39|#x27|#34);)")


def clean(text: str) -> str:
    """Remove terminal and HTML escapes and make control characters visible; keep newlines and carriage returns."""
    text = printable(text)
    return _unescape(text) if "&" in text and ";" in text else text


def printable(text: str) -> str:
    """Remove terminal escapes and make control characters visible."""
    if "\x1b" in text or "\x9b" in text:
        text = _SGR.sub("", text)
        text = _ESCAPE.sub(_plain, text)
    if "m" in text and any(reset in text for reset in RESETS):
        text = _SPELLED.sub("", text)
    text = text.removesuffix(SPELLED_RETURN)
    return text if text.isprintable() else text.translate(_VISIBLE)


def _plain(m: re.Match[str]) -> str:
    """Return the text for an escape sequence: spaces for a move to the right, a carriage return for column one."""
    csi = m["csi"]
    if csi is None:
        return "_" + m["bk"] if m["bk"] and m.start() == 0 else ""
    if csi.endswith("C"):
        return " " * (min(int(csi[:-1]), 200) if csi[:-1].isdecimal() and len(csi) < 6 else 1)
    return "\r" if csi in ("G", "0G", "1G") else ""


def _unescape(text: str) -> str:
    """Undo HTML escapes in a line that was escaped entirely, so that it has no unescaped special character."""
    entities = set(_ENTITY.findall(text))
    if not entities or _BARE_AMPERSAND.search(text):
        return text
    if any(ENTITIES[entity] in text for entity in entities if entity not in ("&amp;", "&nbsp;")):
        return text
    return _ENTITY.sub(lambda m: ENTITIES[m[0]], text)
