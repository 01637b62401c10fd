"""What the device of a platform is called, and the article before it."""

from __future__ import annotations

import pytest

from vllm_doctor.text.devices import device_word, with_article


@pytest.mark.parametrize(("platform", "word"), [("npu", "NPU"), ("tpu", "TPU"), ("cuda", "GPU"), (None, "GPU")])
def test_the_word_of_a_platform(platform: str | None, word: str) -> None:
    assert device_word(platform) == word


@pytest.mark.parametrize(("article", "word", "phrase"), [
    ("a ", "NPU", "an NPU"), ("A ", "HPU", "An HPU"), ("a ", "TPU", "a TPU"), ("", "NPU", "NPU")])
def test_the_article_of_a_word(article: str, word: str, phrase: str) -> None:
    assert with_article(article, word) == phrase
