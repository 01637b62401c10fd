from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vllm_doctor.matching.anchors import Anchors
from vllm_doctor.text import literal_search

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


HEX = "0123456789abcdef-"


@given(st.lists(st.text(alphabet="ab4f- x", min_size=1, max_size=5), min_size=1, max_size=8),
       st.lists(st.text(alphabet="ab4f- x", max_size=6), min_size=1, max_size=4), st.data())
def test_what_may_stand_in_texts_of_one_shape(words: list[str], parts: list[str], data: st.DataObject) -> None:
    """Whatever the numbers and the ids: in each such text only literals stand that are told of any of them."""
    anchors = Anchors()
    for word in words:
        anchors.add(word, word)

    def text() -> str:
        ids = st.text(alphabet=HEX, min_size=14, max_size=20).map(lambda middle: f"a{middle}0")
        digits = st.text(alphabet="0123456789", min_size=1, max_size=3)
        return " ".join("".join(data.draw(digits) if letter.isdigit() else letter for letter in part) + f" {data.draw(ids)}"
                        for part in parts)

    assert {*anchors.found_in(text())} <= {*anchors.possible_in(text())}


@given(st.lists(WORDS, min_size=1, max_size=6), st.text(alphabet="ab*.[", max_size=30))
def test_a_word_is_found_one_by_one_and_by_an_expression(words: list[str], text: str) -> None:
    searched = literal_search._Words(tuple(words))
    early = searched.search(text)
    assert early == any(word in text for word in words)
    searched._patience = 1
    searched.search(text)
    assert searched._expression is not None
    assert searched.search(text) >= early  # it may find more, never less
