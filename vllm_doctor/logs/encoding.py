"""The text of a log's bytes: UTF-8, else UTF-16, GB 18030, Latin-1 or, with visible escapes, binary."""

from __future__ import annotations

import codecs
from typing import AnyStr

from vllm_doctor.text.patterns import lazy_pattern

CONTROLS = bytes([*range(9), *range(11, 32), 127])
NOISE = bytes(code for code in CONTROLS if code not in b"\0\a\b\r\x1b")
"""Control characters that are rare in text, without zeros (file padding) and those that terminals use."""
_FEW = 8  # a line with at most this many is text, however short it is: they may frame it
ODD = lazy_pattern("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\xa0\u2028\u2029\ufeff]")


def one_digit(text: AnyStr, zero: AnyStr) -> AnyStr:
    """Return a text, whose digits are all zeros already, with a single zero for each number."""
    while zero + zero in text:
        text = text.replace(zero + zero, zero)
    return text


def line_ends(data: bytes) -> int:
    """Return the number of line ends; searching for them is twice as fast as `count`, which reads each byte."""
    return len(data) - len(data.replace(b"\n", b""))


def is_noise(size: int, kept: int) -> bool:
    """Return whether a line of `size` bytes, `kept` of which are not NOISE, is not text."""
    lost = size - kept
    return lost > _FEW and lost * 20 > size


def is_binary(line: bytes) -> bool:
    """Return whether a line is not text: more than a twentieth of it is NOISE."""
    return is_noise(len(line), len(line.translate(None, NOISE)))


_HANZI = lazy_pattern(rb"[\xb0-\xf7][\xa1-\xfe]|[\xa1-\xa3][\xa1-\xfe]")
_HIGH = bytes(range(128, 256))
_BINARY = bytes(0xB7 if code < 32 or 127 <= code <= 160 else code for code in range(256))  # a visible middle dot
_UNFINISHED = lazy_pattern(rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})$")


def sniff(head: bytes) -> tuple[str, int]:
    """Return the encoding of a file that begins with `head`, and the size of its byte order mark.

    The encoding is `utf-8`, `utf-8-sig`, `utf-16-le` or `utf-16-be`; UTF-16 without a mark has many zero bytes.
    """
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8-sig", 3
    if head.startswith(codecs.BOM_UTF16_LE) and head[2:4] != b"\0\0":
        return "utf-16-le", 2
    if head.startswith(codecs.BOM_UTF16_BE):
        return "utf-16-be", 2
    pairs = max(1, len(head) // 2)
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if odd * 5 >= pairs * 2 and even * 10 <= odd:
        return "utf-16-le", 0
    if even * 5 >= pairs * 2 and odd * 10 <= even:
        return "utf-16-be", 0
    return "utf-8", 0


def decode(raw: bytes) -> tuple[str, str]:
    """Return the text of one line, and its encoding ("" for UTF-8)."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return _decode_other(raw)
    if "\0" in text and text.count("\0") * 4 >= len(text):
        return _decode_nuls(raw), "utf-16"
    return text, ""


def _decode_other(raw: bytes) -> tuple[str, str]:
    nuls = raw.count(0)
    if nuls * 4 >= len(raw):
        return _decode_nuls(raw), "utf-16"
    if (len(raw) - len(raw.translate(None, CONTROLS))) * 20 > len(raw) > 8:
        return raw.translate(_BINARY).decode("latin-1"), "binary"
    high = len(raw) - len(raw.translate(None, _HIGH))
    text = raw.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    if len(text) - (len(raw) - high) - bad >= bad:  # more plausible characters beyond ASCII than implausible ones
        return text, ""
    if nuls == 0 and 2 * len(_HANZI.findall(raw)) >= 0.8 * high:
        try:
            return raw.decode("gb18030"), "gb18030"
        except UnicodeDecodeError:
            pass
    try:
        return raw.decode("cp1252"), "latin-1"  # what Windows and the web call Latin-1
    except UnicodeDecodeError:
        return raw.decode("latin-1"), "latin-1"


def _decode_nuls(raw: bytes) -> str:
    """Decode a line of UTF-16 in a file of bytes (PowerShell's `>>`); the split at newlines may shift it by a byte."""
    if raw[0::2].count(0) > raw[1::2].count(0):
        raw = raw[1:]
    return raw[: len(raw) & ~1].decode("utf-16-le", "replace").lstrip("\ufeff")


def trim(raw: bytes) -> bytes:
    """Remove a UTF-8 character that was cut off at the end, if the rest of the line is valid."""
    m = _UNFINISHED.search(raw, max(0, len(raw) - 4))
    if m is None:
        return raw
    try:
        raw[: m.start()].decode()
    except UnicodeDecodeError:
        return raw
    return raw[: m.start()]
