"""Jinja itself is the oracle: what `words` says of a template is what Jinja's sandbox renders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from vllm_doctor import diagnose
from vllm_doctor.templating import filters, renderer
from vllm_doctor.templating.evaluator import ExpressionError
from vllm_doctor.templating.parser import read_words

LOGS = sorted((Path(__file__).resolve().parent.parent / "fixtures" / "logs").glob("*.log"))
JINJA = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
JINJA.filters = {name: filters.find(name) for name in filters.names()}


def by_jinja(source: str, known: Mapping[str, Any]) -> str | None:
    try:
        return " ".join(JINJA.from_string(source).render(known).split())
    except (TemplateError, TypeError, ValueError, ArithmeticError):
        return None


def test_every_sentence_of_every_fixture_is_as_jinja_renders_it(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, dict[str, Any], str | None]] = []
    sentence = renderer.sentence

    def remembered(source: str, known: Mapping[str, Any]) -> str | None:
        text = sentence(source, known)
        if "{" in source:
            said.append((source, dict(known), text))
        return text

    monkeypatch.setattr(renderer, "sentence", remembered)
    for log in LOGS:
        diagnose(log)
    assert {text is None for _, _, text in said} == {True, False}
    for source, known, text in said:
        assert text == by_jinja(source, known), source


@pytest.mark.parametrize(("source", "text"), [
    ("{{ a }} of {{ b | number }}", "2 of 1,024"),
    ("{% if a > 1 %}many{% else %}one{% endif %}", "many"),
    ("{% if a == 1 %}one{% elif a == 2 %}two{% elif a == 3 %}three{% endif %}", "two"),
    ("{% if missing is defined %}x{% endif %}said", "said"),
    ("{% if missing %}x{% endif %}said", None),
    ("{{ missing }}", None),
    ("{{ a / 0 }}", None),
    ("{{ b / 3 | round_to(1) }} name", "341.3333333333333 name"),
    ("name{{ a }}", "name2"),
])
def test_sentence(source: str, text: str | None) -> None:
    assert renderer.sentence(source, {"a": 2, "b": 1024}) == text == by_jinja(source, {"a": 2, "b": 1024})


@pytest.mark.parametrize("source", [
    "{% for x in a %}{{ x }}{% endfor %}", "{% set x = 1 %}", "{{ a.__class__ }}", "{{ a() }}", "{{ a", "{% if a %}",
    "{% include 'x' %}", "{{ a | attr('x') }}",
])
def test_what_is_not_in_the_language(source: str) -> None:
    with pytest.raises(ExpressionError):
        read_words(source)
    assert renderer.sentence(source, {"a": 1}) is None
