from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_doctor.templating import text_filters
from vllm_doctor.templating.evaluator import (
    UNKNOWN,
    ExpressionError,
    apply_filter,
    arithmetic,
    compared_with,
    parse,
    yielded,
)
from vllm_doctor.templating.parser import read_expression, read_text


@pytest.fixture(autouse=True)
def fresh() -> None:
    parse.cache_clear()  # what another test parsed shows nothing of the parser


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
    ("missing is undefined", {}, True),
    ("a is undefined", {"a": 1}, False),
    ("a + b == 5", {"a": 2, "b": 3}, True),
    ("a + b - a", {"a": 2, "b": 3}, 3),
    ("(a, b)", {"a": 2, "b": 3}, (2, 3)),
    ("a == 'y'", {"a": "x"}, False),
    ("a != 'y'", {"a": "x"}, True),
    ("1 < a <= 3", {"a": 4}, False),
    ("a >= 4 > b", {"a": 4, "b": 3}, True),
    ("a not in ['x', 'y']", {"a": "z"}, True),
    ("a < missing", {"a": 1}, UNKNOWN),
    ("missing == a", {"a": 1}, UNKNOWN),
    ("[a, missing]", {"a": 1}, UNKNOWN),
    ("a | floor_to(step=b)", {"a": 100, "b": 16}, 96),
    ("a | floor_to(16)", {"a": "x"}, UNKNOWN),
    ("a | or_else('y')", {"a": "x"}, "x"),
    ("0 | power_of_two", {}, UNKNOWN),
    ("1e9 * 1e9", {}, 1e18),
    ("9 * 1e18 * 1e18", {}, UNKNOWN),
    ("'x' * 5", {}, UNKNOWN),
    ("'a' < 1", {}, UNKNOWN),
])
def test_value(source: str, facts: dict, value: object) -> None:
    assert parse(source).value(facts) == value


@pytest.mark.parametrize(("source", "value"), [
    ("missing or a", True), ("missing and not a", False), ("missing and a", UNKNOWN), ("missing or not a", UNKNOWN),
    ("not missing", UNKNOWN), ("a or missing", True), ("a and missing", UNKNOWN), ("not a or missing", UNKNOWN),
    ("not a and missing", False), ("not a or a", True), ("a and not a", False), ("missing and missing", UNKNOWN), ("not a", False),
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


@pytest.mark.parametrize(("source", "reason"), [
    ("1 +", "unexpected 'end of print statement'"),
    ("9" * 499, "a number is larger than 1e+18"),
    ("x" * 501, "longer than 500 characters"),
    ("a }} {{ b", "not one expression"),
    ("a }} b", "not one expression"),
    ("a }}{% if b %}{% endif %}{{ c", "not one expression"),
    ("", "Expected an expression, got 'end of print statement'"),
    ("''.__class__", "getattr is not part of the language"),
    ("none", "the constant None is not a number or a text"),
    ("1" + "0" * 19, "a number is larger than 1e+18"),
    ("a is callable", "only `NAME is defined` can be asked, not `is callable`"),
    ("(a + 1) is defined", "only `NAME is defined` can be asked, not `is defined`"),
    ("a | map('x')", "unknown filter `map`"),
    ("a | floor_to(16, 17)", "`floor_to` takes at most 1 arguments"),
    ("a | floor_to(nope=1)", "`floor_to` has no argument `nope`"),
    ("a | floor_to(*b)", "`floor_to` is not applied to a value"),
    ("a | floor_to(**b)", "`floor_to` is not applied to a value"),
    ("1" + "+1" * 101, "nested too deeply"),
    ("a | or_else(fallback=1" + "+1" * 99 + ")", "nested too deeply"),
    ("[" * 240 + "]" * 240, "nested too deeply"),
])
def test_the_author_of_a_rule_learns_what_is_wrong(source: str, reason: str) -> None:
    with pytest.raises(ExpressionError) as told:
        parse(source)
    assert str(told.value) == reason


def test_the_largest_expressions() -> None:
    assert read_expression("x" * 500) == ["name", "x" * 500]
    assert read_expression("1" + "0" * 18) == ["const", 10**18]
    assert parse("1" + "+1" * 100).value({}) == 101
    assert parse("a | or_else(fallback=1" + "+1" * 98 + ")").value({}) == 99


def test_the_trees_of_a_text_and_its_conditions() -> None:
    assert read_text("a {{ b }} c{% if d %}{{ e * 2 }}{% elif f %}{{ -g }}{% else %}{{ not h }}{% endif %}") == [
        ["name", "b"], ["name", "d"], ["mul", ["name", "e"], ["const", 2]],
        ["name", "f"], ["neg", ["name", "g"]], ["not", ["name", "h"]]]
    nested = "{% if a %}" * 20 + "{{ b }}" + "{% endif %}" * 20
    assert read_text(nested) == [["name", "a"]] * 20 + [["name", "b"]]
    for text, reason in ((f"{{% if a %}}{nested}{{% endif %}}", "nested too deeply"),
                         ("{% for a in b %}{% endfor %}", "for is not part of the language"),
                         (f"{{{{ {'9' * 5_000} }}}}", "a number cannot be read")):
        with pytest.raises(ExpressionError) as told:
            read_text(text)
        assert str(told.value) == reason


def test_the_names_and_texts_of_an_expression() -> None:
    assert parse("a * b + (c | at_most(bound=d)) and e is defined").names == {"a", "b", "c", "d", "e"}
    tree = parse("(pattern == 'x' or pattern in ['y', 'z', 1]) and other == 'w'").tree
    assert list(compared_with("pattern", tree)) == ["x", "y", "z"]
    tree = parse("('a' | given(b == 'no')) or (c | or_else('d')) and ('e' | in_words('f')) or (g | floor_to(16))").tree
    assert list(yielded(tree)) == ["a", "d", "e", "f"]


def test_unknown_is_false_and_has_a_name() -> None:
    assert not UNKNOWN
    assert str(UNKNOWN) == "UNKNOWN"
    assert not parse("missing").holds({})
    assert not parse("a").holds({"a": 0})
    assert parse("a").holds({"a": 1})


def test_arithmetic_and_filters_by_name() -> None:
    assert arithmetic("sub", 5, 3) == 2
    assert arithmetic("add", UNKNOWN, 3) is arithmetic("add", 3, UNKNOWN) is arithmetic("div", 3, 0) is UNKNOWN
    assert apply_filter("at_most", [9, UNKNOWN], {}) == 9
    assert apply_filter("at_most", [9], {"bound": 5}) == 5
    with pytest.raises(ExpressionError, match=r"^unknown filter `nope`$"):
        apply_filter("nope", [], {})


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(source: str) -> None:
    with contextlib.suppress(ExpressionError):
        parse(source).value({"a": 1})


def test_the_directory_that_a_path_begins_with() -> None:
    assert text_filters.first_directory("models/a/b") == "models"
    assert text_filters.first_directory("/models/a") == ""
    assert text_filters.first_directory("model-7b") is None
