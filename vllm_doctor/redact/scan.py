"""The values behind names that announce a secret, in every notation a log has.

`--api-key X`, `KEY=X`, `"key": "X"`, `('key', 'X')`, `name: key, value: X`, headers, lists. What can be no secret
stays: `None`, `${VARIABLE}`, a type in a line of source code, a word of a sentence.
"""

from __future__ import annotations

import re

from vllm_doctor.redact.names import LETTERS, NAME, Name, classify
from vllm_doctor.redact.patterns import MASK, compiled, looks_random

# After a name: its closing quote or bracket, then = or : or =>, or `"name": X, "value":`, or `, ` in pairs.
_SEPARATOR = r"""(?x)
(?:\\*["'`])? \]? [ \t]{0,80}
(?: ,?\s{0,40} \\*["']? \b value \\*["']? [ \t]{0,8} [:=] [ \t]*
  | (?:provided[ \t]{0,8})? (?: => | := | ==? | : (?!:) | %3[dD] ) [ \t]* (?:\n[ \t]*-[ \t]+)? )
"""
_PAIR = r"""\\*["']\s{0,40},\s{0,40}(?=\\*[bu]?\\*["'])"""  # ('name', 'value'  and  ["--flag", "value"
_SPACE = r"""(?:[ \t]{0,80}\\\r?\n[ \t]*|\n[ \t]*-[ \t]+|[ \t]+)(?![-\s|>&;<\[\])}\\])"""  # --flag value
_MORE = r"""[ \t]+(?![-|>&;<\\#\[(]|[0-9]?[>&])(?=\S)"""  # --api-key value value
_OPEN = r"""(?:[A-Za-z_.]{1,40}\()?[bBuUrRfF]?(\\*)(["'`])"""
_QUOTED = {
    '"': r'[^"\\\n]*(?:\\.[^"\\\n]*)*',
    "'": r"[^'\\\n]*(?:\\.[^'\\\n]*)*",
    "`": r"[^`\\\n]*(?:\\.[^`\\\n]*)*",
}
# A bare value goes on over punctuation when a word character follows that does not begin the next name=value.
_BARE = r"""(?x)
(?: [^\s,;&"'`<>|()\[\]{}\\]
  | [,;&] (?= [\w/+] ) (?! [\w.-]{1,64} \\*["']? [=:] )
  | [<>|()\[\]{}"'`\\] (?= [\w/+=] ) )+
"""
_DONE = r"\*\*\*(?![^\s,;&\"'`<>|()\[\]{}\\@])"  # masked already
# What stays of an Authorization header: its scheme. Those with parameters are masked whole.
_SCHEME = r"(?i)(?:bearer|basic|token|api-?key|key|negotiate|ntlm|splunk)[ \t]+"
_PARAMETERS = r"(?i)(?:digest|oauth|aws4-)[^'\n]*"
_COOKIES = r"[^\"'\n]+"

HARMLESS = r"""(?ix) ["'`<\[(]{0,2}
      (?: | none | null | nil | true | false | empty | redacted | hidden | masked | unset )
      ["'`>\])]{0,2}
    | [*.]{3,} | (?-i: \$[A-Z_][A-Z0-9_]* | \$\{[A-Z_][A-Z0-9_]*(?: [:?-].* )? \}? ) | \$\(?
    | <\ *(?:set\ to|your|redacted|hidden|unset|none)[^<>]{0,80}>?"""
# Source code in a traceback: a type, or a variable that is itself named after a secret. Never in quotes.
_CODE = r"""(?x) (?: str | bool | int | bytes | list | dict | Any | SecretStr | Optional | Union ) (?: \[ .* )?
    | os\.environ | os\.getenv
    | (?: self | args | config | cfg | model_config | settings )
      \. [a-z_.]{0,80} (?: key | token | secret | password )"""
_PROSE = frozenset({
    "an", "and", "are", "argument", "as", "at", "be", "but", "by", "can", "for", "from", "has", "if", "in", "is",
    "it", "may", "must", "not", "of", "on", "option", "or", "parameter", "set", "should", "that", "the", "then",
    "to", "was", "were", "when", "which", "will", "with", "without", "you", "your",
})


class Scan:
    """One pass over a text: finds names, masks the values after them."""

    def __init__(self, text: str, found: dict[str, None]) -> None:
        self._text = text
        self._found = found
        self._out: list[str] = []
        self._copied = 0
        self._line_end = -1

    def run(self) -> str:
        """The text with the values masked."""
        at = 0
        lower = self._text.lower()
        if len(lower) != len(self._text):  # some letters have a longer lower case; none of a name's
            lower = re.sub("[A-Z]+", lambda match: match[0].lower(), self._text)
        while match := compiled(NAME).search(lower, at):
            at = max(self._name(match), match.end())
        return "".join([*self._out, self._text[self._copied :]])

    def _name(self, match: re.Match[str]) -> int:
        text, end = self._text, match.end()
        low = max(match.start() - 64, 0)
        start = low + len(text[low : match.start()].rstrip(LETTERS))
        if text[start - 1 : start] == "\\" and text[start] in "nrt" and start < match.start():
            start += 1  # an escaped line end
        name = text[start:end]
        flag = name.startswith("--")
        before = text[max(start - 8, 0) : start]
        what = classify(name)
        if what is None:
            return end
        shell = flag or before.endswith(("ENV ", "setx "))
        if shell and (gap := compiled(_SPACE).match(text, end)):
            return self._words(gap.end(), what, name)
        quoted = before.endswith(('"', "'"))
        if (flag or (quoted and before.rstrip("bu\"'\\").endswith(("(", ")")))) and (
            pair := compiled(_PAIR).match(text, end)
        ):
            return self._value(pair.end(), what, name, explicit=True, flag=flag)
        gap = compiled(_SEPARATOR).match(text, end)
        if gap is None:
            return end
        bare = name.lower() in {"token", "tokens"}
        explicit = (
            flag or (bare and (quoted or "=" in gap[0] or "value" in gap[0])) or (name.isupper() and "=" in gap[0])
        )
        return self._value(gap.end(), what, name, explicit=explicit, flag=flag)

    def _words(self, at: int, what: Name, name: str) -> int:
        """The value of `--hf-token a`, all of `--api-key a b`: up to the next flag, operator or end."""
        several = name.lower().replace("_", "-") == "--api-key"
        while True:
            copied = self._copied
            end = self._value(at, what, name, explicit=True, flag=True, prose=True)
            more = compiled(_MORE).match(self._text, end) if several and self._copied > copied else None
            if more is None:
                return end
            at = more.end()

    def _items(self, at: int, what: Name, name: str, *, explicit: bool) -> int:
        """The items of a list, a tuple or a dict."""
        text = self._text
        while gap := compiled(r"[\[({,\s]{1,400}(?=[^\s\[({,\])}])").match(text, at):
            at = max(self._value(gap.end(), what, name, explicit=explicit, flag=True), gap.end() + 1)
            if not (comma := compiled(r"\s{0,400}(?=,)").match(text, at)):
                break
            at = comma.end()
        return at

    def _value(self, at: int, what: Name, name: str, *, explicit: bool, flag: bool, prose: bool = False) -> int:
        """Mask the value that begins at `at`; where to go on."""
        text = self._text
        if not flag and text[at : at + 1] in {"[", "(", "{"}:
            return self._items(at, what, name, explicit=explicit) if what.sure or explicit else at
        if done := compiled(_DONE).match(text, at):
            return done.end()
        if opened := compiled(_OPEN).match(text, at):
            start, end, close = self._quoted(opened)
            explicit = explicit or (name.lower() == "token" and end - start >= 8)
            if what.kind == "bearer" and (scheme := compiled(_SCHEME).match(text, start, end)):
                start = scheme.end()
        elif (hint := compiled(r"<[^<>\n]{1,80}>").match(text, at)) and compiled(HARMLESS).fullmatch(hint[0]):
            return hint.end()
        elif what.kind == "bearer" and (whole := self._header(at, name)):
            return self._mask(at, whole.end(), what)
        else:
            scheme = compiled(_SCHEME).match(text, at) if what.kind == "bearer" else None
            start = scheme.end() if scheme else at
            bare = compiled(_BARE).match(text, start)
            if bare is None:
                return start
            end = close = bare.end()
            if text[end : end + 1] == "(" and bare[0].islower():  # a call in a line of source code
                return end
        if self._stays(text[start:end], what, name, explicit=explicit, prose=prose, quoted=bool(opened)):
            return close
        self._mask(start, end, what)
        return close

    def _header(self, at: int, name: str) -> re.Match[str] | None:
        """The whole of a header's value where no part of it may stay."""
        pattern = _COOKIES if name.lower().rstrip("s").endswith("cookie") else _PARAMETERS
        return compiled(pattern).match(self._text, at)

    def _quoted(self, opened: re.Match[str]) -> tuple[int, int, int]:
        """(start, end, after the closing quote) of a quoted value; without that quote: to the line's end."""
        text, start = self._text, opened.end()
        if not opened[1]:
            inner = compiled(_QUOTED[opened[2]]).match(text, start)
            end = inner.end() if inner else start
            return start, end, min(end + 1, len(text))
        if start > self._line_end:
            newline = text.find("\n", start)
            self._line_end = newline if newline >= 0 else len(text)
        delimiter = opened[1] + opened[2]
        end = text.find(delimiter, start, self._line_end)
        if end < 0:
            return start, self._line_end, self._line_end
        return start, end, end + len(delimiter)

    @staticmethod
    def _stays(value: str, what: Name, name: str, *, explicit: bool, prose: bool, quoted: bool) -> bool:
        if len(value) <= 120 and compiled(HARMLESS).fullmatch(value):
            return True
        if not quoted and compiled(_CODE).fullmatch(value):
            return True
        if value.lower().replace("-", "_") == name.lower().replace("-", "_").lstrip("_"):
            return True  # token=token, [--api-key API_KEY]
        if prose and not quoted and value.lower().rstrip(".,:") in _PROSE:
            return True
        if what.sure:
            return False
        text_of_a_model = value.isdigit() or value.startswith(("<", "[")) or "|>" in value
        path = value.startswith(("/", "./", "~"))
        return text_of_a_model or path or not (explicit or looks_random(value))

    def _mask(self, start: int, end: int, what: Name) -> int:
        self._found[what.kind] = None
        self._out += [self._text[self._copied : start], MASK]
        self._copied = end
        return end
