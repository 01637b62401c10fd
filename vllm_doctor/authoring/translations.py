"""Check a translation against its English source: what must be the same in both, and how Chinese is set."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from string import Formatter

from jinja2 import Environment, nodes
from jinja2.exceptions import TemplateSyntaxError

from vllm_doctor.language import LANGUAGES, catalogues, read_catalogue
from vllm_doctor.templating.parser import ExpressionError, read_text
from vllm_doctor.templating.renderer import EXPRESSION
from vllm_doctor.text.patterns import lazy_pattern

_FLAG = lazy_pattern(r"(?<![\w-])--?[A-Za-z][\w.-]{0,80}(?<![.-])")
_NUMBER = lazy_pattern(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)*")
_VARIABLE = lazy_pattern(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b")
_CODE = lazy_pattern(r"`[^`]{0,400}`")
_HAN = "\u4e00-\u9fff"
_TIGHT = lazy_pattern(rf"[{_HAN}][A-Za-z0-9]|[A-Za-z0-9%][{_HAN}]")
_HALF_WIDTH = lazy_pattern(rf"[{_HAN}]\s?[,;:?!](?=\s|$|[{_HAN}])|[{_HAN}]\.(?=\s|$)")
_SPELLED = {"an?": "1", "one": "1", "once": "1", "two": "2", "twice": "2", "three": "3", "four": "4", "first": "1",
            "half": "2", "second": "2"}
_BRACKET = lazy_pattern(rf"[{_HAN}]\s?\((?=[{_HAN}])|(?<=[{_HAN}])\)")


def problems(english: str, chinese: str, *, is_template: bool) -> list[str]:
    """Return what is wrong with a translation; `is_template`: its placeholders are Jinja's, as in rules."""
    found = list(_placeholders(english, chinese, is_template=is_template))
    plain = [_plain(text, is_template=is_template) for text in (english, chinese)]
    for what, pattern in (("flags", _FLAG), ("variables", _VARIABLE), ("numbers", _NUMBER)):
        # Both branches of a condition may repeat a flag in one language only.
        mine, theirs = (set(pattern.findall(text)) for text in plain)
        if what == "numbers":  # "one" may be 1
            theirs -= {digit for word, digit in _SPELLED.items()
                       if re.search(rf"\b{word}\b", english, re.IGNORECASE)} - mine
        if mine != theirs:
            found.append(f"other {what}: {', '.join(sorted(mine ^ theirs))}")
    return found + list(_typography(chinese, is_template=is_template))


def lint_catalogues() -> list[str]:
    """Return the problems of all translations, each with its catalogue."""
    return [f"{path}: {problem}: {source}"
            for code in LANGUAGES for path in catalogues(code)
            for source, translation in read_catalogue(path.read_text(encoding="utf-8")).items()
            for problem in problems(source, translation, is_template=path.parents[3].name in {"rules", "_rules"})]


def _plain(text: str, *, is_template: bool) -> str:
    return (EXPRESSION.sub(" ", text) if is_template else re.sub(r"\{[^{}]{0,80}\}|%\(\w{1,40}\)s", " ", text))


def _placeholders(english: str, chinese: str, *, is_template: bool) -> Iterator[str]:
    if not is_template:
        try:
            mine, theirs = (set(_fields(text)) for text in (english, chinese))
        except ValueError as error:
            yield f"placeholders: {error}"
            return
        if mine != theirs:
            yield f"other placeholders: {', '.join(sorted(mine ^ theirs))}"
        return
    try:
        read_text(chinese)
        mine_used, theirs_used = _used(english), _used(chinese)
    except (ExpressionError, TemplateSyntaxError) as error:
        yield f"not a template: {error}"
        return
    if set(mine_used) != set(theirs_used):
        yield f"other variables or filters: {', '.join(sorted(set(mine_used) ^ set(theirs_used)))}"


def _fields(text: str) -> list[str]:
    """Return the placeholders of a message: `{name}` of code, `%(name)s` of templates."""
    if "%(" in text:
        return re.findall(r"%\((\w{1,40})\)", text)
    if re.search(r"\{[^{}\w]|\{\}", text):  # JSON, not placeholders
        return []
    return [f"{name}:{form}" if form else name for _, name, form, _ in Formatter().parse(text) if name is not None]


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return Environment(autoescape=False)  # noqa: S701 - only its parser is used


def _used(text: str) -> Counter[str]:
    """Return the names, the filters and the conditions that a template uses."""
    tree = _environment().parse(text)
    names: Counter[str] = Counter(node.name for node in tree.find_all(nodes.Name))
    names.update(f"|{node.name}" for node in tree.find_all(nodes.Filter))
    return names


def _typography(chinese: str, *, is_template: bool) -> Iterator[str]:
    """Yield what is wrong in the setting of Chinese prose."""
    if not re.search(f"[{_HAN}]", chinese):
        return
    text = _CODE.sub("“”", chinese)
    prose = EXPRESSION.sub("\u00a0", text) if is_template else text
    if match := _TIGHT.search(prose):
        yield f"no blank between `{match[0]}`"
    if match := _HALF_WIDTH.search(prose):
        yield f"half-width punctuation `{match[0]}`"
    if match := _BRACKET.search(prose):
        yield f"half-width bracket `{match[0]}`"
