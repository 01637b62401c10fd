from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vllm_doctor.anchors import Anchors

WORDS = st.text(alphabet="ab*.[", min_size=1, max_size=4)


@given(st.lists(WORDS, min_size=1, max_size=12), st.text(alphabet="ab*.[", max_size=40))
def test_finds_just_the_literals_that_are_there(words: list[str], text: str) -> None:
    anchors = Anchors()
    for index, word in enumerate(words):
        anchors.add(word, (index, word))
    assert sorted(anchors.found_in(text)) == sorted((i, w) for i, w in enumerate(words) if w in text)


def test_without_anchors_nothing_is_found() -> None:
    assert Anchors().found_in("anything") == []
