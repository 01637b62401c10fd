"""The table of the errors that vLLM's files raise: size, matches, and what is not found."""

from __future__ import annotations

from importlib.resources import files

import pytest

from vllm_doctor.catalog.features import feature_of_path
from vllm_doctor.catalog.raised_texts import _phrases, raised_in, words_of


def test_numbers_and_punctuation_do_not_count() -> None:
    assert words_of("Weight size_k = 10944 isn't\n(128) A divisor.") == " weight size_k isn divisor "


@pytest.mark.parametrize(("message", "path"), [
    ("Weight input_size_per_partition = 10944 is not divisible by min_thread_k = 128. Consider reducing",
     "vllm/model_executor/layers/quantization/utils/marlin_utils.py"),
    ("the widget is bent", None),
])
def test_the_file_that_raises_a_message(message: str, path: str | None) -> None:
    assert raised_in(message) == path


def test_the_table_is_small_and_each_phrase_tells_a_feature() -> None:
    assert files("vllm_doctor.catalog").joinpath("raised_texts.jsonl.xz").stat().st_size < 200_000  # type: ignore[attr-defined]
    paths = [path for phrases in _phrases().values() for path in phrases.values()]
    assert len(paths) > 4_000
    assert {path for path in paths if feature_of_path(path) is None} == set()
