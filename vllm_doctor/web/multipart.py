"""What a browser's form sends (multipart/form-data, RFC 7578), read from a body that is in memory already."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from vllm_doctor.text.patterns import lazy_pattern

__all__ = ["Part", "boundary_of", "parts"]

_MOST_PARTS = 16
_LONGEST_HEAD = 8192  # bytes of a part's own headers
_BOUNDARY = lazy_pattern(
    r'multipart/form-data *; *boundary=(?:"([^"]{1,70})"|([^\s";,]{1,70})) *(?:;|$)', re.IGNORECASE)
_PARAMETER = lazy_pattern(rb'; *(name|filename)="((?:[^"\\\r\n]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Part:
    """A field of a form; `filename` is "" where it is no file. Both names come from the sender and are untrusted."""

    name: str
    filename: str
    data: bytes


def boundary_of(content_type: str) -> bytes | None:
    """Return the boundary in a Content-Type header, or None if it is not a form with files."""
    match = _BOUNDARY.match(content_type)
    return (match[1] or match[2]).encode("latin-1", "replace") if match else None


def parts(body: bytes | bytearray, boundary: bytes) -> Iterator[Part]:
    """Yield the fields of a form, in order. Raises ValueError for a body that no browser sends."""
    delimiter = b"\r\n--" + boundary
    whole = b"\r\n" + body if body.startswith(b"--" + boundary) else body  # the first one has no line before it
    start = whole.find(delimiter)
    for _ in range(_MOST_PARTS):
        if start < 0:
            raise ValueError("a part of the form has no end")
        start += len(delimiter)
        if whole.startswith(b"--", start):
            return
        end = whole.find(delimiter, start)
        if end < 0 or not whole.startswith(b"\r\n", start):
            raise ValueError("a part of the form has no end")
        yield _part(whole, start + 2, end)
        start = end
    raise ValueError(f"a form of more than {_MOST_PARTS} parts")


def _part(whole: bytes | bytearray, start: int, end: int) -> Part:
    blank = whole.find(b"\r\n\r\n", start, min(end, start + _LONGEST_HEAD))
    if blank < 0:
        raise ValueError("a part of the form has no headers")
    for line in whole[start:blank].split(b"\r\n"):
        key, _, value = line.partition(b":")
        if key.strip().lower() == b"content-disposition":
            names = dict(_PARAMETER.findall(value))
            data = bytes(memoryview(whole)[blank + 4:end])
            return Part(_text(names.get(b"name", b"")), _text(names.get(b"filename", b"")), data)
    raise ValueError("a part of the form has no name")


def _text(name: bytes) -> str:
    """Return a decoded name: browsers write a quotation mark as %22, a line end as %0D%0A and nothing else escaped."""
    plain = name.replace(b"%22", b'"').replace(b"%0D", b"\r").replace(b"%0A", b"\n")
    return plain.decode("utf-8", "replace")
