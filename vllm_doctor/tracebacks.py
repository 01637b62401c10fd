"""Where a traceback stands in bytes that were not read yet: one that came before is known by its calls."""

from __future__ import annotations

import re

from vllm_doctor.patterns import lazy
from vllm_doctor.typed import NamedTuple

HEAD = b"Traceback (most recent call last):\n"
_HEAD = re.escape(HEAD)
_PROCESS = rb"(?P<process>(?:\([!-~]+(?: (?:rank=\d+|[PT]P\d\w*))? pid=\d+\) )?)"
_STAMP = rb"(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d "
# Each of its lines begins as the first one does, but for the time. The calls are indented, the exception is not.
_BARE = lazy(_PROCESS + _HEAD + rb"(?:(?P=process)  [^\n]*\n)+(?=(?P=process)[A-Za-z_])")
_LOGGED = lazy(_PROCESS + rb"(?P<level>ERROR|CRITICAL) " + _STAMP + rb"(?P<place>\[?[\w./-]+:\d+\] )"
               rb"(?P<text>" + _HEAD + rb")"
               rb"(?:(?P=process)(?P=level) " + _STAMP + rb"(?P=place)  [^\n]*\n)+"
               rb"(?=(?P=process)(?P=level) " + _STAMP + rb"(?P=place)[A-Za-z_])")
_LONG = 1 << 15  # bytes of its lines


class Traceback(NamedTuple):
    """The lines of a traceback before its exception, and where they end. `calls` tells those with the same calls."""

    calls: bytes
    lines: bytes
    stop: int


def traceback_at(block: bytes, begin: int, end: int) -> Traceback | None:
    """The traceback whose first line begins there; None where it is cut off, or other lines stand amid it."""
    found = _BARE.match(block, begin, end)
    if found:
        said = found[0]
    else:
        found = _LOGGED.match(block, begin, end)
        if not found:
            return None
        prefix = found.start("text") - begin  # each line's is as long
        said = b"\n".join((found["process"], found["level"], found["place"],
                           *(line[prefix:] for line in found[0].split(b"\n"))))
    if len(said) > _LONG:
        return None
    import hashlib  # noqa: PLC0415 - for long logs alone

    return Traceback(hashlib.blake2b(said, digest_size=16).digest(), found[0], found.end())
