"""Render the texts of rules with Jinja: `{{ expression }}` and `{% if expression %}` in plain text.

A paragraph that needs a fact that the log does not show is left out, so authors can write one paragraph per thought
without conditions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, Undefined
from jinja2.exceptions import UndefinedError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from vllm_doctor.templating import filters
from vllm_doctor.templating.evaluator import UNKNOWN, apply_filter, arithmetic
from vllm_doctor.templating.parser import ExpressionError, read_text

_OPERATORS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floordiv"}


def _known(value: Any) -> Any:
    """Return the value. Raises UndefinedError for UNKNOWN."""
    if value is UNKNOWN:
        raise UndefinedError("cannot be computed")
    return value


def _filter(name: str, *values: Any, **keywords: Any) -> Any:
    """Apply one of our filters to the values that Jinja passes."""
    arguments = [UNKNOWN if isinstance(value, Undefined) else value for value in values]
    named = {key: UNKNOWN if isinstance(value, Undefined) else value for key, value in keywords.items()}
    return _known(apply_filter(name, arguments, named))


class _Environment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with our filters only, and with the arithmetic of expressions."""

    intercepted_binops = frozenset(_OPERATORS)

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, autoescape=False)
        self.globals.clear()
        named: dict[str, Callable[..., Any]] = {name: partial(_filter, name) for name in filters.names()}
        self.filters = named

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute one operation. Raises UndefinedError if it cannot be computed."""
        del context
        values = (UNKNOWN if isinstance(value, Undefined) else value for value in (left, right))
        return _known(arithmetic(_OPERATORS[operator], *values))


@lru_cache(maxsize=1)
def _environment() -> _Environment:
    return _Environment()


@lru_cache(maxsize=1024)
def _template(source: str) -> Template:
    """Return the template of a text. Raises ExpressionError or TemplateError if the text is invalid."""
    read_text(source)
    return _environment().from_string(source)


def sentence(source: str, known: Mapping[str, Any]) -> str | None:
    """Return a text rendered on one line, or None if it needs a fact that the log does not show."""
    if "{" not in source:
        return " ".join(source.split())
    try:
        return " ".join(_template(source).render(known).split())
    except (ExpressionError, TemplateError, TypeError):
        return None


def without_numbers(source: str) -> str:
    """Return the text with an ellipsis in place of each expression."""
    return " ".join(re.sub(r"\{\{[^{}]{0,500}\}\}|\{%[^{}]{0,500}%\}", "…", source).split())


def split(text: str) -> list[str]:
    """Return the paragraphs of a text, which blank lines separate."""
    return re.split(r"\n[ \t]*\n", text.strip())


def paragraphs(source: str, known: Mapping[str, Any]) -> str:
    """Return all paragraphs that can be rendered, joined by blank lines."""
    rendered = (sentence(part, known) for part in split(source))
    return "\n\n".join(text for text in rendered if text)
