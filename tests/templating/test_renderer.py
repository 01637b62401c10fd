"""Texts of rules: what Jinja renders of them, and what is not in their language."""

from __future__ import annotations

import pytest

from vllm_doctor.templating import renderer
from vllm_doctor.templating.parser import ExpressionError, read_text


@pytest.mark.parametrize(("source", "text"), [
    ("{{ a }} of {{ b | number }}", "2 of 1,024"),
    ("{% if a > 1 %}many{% else %}one{% endif %}", "many"),
    ("{% if a == 1 %}one{% elif a == 2 %}two{% elif a == 3 %}three{% endif %}", "two"),
    ("{% if missing is defined %}x{% endif %}rendered", "rendered"),
    ("{% if missing %}x{% endif %}rendered", None),
    ("{{ missing }}", None),
    ("{{ a / 0 }}", None),
    ("{{ b / 3 | round_to(1) }} name", "341.3333333333333 name"),
    ("name{{ a }}", "name2"),
    ("{{ 'x' * 1000 }}", None),
    ("{{ missing | or_else(3) }}", "3"),
    ("{{ a | no_such_filter }}", None),
    ("{% if a > 1 and missing %}x{% endif %}", None),
    ("{{ b | number }} {{ a * b / 4 }}", "1,024 512.0"),
])
def test_sentence(source: str, text: str | None) -> None:
    assert renderer.render_line(source, {"a": 2, "b": 1024}) == text


@pytest.mark.parametrize("source", [
    "{% for x in a %}{{ x }}{% endfor %}", "{% set x = 1 %}", "{{ a.__class__ }}", "{{ a() }}", "{{ a", "{% if a %}",
    "{% include 'x' %}", "{{ a | attr('x') }}",
])
def test_what_is_not_in_the_language(source: str) -> None:
    with pytest.raises(ExpressionError):
        read_text(source)
    assert renderer.render_line(source, {"a": 1}) is None


@pytest.mark.parametrize(("source", "text"), [
    ("{% if a > 1 %}No file {{ path }}{% else %}{{ path }} is empty{% endif %}", "No file …"),
    ("{% if missing %}No file {{ path }}{% else %}{{ path }} is empty{% endif %}", "…No file ……… is empty…"),
])
def test_ellipses_replace_the_values_of_the_branch_that_applies(source: str, text: str) -> None:
    assert renderer.with_ellipses(source, {"a": 2}) == text


@pytest.mark.parametrize(("source", "device", "text"), [
    ("Use {{ a }} GPUs of the same GPU type", "tpu", "Use 2 TPUs of the same TPU type"),
    ("Use {{ a }} GPUs", "cuda", "Use 2 GPUs"),
    ("Use {{ a }} GPUs", None, "Use 2 GPUs"),
    ("An NVIDIA GPU, --gpus GPU-1, {'GPU': 1}{% if a == 'GPU' %}no{% endif %}", "npu", "An NVIDIA GPU, --gpus GPU-1, {'GPU': 1}"),
    ("Intel GPU or GPU", "xpu", "Intel GPU or GPU"),
])
def test_a_text_names_the_device_of_the_platform(source: str, device: str | None, text: str) -> None:
    assert renderer.render_line(source, {"a": 2, "device": device}) == text
