"""Secrets in a text: masked, masked line by line, or only named; and the memory of what was seen once with a name."""

from __future__ import annotations

import base64
import html
import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote

from vllm_doctor.redact.line_breaks import over_line_ends, unwrapped
from vllm_doctor.redact.named_values import HARMLESS, named_spans
from vllm_doctor.redact.plain_text import PlainText
from vllm_doctor.redact.private_keys import key_spans
from vllm_doctor.redact.program_options import option_spans
from vllm_doctor.redact.secret_names import CUES
from vllm_doctor.redact.sentences import prose_spans
from vllm_doctor.redact.spans import MASK, Span, compiled, looks_generated, looks_random, masked
from vllm_doctor.redact.tables_and_manifests import Blocks, block_spans, object_spans, without_prefix
from vllm_doctor.redact.token_shapes import token_spans
from vllm_doctor.redact.url_secrets import url_spans

if TYPE_CHECKING:
    from collections.abc import Callable

_SENTENCE = 600  # characters
_MOST_VALUES = 256  # remembered; memory does not grow with the log
_LONGEST_VALUE = 512  # characters
_LONGEST_LINE = 16_384  # characters of a line that is looked at to remember its secrets
_MOST_PENDING = 16_384  # characters of lines that are not learned from yet
_LONGEST_REMEMBERED, _MOST_REMEMBERED = 200, 1 << 14  # characters of a masked text that is remembered; texts
_APART = "\n---\n"  # between lines that do not follow each other: no value goes on behind it


_OWN_WORD = r"[A-Za-z]{3,64}[A-Z][A-Za-z]{3,64}"  # a password of letters that is no word of a language
_ENCODED = r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{20,4000}={0,2}(?![A-Za-z0-9+/=])"  # base64 of a text


class Redactor:
    """Masks the secrets of one report: each by its name or shape, and wherever it stands once it was seen so."""

    def __init__(self, *others: Redactor) -> None:
        self._values: dict[str, re.Pattern[str]] = {}
        for other in others:
            other._learn_pending()  # noqa: SLF001 - of its own kind
            self._values |= other._values  # noqa: SLF001
        self._blocks = Blocks()
        self._before = ""  # the line before, if it may name what stands on the next
        self._redacted: dict[str, str] = {}  # short texts: each fix repeats the words of the command
        self._redacted_with = 0  # values known when they were masked; with more, they are masked again
        self._pending: list[str] = []  # lines to learn from together, which is much faster than one by one
        self._pending_size = 0  # characters

    def __eq__(self, other: object) -> bool:
        """Return whether `other` is also a redactor; reports compare equal whatever secrets were masked."""
        return isinstance(other, Redactor)

    def __hash__(self) -> int:
        """Return the same hash for every redactor."""
        return hash(Redactor)

    def __repr__(self) -> str:
        """Return how many secrets are remembered, without showing any."""
        return f"Redactor({len(self._values)} values)"

    def learn_line(self, line: str) -> None:
        """Remember the secrets in the next line of the log."""
        self._learn_block(line)
        lower = line[:_LONGEST_LINE].lower()
        has_cue = any(cue in lower for cue in CUES) or "://" in lower
        if has_cue or self._before:
            read = line[:_LONGEST_LINE]
            bare = without_prefix(read)
            if not self._before or bare != read:
                self._await(read)
            if self._before:
                self._await(f"{self._before}\n{bare}")
        self._before = line if has_cue and len(line) < 200 else ""

    def _await(self, text: str) -> None:
        self._pending.append(text)
        self._pending_size += len(text)
        if self._pending_size >= _MOST_PENDING:
            self._learn_pending()

    def _learn_pending(self) -> None:
        pending, self._pending, self._pending_size = _APART.join(self._pending), [], 0
        if pending and len(self._values) < _MOST_VALUES:
            self.learn(pending)

    def _learn_block(self, line: str) -> None:
        """Remember the secrets in a line that one above announced: rows of tables, entries of a Secret."""
        plain = PlainText(line).text if len(line) <= _LONGEST_LINE else ""
        for start, end in self._blocks.line(plain):
            value = plain[start:end]
            if is_distinct(value) and len(self._values) < _MOST_VALUES:  # also without what stood between the cells
                self._values.setdefault(value, re.compile(re.escape(value)))

    def learn(self, text: str) -> None:
        """Remember the secrets in a text, found by their names."""
        plain = PlainText(text)
        named = named_spans(plain.text)
        rests = over_line_ends(plain.text, [*token_spans(plain.text), *named]) if "\n" in text else []
        self._remember(plain.text, [*rests, *named, *option_spans(plain.text), *url_spans(plain.text),
                                    *prose_spans(plain.text), *object_spans(plain.text)])

    def redact(self, text: str, mask: str = MASK) -> str:
        """Replace every secret in `text` with `mask`."""
        if mask != MASK or len(text) > _LONGEST_REMEMBERED:
            return _until_stable(text, self.spans, mask)
        self._learn_pending()
        if self._redacted_with != len(self._values) or len(self._redacted) >= _MOST_REMEMBERED:
            self._redacted, self._redacted_with = {}, len(self._values)
        if text not in self._redacted:
            self._redacted[text] = _until_stable(text, self.spans, mask)
        return self._redacted[text]

    def spans(self, text: str) -> list[Span]:
        """Return the secrets in `text`."""
        self._learn_pending()
        plain = PlainText(text)
        found = find(plain.text)
        self._remember(plain.text, found)
        for pattern in self._values.values():
            found += [Span(match.start(), match.end(), "") for match in pattern.finditer(plain.text)]
        return [plain.original(span) for span in found]

    def _remember(self, text: str, found: list[Span]) -> None:
        for span in found:
            value = _unquoted(text[span.start : span.end].strip("\"'\\ \t\r\n,"))
            if not span.repeats or len(self._values) >= _MOST_VALUES or value in self._values:
                continue
            if is_distinct(value) or (span.kind == "password" and compiled(_OWN_WORD).fullmatch(value)):
                self._values[value] = _anywhere(value)


def _unquoted(value: str) -> str:
    """Return a value without the escapes that a shell or Python puts before quotes in it."""
    return value.replace("'\\''", "'").replace("\\'", "'").replace('\\"', '"') if "\\" in value else value


def is_distinct(value: str) -> bool:
    """Return whether a value is a secret wherever it occurs, not a common word, number or path."""
    if not 6 <= len(value) <= _LONGEST_VALUE or value.isdigit() or compiled(HARMLESS).fullmatch(value):
        return False
    if "***" in value or "\n" in value or compiled(r"[/~.]?(?:[\w.-]+/)+[\w.-]*").fullmatch(value):
        return False
    kinds = sum(re.search(kind, value) is not None for kind in ("[A-Z]", "[a-z]", "[0-9]", "[^A-Za-z0-9]"))
    return kinds > 1 and (looks_random(value) or looks_generated(value)
                          or re.search(r"[0-9]|[^\w.-]", value) is not None)


def _anywhere(value: str) -> re.Pattern[str]:
    """Return the pattern of a value as written in text, HTML, JSON, URLs and hexadecimal digits.

    Word-like values match entire words. Of a value with letters beyond ASCII, which may be shown in the wrong encoding,
    the ASCII part is masked where it looks random.
    """
    data = value.encode()
    forms = dict.fromkeys((value, html.escape(value), json.dumps(value)[1:-1], quote(value, safe=""), data.hex(),
                           data.hex().upper(), "".join(f"%{byte:02X}" for byte in data)))
    if not value.isascii():
        forms |= dict.fromkeys(part for part in re.findall(r"[!-~]{8,}", value) if looks_random(part))
    pattern = "|".join(map(re.escape, forms))
    return re.compile(pattern if looks_random(value) else rf"(?<![A-Za-z0-9_])(?:{pattern})(?![A-Za-z0-9_])")


def find(text: str) -> list[Span]:
    """Return the secrets in a plain text, found by their names, places and shapes."""
    return list(_find_in_sentence(text)) if len(text) <= _SENTENCE else _find(text)


@lru_cache(maxsize=1024)
def _find_in_sentence(text: str) -> tuple[Span, ...]:
    """Do as `_find`: the sentences and commands of rules come again in every report of a fleet."""
    return tuple(_find(text))


def _find(text: str) -> list[Span]:
    found = [*key_spans(text), *url_spans(text), *named_spans(text), *option_spans(text), *token_spans(text),
             *prose_spans(text), *block_spans(text)]
    if "\n" in text and (joined := unwrapped(text)) is not None:
        inner = joined.text
        spans = [*named_spans(inner), *option_spans(inner), *url_spans(inner), *token_spans(inner)]
        found += joined.across(spans)
    found += [Span(match.start(), match.end(), "") for match in compiled(_ENCODED).finditer(text)
              if (inner := decoded(match[0])) and (token_spans(inner) or url_spans(inner))]
    return [*found, *over_line_ends(text, found)]


def decoded(word: str) -> str:
    """Return the text that base64 encodes; empty if it encodes none."""
    try:
        text = base64.b64decode(word + "=" * (-len(word) % 4), validate=True).decode("ascii").strip()
    except ValueError:
        return ""
    return text if text.replace("\n", "").isprintable() else ""


def _spans(text: str) -> list[Span]:
    plain = PlainText(text)
    return [plain.original(span) for span in find(plain.text)]


def _until_stable(text: str, spans_of: Callable[[str], list[Span]], mask: str = MASK) -> str:
    """Mask `text` repeatedly: masking can expose another secret, when a quote now ends elsewhere."""
    for _ in range(3):
        before, text = text, masked(text, spans_of(text), mask)
        if text == before:
            break
    return text


def redact(text: str) -> str:
    """Replace every secret in `text` with `***`; applying it twice changes nothing more."""
    return _until_stable(text, _spans)


def secrets_in(text: str) -> tuple[str, ...]:
    """Return the kinds of unmasked secrets in `text`, sorted: `("api-key", "hf-token")`."""
    return tuple(sorted({span.kind for span in _spans(text) if span.kind}))
