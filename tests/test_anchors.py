from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vllm_doctor import windows
from vllm_doctor.anchors import Anchors

WORDS = st.text(alphabet="ab*.[", min_size=1, max_size=4)


@given(st.lists(WORDS, min_size=1, max_size=12), st.text(alphabet="ab*.[", max_size=40), st.sampled_from([0, 9]))
def test_finds_just_the_literals_that_are_there(words: list[str], text: str, patience: int) -> None:
    anchors = Anchors(patience)
    for index, word in enumerate(words):
        anchors.add(word, (index, word))
    first = list(dict.fromkeys(words))
    assert anchors.found_in(text) == sorted(((i, w) for i, w in enumerate(words) if w in text),
                                            key=lambda key: (first.index(key[1]), key[0]))


def test_without_anchors_nothing_is_found() -> None:
    assert Anchors().found_in("anything") == []
    assert Anchors(0).found_in("anything") == []


@given(st.lists(WORDS, min_size=1, max_size=6), st.text(alphabet="ab*.[", max_size=30))
def test_a_word_is_found_one_by_one_and_by_an_expression(words: list[str], text: str) -> None:
    searched = windows._Words(tuple(words))
    early = searched.search(text)
    assert early == any(word in text for word in words)
    searched._patience = 1
    searched.search(text)
    assert searched._expression is not None
    assert searched.search(text) >= early  # it may find more, never less
