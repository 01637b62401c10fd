"""Secrets in a text: masked, masked line by line, or only named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from vllm_doctor.redact.names import CUES
from vllm_doctor.redact.patterns import MASK
from vllm_doctor.redact.private_keys import KEY_BEGIN, KEY_END, mask_private_keys
from vllm_doctor.redact.scan import Scan
from vllm_doctor.redact.shapes import mask_shapes
from vllm_doctor.redact.urls import mask_urls


def _masked(text: str, found: dict[str, None]) -> str:
    text = mask_urls(mask_private_keys(text, found), found)
    lower = text.lower()
    if any(cue in lower for cue in CUES):
        text = Scan(text, found).run()
    return mask_shapes(text, found)


def redact(text: str) -> str:
    """`text` with `***` in the place of every secret; applied twice it changes nothing more."""
    return _masked(text, {})


def redact_lines(lines: Iterable[str]) -> Iterator[str]:
    """As `redact`, line by line, but private keys that span lines are followed from BEGIN to END."""
    left = 0  # lines
    for line in lines:
        if left and not re.search(KEY_END, line):
            left -= 1
            yield MASK + line[len(line.rstrip("\r\n")) :] if line.strip() else line
            continue
        left = 200 if re.search(KEY_BEGIN, line) and not re.search(KEY_END, line) else 0
        yield redact(line)


def secrets_in(text: str) -> tuple[str, ...]:
    """The kinds of secrets that stand unmasked in `text`, sorted: `("api-key", "hf-token")`."""
    found: dict[str, None] = {}
    _masked(text, found)
    return tuple(sorted(found))
