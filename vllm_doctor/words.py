"""The words of a rule, filled with this log's numbers: `{{ expression }}` and `{% if expression %}` in plain text.

A paragraph that needs a fact the log does not show is left out, so an author writes one paragraph a thought and need
not guard it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from vllm_doctor.expressions import UNKNOWN, ExpressionError, Tree, evaluate, known_trees
from vllm_doctor.typed import Any


@lru_cache(maxsize=1024)
def parse(source: str) -> Tree:
    """The tree of words, see `language.read_words`. Raises ExpressionError."""
    tree = known_trees.get(source)
    if tree is None:
        from vllm_doctor.language import read_words  # noqa: PLC0415 - see `expressions.parse`

        tree = read_words(source)
    return tree


def sentence(source: str, known: Mapping[str, Any]) -> str | None:
    """One line of words, or None when it needs what the log does not show."""
    if "{" not in source:
        return " ".join(source.split())
    try:
        return " ".join(_said(parse(source), known).split())
    except (ExpressionError, LookupError):
        return None


def _said(tree: Tree, known: Mapping[str, Any]) -> str:
    """What a tree of words says. Raises LookupError for a value that is unknown."""
    kind = tree[0]
    if kind == "text":
        return str(tree[1])
    if kind == "words":
        return "".join(_said(part, known) for part in tree[1:])
    if kind == "if":
        return _said(tree[2] if _value(tree[1], known) else tree[3], known)
    return str(_value(tree, known))


def _value(tree: Tree, known: Mapping[str, Any]) -> Any:
    value = evaluate(tree, known)
    if value is UNKNOWN:
        raise LookupError
    return value


def without_numbers(source: str) -> str:
    """The words with an ellipsis for each number, where one of them is unknown."""
    return " ".join(re.sub(r"\{\{[^{}]{0,500}\}\}|\{%[^{}]{0,500}%\}", "…", source).split())


def split(text: str) -> list[str]:
    """The paragraphs of a text."""
    return re.split(r"\n[ \t]*\n", text.strip()) if "\n" in text else [text.strip()]


def paragraphs(source: str, known: Mapping[str, Any]) -> str:
    """All paragraphs that can be said, joined by blank lines."""
    said = (sentence(part, known) for part in split(source))
    return "\n\n".join(text for text in said if text)
