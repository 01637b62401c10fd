"""Private keys, from BEGIN to END, also quoted or indented, also when the end is cut off."""

from __future__ import annotations

from vllm_doctor.redact.spans import Span, compiled

_NAME = r"(?:[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V\d)"
KEY_BEGIN = rf"-----BEGIN {_NAME}-----"
KEY_END = rf"-----END {_NAME}-----"
_PEM_LINE = r"[ \t>|]{0,80}(?:(?:[A-Za-z0-9+/=]{1,100})?[ \t\r]{0,80}|(?:Proc-Type|DEK-Info|Version):.*)"
_PEM_WORD = r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{16,100}={0,2}\Z"  # at the end of a line
_PEM_LIMIT = 16_384  # characters; a longer block is no key


def key_spans(text: str) -> list[Span]:
    """Return the text between the first and the last line of each private key."""
    found: list[Span] = []
    if "PRIVATE KEY" not in text and "Static key" not in text:
        return found
    at = 0
    while begin := compiled(KEY_BEGIN).search(text, at):
        end = compiled(KEY_END).search(text, begin.end(), begin.end() + _PEM_LIMIT)
        at = end.start() if end else _cut_pem_end(text, begin.end())
        if text[begin.end() : at].strip(" \t\r\n*"):
            found.append(Span(begin.end(), at, "private-key"))
        at = max(at, begin.end())
    return [*found, *_headless(text)]


def _headless(text: str) -> list[Span]:
    """Return the lines of keys right above their END marks, whose BEGIN was cut off."""
    found: list[Span] = []
    low = 0
    for end in compiled(KEY_END).finditer(text):
        start = at = end.start() - len(text[low : end.start()]) + len(text[low : end.start()].rstrip(" \t>|\r\n"))
        while at > low:
            line = max(text.rfind("\n", low, at) + 1, low)
            word = compiled(_PEM_WORD).search(text, max(line, at - 120), at)
            if word is None:
                break
            start, at = word.start(), line + len(text[line : word.start()].rstrip(" \t>|\r"))
            if at > line:  # something stands before it: the first line
                break
            at = max(line - 1, low)
        if start < end.start() and text[start : end.start()].strip():
            found.append(Span(start, end.start(), "private-key"))
        low = end.end()
    return found


def _cut_pem_end(text: str, at: int) -> int:
    """Return where a key without an end marker stops: at the first line that cannot be part of it."""
    newline = text.find("\n", at)
    while newline >= 0:
        following = text.find("\n", newline + 1)
        line = text[newline + 1 : following if following >= 0 else len(text)]
        if len(line) > 200 or not compiled(_PEM_LINE).fullmatch(line):
            return newline
        newline = following
    return len(text)
