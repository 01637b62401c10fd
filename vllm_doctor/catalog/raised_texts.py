"""Find the file of vLLM that raises a message (raised_texts.jsonl.xz, which tools/build_raised_texts.py generates).

The table has a row per file, the path of its newest release and the phrases that only its messages contain. It is read
where a log shows the message of an exception, but no call of vLLM.
"""

from __future__ import annotations

import json
import lzma
from functools import lru_cache
from pathlib import Path

from vllm_doctor.text.patterns import lazy_pattern

_WORD = lazy_pattern(r"[A-Za-z_]{2,}")
_LONGEST_MESSAGE = 1200  # characters that are looked up


def words_of(text: str) -> str:
    """Return the words of a text in lower case, joined and enclosed by spaces; numbers and punctuation are left out."""
    return f" {' '.join(_WORD.findall(text.lower()))} "


def raised_in(message: str, *, least_words: int = 1) -> str | None:
    """Return the file of vLLM whose messages contain the longest phrase of a message, or None."""
    found = _longest_phrase(message[:_LONGEST_MESSAGE])
    return None if found is None or len(found.split()) < least_words else _phrases()[_first_word(found)][found]


@lru_cache(maxsize=1)  # the feature and the file of one failure are both looked up by its message
def _longest_phrase(message: str) -> str | None:
    words = words_of(message)
    begun = (_phrases().get(word, {}) for word in dict.fromkeys(words.split()))
    return max((phrase for phrases in begun for phrase in phrases if phrase in words), key=len, default=None)


def _first_word(phrase: str) -> str:
    return phrase.split(maxsplit=1)[0]


@lru_cache(maxsize=1)
def _phrases() -> dict[str, dict[str, str]]:
    """Return the file that each phrase belongs to, by the phrase's first word."""
    packed = Path(__file__).with_name("raised_texts.jsonl.xz").read_bytes()
    found: dict[str, dict[str, str]] = {}
    for path, *phrases in map(json.loads, lzma.decompress(packed).decode().splitlines()):
        for phrase in phrases:
            found.setdefault(_first_word(phrase), {})[f" {phrase} "] = path
    return found
