"""Texts for users: English strings that carry their translation into other languages.

Code that finds something does not know in which language it will be reported. It makes a `Message`, a string with the
English text that also keeps its source (with the placeholders) and the values. `say` translates every message in a
report when the report is written. Wherever only the English text is wanted, a message is an ordinary string.

`tools/translations.py` extracts the first argument of `message`, `N_` and a language's `_`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from vllm_doctor.text.patterns import lazy_pattern

Translate = Callable[[str], str]
"""Returns the translation of a source text, or the source itself if there is none."""
T = TypeVar("T")
_AFTER_FULL_WIDTH = lazy_pattern("(?<=[，。：；？！）」]) ")


class Message(str):
    """An English text, and what says it in another language. A copy that is pickled is the English text."""

    __slots__ = ("_translated",)
    _translated: Callable[[Translate], str]

    def __new__(cls, english: str, translated: Callable[[Translate], str]) -> Message:  # noqa: D102, PYI034 - Self is of 3.11
        result = super().__new__(cls, english)
        result._translated = translated
        return result

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Return how to copy it: as the English text."""
        return str, (str(self),)

    def translated(self, translate: Translate) -> str:
        """Return the text in the language of `translate`."""
        return self._translated(translate)

    def through(self, change: Callable[[str], str]) -> Message:
        """Return the message with a change, such as masking secrets, made in every language."""
        return Message(change(str(self)), partial(_changed, self, change))


def N_(source: str) -> str:  # noqa: N802 - gettext's name for it
    """Return the text, which is translated elsewhere; it marks it for extraction."""
    return source


def message(source: str, /, **values: Any) -> Message:
    """Return the text with `{name}` placeholders replaced, as str.format does."""
    return Message(source.format(**values), partial(_formatted, source, values))


def text(source: str) -> Message:
    """Return a text without placeholders, whose braces and blanks are its own."""
    return Message(source, partial(_plain, source))


def joined(separator: str, parts: Iterable[str]) -> Message:
    """Return the parts joined; separators are translated, and no blank follows full-width punctuation."""
    parts = tuple(parts)
    return Message(separator.join(parts), partial(_joined, separator, parts))


def listed(items: Iterable[str]) -> str:
    """Return `a, b and c`."""
    *first, last = items
    return message("{items} and {last}", items=joined(", ", first), last=last) if first else last


def _plain(source: str, translate: Translate) -> str:
    return translate(source)


def _formatted(source: str, values: Mapping[str, Any], translate: Translate) -> str:
    return translate(source).format(**{name: say(value, translate) for name, value in values.items()})


def _joined(separator: str, parts: tuple[str, ...], translate: Translate) -> str:
    return _AFTER_FULL_WIDTH.sub("", translate(separator).join(say(part, translate) for part in parts))


def _changed(text: Message, change: Callable[[str], str], translate: Translate) -> str:
    return change(text.translated(translate))


def say(value: T, translate: Translate) -> T:
    """Return a value with the messages in it translated, also those within tuples, lists and mappings."""
    found: Any = value
    if isinstance(found, Message):
        found = found.translated(translate)
    elif isinstance(found, tuple):
        items = [say(item, translate) for item in found]
        found = type(found)(*items) if hasattr(found, "_fields") else tuple(items)
    elif isinstance(found, list):
        found = [say(item, translate) for item in found]
    elif isinstance(found, Mapping):
        found = {key: say(item, translate) for key, item in found.items()}
    result: T = found
    return result
