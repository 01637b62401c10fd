"""What texts call one device of a platform."""

from __future__ import annotations

_DEVICES = {"npu": "NPU", "tpu": "TPU", "hpu": "HPU"}
"""Of the platforms whose devices are no GPUs."""
_SAID_WITH_VOWEL = "NH"  # en, aitch


def device_word(platform: object) -> str:
    """Return what a device of a platform is called; GPU for an unknown platform."""
    return _DEVICES.get(str(platform), "GPU")


def with_article(article: str, word: str) -> str:
    """Return the word after the article of "GPU" (`a `, `A ` or none) as it is said before this word: an NPU, a TPU."""
    return f"{article.rstrip()}n {word}" if article and word[0] in _SAID_WITH_VOWEL else f"{article}{word}"
