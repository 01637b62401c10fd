from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_doctor.text.terminal_safe import safe_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "<U+001B>[31mred<U+001B>[0m"),
        ("\x1b]0;title\x07", "<U+001B>]0;title<U+0007>"),
        ("a\x9b2Jb", "a<U+009B>2Jb"),
        ("user\u202etxt.exe\u2066", "user<U+202E>txt.exe<U+2066>"),
        ("a\rb\x00\x7f\x08", "a<U+000D>b<U+0000><U+007F><U+0008>"),
        ("zero\u200bwidth\ufeff\u2028", "zero<U+200B>width<U+FEFF><U+2028>"),
        ("\udc80\U000e0041", "<U+DC80><U+E0041>"),
        ("tab\tnewline\n", "tab\tnewline\n"),
        ("Größe 模型 🚀 👩\u200d💻 العربية", "Größe 模型 🚀 👩\u200d💻 العربية"),
    ],
)
def test_shown_not_obeyed(text, shown):
    assert safe_text(text) == shown


@given(st.text(st.characters(), max_size=200) | st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp"])))
def test_nothing_unsafe_is_left(text):
    shown = safe_text(text)
    assert not any((ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 or "\ud800" <= c <= "\udfff" for c in shown)
    assert not any("\u202a" <= c <= "\u202e" or "\u2066" <= c <= "\u2069" or c in "\u200e\u200f\u061c" for c in shown)
    assert safe_text(shown) == shown
    shown.encode()
