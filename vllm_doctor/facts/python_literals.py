"""Parse Python literals and reprs from log lines as text, without evaluating anything.

vLLM prints its arguments as `Namespace(...)`, as a dict, or as a sequence of `key=value` pairs that mix reprs of
configuration objects, enums, functions and JSON. A log line may be cut off anywhere. The reader returns what it
could parse and whether that is complete, never raises, and takes linear time.
"""

from __future__ import annotations

import re
from typing import Generic, NamedTuple, TypeVar

from vllm_doctor.text.patterns import lazy_pattern

T = TypeVar("T")

MAX_DEPTH = 60
"""Maximal depth of nested brackets; deeper values are returned as incomplete."""

MAX_DIGITS = 1000
"""Maximal digits of a number; a longer one stays a string, because converting it takes quadratic time."""


class Repr(NamedTuple):
    """An object's repr: `Name(argument, field=value)`, `<Enum.NAME: value>` or `<any other text>`.

    An enum has the name `Enum.NAME` and one field, `value`; `<function f at 0x7f>` has the name `function f`.
    """

    name: str
    fields: tuple[tuple[str, object], ...] = ()
    arguments: tuple[object, ...] = ()

    def get(self, field: str, default: object = None) -> object:
        """Return the value of a field (the last one if it is repeated)."""
        return self.as_dict().get(field, default)

    def as_dict(self) -> dict[str, object]:
        """Return the fields by name, in order."""
        return dict(self.fields)


class Read(Generic[T]):
    """A parsed value, the position after it, and whether it is complete."""

    def __init__(self, value: T, end: int, *, complete: bool) -> None:
        self.value = value
        self.end = end
        self.complete = complete


def read_value(text: str, pos: int = 0) -> Read[object]:
    """Read one value at `pos`.

    Words that are not literals are returned as plain strings (`auto`, `torch.bfloat16`). In a container that is cut
    off, a last scalar at the cut is dropped (`[1, 20` may have been 2048); the other items are kept.
    """
    reader = _Reader(text, pos)
    value = reader.value(_VALUE_STOP)
    complete = not reader.cut and value is not _MISSING
    return Read(None if value is _MISSING else value, reader.pos, complete=complete)


def read_pairs(text: str, pos: int = 0) -> Read[dict[str, object]]:
    """Read `key=value, key=value` up to the end of the text or an unmatched closing bracket.

    The last value may end with the text (no bracket would show a cut), unless it ends in `...`.
    """
    reader = _Reader(text, pos)
    pairs: dict[str, object] = {}
    while True:
        reader.skip(_SEPARATORS)
        if reader.at_end or text[reader.pos] in _CLOSERS:
            break
        key = _KEY.match(text, reader.pos)
        if key is None:  # not a pair: continue at the next one, and mark the result as incomplete
            reader.cut = True
            following = _NEXT_KEY.search(text, reader.pos)
            if following is None:
                break
            reader.pos = following.end("comma")
            continue
        reader.pos = key.end()
        earlier, reader.cut = reader.cut, False
        value = reader.value(_VALUE_STOP)
        if value is not _MISSING and not (reader.at_end and reader.cut and reader.scalar):
            pairs[key.group("key")] = value
        reader.cut = reader.cut or earlier
        if reader.stopped:
            break
    return Read(pairs, reader.pos, complete=not reader.cut)


class _Missing:
    """The marker for a missing value."""


_MISSING = _Missing()

_SPACE = lazy_pattern(r"\s*")
_SEPARATORS = lazy_pattern(r"[\s,]*")
_KEY = lazy_pattern(r"(?P<key>[A-Za-z_][\w.-]*)\s*=(?!=)\s*")
_NEXT_KEY = lazy_pattern(r"(?P<comma>,)\s*[A-Za-z_][\w.-]*=(?!=)")
_CALL = lazy_pattern(r"(?P<name>[A-Za-z_][\w.]*)\(")
_ENUM = lazy_pattern(r"<(?P<name>[A-Za-z_][\w.]*): ")
_STRING = lazy_pattern(r"(?P<prefix>[bBrRuUfF]{0,2})(?P<quote>'''|\"\"\"|'|\")")
_STRING_BODY = {quote: lazy_pattern(rf"[^{quote}\\]+") for quote in "'\""}
_NUMBER = lazy_pattern(r"[-+]?(?:0[xX][0-9a-fA-F]+|(?:\d+(?:_\d+)*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)(?=$|[\s,:)\]}>])")
_VALUE_STOP = lazy_pattern(r"[^,)\]}\n]*")
_ENUM_STOP = lazy_pattern(r"[^,)\]}>\n]*")
_DICT_KEY_STOP = lazy_pattern(r"[^,:)\]}\n]*")
_ANGLE = lazy_pattern(r"[<>]")
_ADDRESS = lazy_pattern(r" at 0x[0-9a-fA-F]+$")
_CLOSERS = ")]}"
_NAMES: dict[str, object] = {
    "None": None, "null": None, "True": True, "true": True, "False": False, "false": False,
    "nan": float("nan"), "NaN": float("nan"), "inf": float("inf"), "Infinity": float("inf"),
    "-inf": float("-inf"), "-Infinity": float("-inf"),
}  # fmt: skip
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\n": ""}
_CODES = {letter: lazy_pattern(rf"[0-9a-fA-F]{{{digits}}}") for letter, digits in (("x", 2), ("u", 4), ("U", 8))}
_OCTAL = lazy_pattern(r"[0-7]{1,3}")
_SURROGATES = lazy_pattern("([\ud800-\udbff])([\udc00-\udfff])")


class _Reader:
    """A cursor over the text; `cut` marks a missing part, `scalar` that the last value was a scalar."""

    def __init__(self, text: str, pos: int) -> None:
        self.text = text
        self.pos = max(0, pos)
        self.cut = False
        self.scalar = False
        self.stopped = False
        self.depth = 0

    @property
    def at_end(self) -> bool:
        return self.pos >= len(self.text)

    def skip(self, pattern: re.Pattern[str] = _SPACE) -> None:
        if match := pattern.match(self.text, self.pos):
            self.pos = match.end()

    def at(self, mark: str) -> bool:
        return self.text.startswith(mark, self.pos)

    def value(self, stop: re.Pattern[str]) -> object:
        """Read any value; `stop` matches a bare word. Return `_MISSING` if there is none."""
        self.skip()
        self.scalar = False
        if self.at_end:
            self.cut = True
            return _MISSING
        if self.depth >= MAX_DEPTH:
            self.cut = self.stopped = True
            return _MISSING
        self.depth += 1
        value = self._dispatch(stop)
        self.depth -= 1
        return value

    def _dispatch(self, stop: re.Pattern[str]) -> object:
        text, pos = self.text, self.pos
        char = text[pos]
        if char == "{":
            return self._braces()
        if char == "[":
            return self._items("]")
        if char == "(":
            return self._parentheses()
        if char == "<":
            return self._angle()
        if string := _STRING.match(text, pos):
            return self._string(string)
        if number := _NUMBER.match(text, pos):
            return self._number(number)
        if call := _CALL.match(text, pos):
            return self._call(call)
        return self._word(stop)

    def _scalar(self, value: object) -> object:
        self.scalar = True
        return value

    def _number(self, match: re.Match[str]) -> object:
        self.pos = match.end()
        digits = match.group()
        if len(digits) > MAX_DIGITS:
            return self._scalar(digits)
        if "x" in digits or "X" in digits:
            return self._scalar(int(digits, 16))
        return self._scalar(float(digits) if re.search(r"[.eE]", digits) else int(digits))

    def _word(self, stop: re.Pattern[str]) -> object:
        match = stop.match(self.text, self.pos)
        word = match.group().strip() if match else ""
        self.pos = match.end() if match else self.pos
        if not word:
            return _MISSING
        if word.endswith(("...", "…")):
            self.cut = True
            self.scalar = True
            return _MISSING
        return self._scalar(_NAMES.get(word, word))

    def _string(self, match: re.Match[str]) -> object:
        prefix, quote = match.group("prefix").lower(), match.group("quote")
        self.pos = match.end()
        pieces: list[str] = []
        closed = False
        body = _STRING_BODY[quote[0]]
        while not self.at_end:
            if run := body.match(self.text, self.pos):
                pieces.append(run.group())
                self.pos = run.end()
            elif self.at(quote):
                self.pos += len(quote)
                closed = True
                break
            elif self.text[self.pos] == "\\" and self.pos + 1 < len(self.text):
                pieces.append(self._escape(raw="r" in prefix, code_points="b" not in prefix))
            else:  # a quote inside triple quotes, or a backslash at the cut
                pieces.append(self.text[self.pos])
                self.pos += 1
        self.cut = self.cut or not closed
        self.scalar = not closed
        text = "".join(pieces)
        if "b" in prefix:
            return text.encode("latin-1", "replace")
        return text if text.isascii() else _SURROGATES.sub(_join_surrogates, text)

    def _escape(self, *, raw: bool, code_points: bool) -> str:
        char = self.text[self.pos + 1]
        self.pos += 2
        if raw:
            return "\\" + char
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char in _CODES and (code_points or char == "x"):
            digits = _CODES[char].match(self.text, self.pos)
            code = int(digits.group(), 16) if digits else None
            if digits is None or code is None or code > 0x10FFFF:
                return "\\" + char
            self.pos = digits.end()
            return chr(code)
        if octal := _OCTAL.match(self.text, self.pos - 1):
            self.pos = octal.end()
            return chr(int(octal.group(), 8) & 0xFF) if not code_points else chr(int(octal.group(), 8))
        return char if char in "\\'\"/" else "\\" + char

    def _more(self, closer: str) -> bool:
        """Return whether another item follows; False after the closing bracket or at a cut."""
        self.skip(_SEPARATORS)
        if self.stopped:
            return False
        if self.at_end:
            self.cut = True
            return False
        if self.text[self.pos] == closer:
            self.pos += 1
            return False
        if self.text[self.pos] in _CLOSERS:  # another bracket closes here: this one's is missing
            self.cut = True
            return False
        return True

    def _item(self, stop: re.Pattern[str]) -> object:
        """Read an item of a container; return `_MISSING` if it is absent, elided or may be cut."""
        start = self.pos
        value = self.value(stop)
        scalar = self.scalar
        if scalar and self.at_end:
            self.cut = True
            value = _MISSING
        elif value is _MISSING and self.pos == start and not self.at_end and not self.stopped:
            self.pos += 1  # nothing begins with this character; skip it, so that every turn advances
            self.cut = True
        self.scalar = False
        return value

    def _items(self, closer: str) -> list[object]:
        self.pos += 1
        items: list[object] = []
        while self._more(closer):
            value = self._item(_VALUE_STOP)
            if value is not _MISSING:
                items.append(value)
        self.scalar = False
        return items

    def _parentheses(self) -> object:
        items = self._items(")")
        if len(items) != 1 or self.cut:
            return tuple(items)
        before = self.pos - 2  # the character before the closing bracket distinguishes (1,) from (1)
        while before > 0 and self.text[before].isspace():
            before -= 1
        return tuple(items) if self.text[before] == "," else items[0]

    def _braces(self) -> object:
        self.pos += 1
        mapping: dict[object, object] = {}
        items: list[object] = []
        while self._more("}"):
            start = self.pos
            key = self._item(_DICT_KEY_STOP)
            end = self.pos
            self.skip()
            if key is not _MISSING and self.at(":"):
                self.pos += 1
                value = self._item(_VALUE_STOP)
                if value is not _MISSING:
                    mapping[_hashable(key, self.text, start, end)] = value
            elif key is not _MISSING and not self.at_end:
                items.append(key)
        self.scalar = False
        if not items or mapping:
            return mapping
        try:
            return set(items)
        except TypeError:
            return items

    def _call(self, match: re.Match[str]) -> object:
        name = match.group("name")
        self.pos = match.end()
        fields: list[tuple[str, object]] = []
        arguments: list[object] = []
        while self._more(")"):
            key = _KEY.match(self.text, self.pos)
            unpacked = self.at("**")  # Namespace(**{'a-b': 1}): the repr of names that are no identifiers
            if key is not None:
                self.pos = key.end()
            elif unpacked:
                self.pos += 2
            value = self._item(_VALUE_STOP)
            if value is _MISSING:
                continue
            if key is not None:
                fields.append((key.group("key"), value))
            elif unpacked and isinstance(value, dict):
                fields.extend((str(field), item) for field, item in value.items())
            else:
                arguments.append(value)
        self.scalar = False
        if name == "set" and not fields and not arguments:
            return set()
        return Repr(name, tuple(fields), tuple(arguments))

    def _angle(self) -> object:
        if enum := _ENUM.match(self.text, self.pos):
            self.pos = enum.end()
            value = self._item(_ENUM_STOP)
            self.skip()
            if self.at(">"):
                self.pos += 1
                return Repr(enum.group("name"), () if value is _MISSING else (("value", value),))
            depth = 1
            start = enum.start() + 1
        else:
            depth, start = 0, self.pos + 1
        for mark in _ANGLE.finditer(self.text, self.pos):
            depth += 1 if mark.group() == "<" else -1
            if depth == 0:
                self.pos = mark.end()
                return Repr(_ADDRESS.sub("", self.text[start : mark.start()]))
        self.pos = len(self.text)
        self.cut = True
        return self._scalar(_MISSING)


def _hashable(key: object, text: str, start: int, end: int) -> object:
    """Return the key or, if it cannot be hashed (a list), its source text."""
    try:
        hash(key)
    except TypeError:
        return text[start:end]
    return key


def _join_surrogates(match: re.Match[str]) -> str:
    """Join the two escapes that JSON writes for a character above U+FFFF."""
    return match.group().encode("utf-16", "surrogatepass").decode("utf-16")
