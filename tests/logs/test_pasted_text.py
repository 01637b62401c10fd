"""What a second reading undoes of a paste."""

from __future__ import annotations

from vllm_doctor.logs.pasted_text import is_altered, restored

NUMBERED = "".join(f"{number}.\tline {number}: {word}\n" for number, word in enumerate("abcdef", 1))


def _texts(text: str) -> list[str]:
    return [row.text for row in restored(text.encode())]


def test_line_numbers_are_dropped_where_text_surrounds_the_rows() -> None:
    text = f"It fails:\n\n{NUMBERED}Copy\nWhy?\n"
    assert _texts(text) == ["It fails:", "", *(f"line {number}: {word}" for number, word in enumerate("abcdef", 1)), "Copy", "Why?"]
    assert is_altered(text.encode())


def test_a_numbered_list_in_a_log_is_kept() -> None:
    text = "".join(f"row {word}\n" for word in "abcdefg") + NUMBERED
    assert _texts(text)[7] == "1.    line 1: a"
    assert not is_altered(text.encode())
