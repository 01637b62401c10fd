"""Signatures: the same failure on another day, machine or port has the same one."""

from __future__ import annotations

import hashlib

from vllm_doctor.failures.model import Origin
from vllm_doctor.patterns import lazy_pattern

_WORDS = 24  # content words of a message that count
_FEW = 2  # content words with fewer of which the place counts as well
_PATH = lazy_pattern(r"(?:[A-Za-z]:)?(?:~|\.{1,2})?(?:[/\\][\w.@+~-]+){2,}[/\\]?|\b[\w.-]+(?:/[\w.@-]+)+")
_ADDRESS = lazy_pattern(r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b|\[[0-9a-fA-F:]{3,}\](?::\d+)?|\b0x[0-9a-fA-F]+\b")
_WRAPPED = lazy_pattern(r"\(pid=\d{1,9}[^()]{0,80}\)|\bpid[= ]\d+|\brank\s{0,4}\d+|\bcuda:\d+|\bGPU \d+")
_NUMBER = lazy_pattern(r"\b(?=\w*\d)[\w.,:-]+")
_WORD = lazy_pattern(r"[^\W\d_][\w'.-]*[^\W_]|[^\W\d_]")


def content_words(message: str) -> list[str]:
    """Return the words of a message without paths, addresses, numbers and what differs from machine to machine."""
    text = message
    for pattern in (_PATH, _ADDRESS, _WRAPPED, _NUMBER):
        text = pattern.sub(" ", text)
    return [word.lower() for word in _WORD.findall(text)]


def signature(exception: str | None, message: str, origin: Origin | None) -> str:
    """Return the class and eight hexadecimal digits of the first content words, of the place for a short message."""
    words = content_words(message)
    told = words[:_WORDS]
    if len(words) < _FEW and origin is not None:
        told += [origin.file, origin.function]
    digest = hashlib.sha256(" ".join(told).encode("utf-8", "replace")).hexdigest()[:8]
    return f"{exception or 'failure'}-{digest}"
