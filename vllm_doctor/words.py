"""The words of a rule: Jinja templates, filled with this log's numbers.

A paragraph that needs a fact the log does not show is left out, so an author writes one paragraph a thought and need
not guard it. Templates run in Jinja's sandbox, with the rules' filters and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from vllm_doctor.filters import FILTERS

_PLACEHOLDER = re.compile(r"\{\{.*?\}\}|\{%.*?%\}")
_PARAGRAPH = re.compile(r"\n[ \t]*\n")


@lru_cache(maxsize=1)
def environment() -> ImmutableSandboxedEnvironment:
    """Jinja's sandbox with our filters, and without its globals."""
    made = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
    made.globals.clear()
    made.filters = {name: made.filters[name] for name in ("join", "lower", "upper", "replace", "trim")} | FILTERS
    return made


@lru_cache(maxsize=1024)
def template(source: str) -> Template:
    """The compiled template. Raises jinja2.TemplateSyntaxError."""
    return environment().from_string(source)


def sentence(source: str, known: Mapping[str, Any]) -> str | None:
    """One line of words, or None when it needs what the log does not show."""
    if "{" not in source:
        return " ".join(source.split())
    try:
        return " ".join(template(source).render(known).split())
    except (TemplateError, TypeError, ValueError, ArithmeticError):
        return None


def without_numbers(source: str) -> str:
    """The words with an ellipsis for each number, where one of them is unknown."""
    return " ".join(_PLACEHOLDER.sub("…", source).split())


def paragraphs(source: str, known: Mapping[str, Any]) -> str:
    """All paragraphs that can be said, joined by blank lines."""
    said = (sentence(part, known) for part in _PARAGRAPH.split(source.strip()))
    return "\n\n".join(text for text in said if text)
