from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_doctor.templating.evaluator import UNKNOWN, ExpressionError, parse


@pytest.mark.parametrize(("source", "facts", "value"), [
    ("a * b + 1", {"a": 2, "b": 3}, 7),
    ("7 // 2", {}, 3),
    ("a / 0", {"a": 1}, UNKNOWN),
    ("missing + 1", {}, UNKNOWN),
    ("a | floor_to(16)", {"a": 100}, 96),
    ("-a", {"a": 2}, -2),
    ("device == 'cpu'", {"device": "cpu"}, True),
    ("a in ['x', 'y']", {"a": "y"}, True),
    ("1 < a <= 3", {"a": 3}, True),
    ("missing | or_else(5)", {}, 5),
    ("a | at_most(missing)", {"a": 9}, 9),
    ("missing | floor_to(16)", {}, UNKNOWN),
    ("missing is defined", {}, False),
    ("a is defined and a > 1", {"a": 2}, True),
    ("9 * 1e18 * 1e18", {}, UNKNOWN),
    ("'x' * 5", {}, UNKNOWN),
    ("'a' < 1", {}, UNKNOWN),
])
def test_value(source: str, facts: dict, value: object) -> None:
    assert parse(source).value(facts) == value


@pytest.mark.parametrize(("source", "value"), [
    ("missing or a", True), ("missing and not a", False), ("missing and a", UNKNOWN), ("missing or not a", UNKNOWN),
    ("not missing", UNKNOWN),
])
def test_unknown_follows_kleene(source: str, value: object) -> None:
    assert parse(source).value({"a": True}) is value


@pytest.mark.parametrize("source", [
    "9**9**9", "a.b", "a['b']", "f()", "''.__class__", "a ~ b", "a if b else c", "a | attr('x')", "a | map('x')",
    "x is callable", "{}", "", "a }} {{ b", "none", "a | floor_to(16, 17, 18)", "a | floor_to(nope=1)", "1 +", "x" * 600,
    "a % b", "a[0:2]", "a | floor_to(*b)",
])
def test_what_is_not_in_the_language(source: str) -> None:
    with pytest.raises(ExpressionError):
        parse(source)


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(source: str) -> None:
    with contextlib.suppress(ExpressionError):
        parse(source).value({"a": 1})
