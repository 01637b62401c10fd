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

from vllm_doctor.messages import Message, Translate, joined, say
from vllm_doctor.templating import filters
from vllm_doctor.templating.evaluator import UNKNOWN, apply_filter, arithmetic
from vllm_doctor.templating.parser import ExpressionError, checked_template
from vllm_doctor.text.devices import device_word, with_article
from vllm_doctor.text.patterns import lazy_pattern

_EXPRESSION = r"\{\{[^{}]{0,500}\}\}|\{%[^{}]{0,500}%\}"
EXPRESSION = lazy_pattern(_EXPRESSION)
"""An expression or a tag of a template."""
_VALUE = lazy_pattern(r"\{\{[^{}]{0,500}\}\}")
_BETWEEN_IDEOGRAPHS = lazy_pattern("(?<=[\u4e00-\u9fff]) (?=[\u4e00-\u9fff])")  # beside a value, which may be Chinese
_GPU = lazy_pattern(rf"(?P<code>{_EXPRESSION}|(?:NVIDIA(?:'s)?|AMD|Intel|WSL) GPU)"
                    r"|(?P<article>\b[Aa] )?(?<![\w'\"/.$-])GPU(?=s?(?![\w'\"-]))")
_LETTER = lazy_pattern(r"[^\W\d_]")
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

    def __init__(self, translate: Translate | None) -> None:
        finalize = None if translate is None else partial(say, translate=translate)
        super().__init__(undefined=StrictUndefined, autoescape=False, finalize=finalize)
        self.globals.clear()
        named: dict[str, Callable[..., Any]] = {name: partial(_filter, name) for name in filters.names()}
        self.filters = named

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute one operation. Raises UndefinedError if it cannot be computed."""
        del context
        values = (UNKNOWN if isinstance(value, Undefined) else value for value in (left, right))
        return _known(arithmetic(_OPERATORS[operator], *values))


@lru_cache(maxsize=4)
def _environment(translate: Translate | None) -> _Environment:
    return _Environment(translate)


@lru_cache(maxsize=1024)
def _template(source: str, translate: Translate | None) -> Template:
    """Return the template of a text. Raises ExpressionError or TemplateError if the text is invalid."""
    environment = _environment(translate)
    return environment.from_string(checked_template(source, environment))


def one_line(source: str) -> str:
    """Return a text with its white space reduced to single blanks: the form in which it is translated."""
    return " ".join(source.split())


def render_line(source: str, known: Mapping[str, Any]) -> Message | None:
    """Return a text rendered on one line, or None if it needs a fact that the log does not show."""
    text = _rendered(source, known)
    return None if text is None else Message(text, partial(_translated, text, source, known))


def _rendered(source: str, known: Mapping[str, Any], translate: Translate | None = None) -> str | None:
    if "GPU" in source and (device := device_word(known.get("device"))) != "GPU":
        source = _GPU.sub(lambda found: found["code"] or with_article(found["article"] or "", device), source)
    if "{" not in source:
        return one_line(source)
    try:
        return one_line(_template(source, translate).render(known))
    except (ExpressionError, TemplateError, TypeError):
        return None


def _translated(english: str, source: str, known: Mapping[str, Any], translate: Translate) -> str:
    """Return the translated text; the English one where there is none, or it cannot be rendered."""
    line = one_line(source)
    translation = translate(line)
    if translation == line and _LETTER.search(EXPRESSION.sub("", line)):
        return english
    return _BETWEEN_IDEOGRAPHS.sub("", _rendered(translation, known, translate) or "") or english


def translated(source: str, translate: Translate) -> str:
    """Return the translation of a template, paragraph by paragraph; the source as it is written if there is none."""
    parts = [(part, translate(one_line(part))) for part in split_paragraphs(source)]
    return "\n\n".join(part if text == one_line(part) else text for part, text in parts)


def with_ellipses(source: str, known: Mapping[str, Any]) -> Message:
    """Return the text with an ellipsis in place of each value; where a condition cannot be computed, of that too."""
    return Message(_elided(source, known), lambda translate: _elided(translate(one_line(source)), known, translate))


def _elided(source: str, known: Mapping[str, Any], translate: Translate | None = None) -> str:
    """Return the branch of a text that its conditions select, without its values; all branches if none is selected."""
    return _rendered(_VALUE.sub("…", source), known, translate) or one_line(EXPRESSION.sub("…", source))


def split_paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text, which blank lines separate."""
    return re.split(r"\n[ \t]*\n", text.strip())


def render_paragraphs(source: str, known: Mapping[str, Any]) -> Message:
    """Return all paragraphs that can be rendered, joined by blank lines."""
    rendered = (render_line(part, known) for part in split_paragraphs(source))
    return joined("\n\n", (text for text in rendered if text))
