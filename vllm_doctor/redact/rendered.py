"""The last look for secrets: at a report as it is written, in the syntax of its format."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape, unescape
from typing import Any

from vllm_doctor.redact.nested_values import redact_value
from vllm_doctor.redact.redactor import Redactor
from vllm_doctor.redact.spans import MASK, compiled

_INDENTATION = {"json": 2, "agent": 2, "sarif": 2, "gitlab": 2, "jsonl": None}
_MARKUP = {"html", "junit"}
_MARKDOWN_MASK = MASK.replace("*", r"\*")  # bare asterisks would be emphasis
_NODE = r"(?s)<(style|script)\b.*?(?:</\1>|\Z)|<!--.*?(?:-->|\Z)|<[^<>]*>|[^<]+"
_ATTRIBUTE = r'(=")([^"]+)(?=")'
_OURS = ("<style", "<script", "<meta", "<!")  # our own files, and the policy that names their hashes


def redact_rendered(text: str, format_: str, redactor: Redactor) -> str:
    """Mask the secrets left in a rendered report (`--format`) without changing its syntax."""
    if format_ in _INDENTATION:
        documents = text.splitlines(keepends=True) if format_ == "jsonl" else [text]
        return "".join(_document(document, _INDENTATION[format_], redactor.redact) for document in documents)
    if format_ in _MARKUP:
        return compiled(_NODE).sub(lambda node: _node(node[0], redactor.redact), text)
    return redactor.redact(text, _MARKDOWN_MASK if format_ == "markdown" else MASK)


def _document(text: str, indent: int | None, mask: Callable[[str], str]) -> str:
    """Return a JSON document with its strings masked."""
    document: Any = json.loads(text)
    clean = redact_value(document, mask)
    if clean == document:
        return text
    separators = (",", ":") if indent is None else None
    return json.dumps(clean, indent=indent, ensure_ascii=False, separators=separators) + "\n"


def _node(node: str, mask: Callable[[str], str]) -> str:
    """Mask a piece of HTML or XML: a text, or a tag with its attributes."""
    if not node.startswith("<"):
        return _characters(node, mask, in_quotes=False)
    if node.startswith(_OURS):
        return node
    return compiled(_ATTRIBUTE).sub(lambda value: value[1] + _characters(value[2], mask, in_quotes=True), node)


def _characters(text: str, mask: Callable[[str], str], *, in_quotes: bool) -> str:
    plain = unescape(text)
    clean = mask(plain)
    return text if clean == plain else escape(clean, quote=in_quotes)
