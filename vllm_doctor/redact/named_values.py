"""The values behind names that announce a secret, in every notation a log has.

`--api-key X`, `KEY=X`, `"key": "X"`, `('key', 'X')`, `name: key, value: X`, `${KEY:-X}`, headers, lists. What can be
no secret stays: `None`, `${VARIABLE}`, a type in a line of source code, a word of a sentence.
"""

from __future__ import annotations

import re

from vllm_doctor.redact.quoting import BARE, Value, ValueReader
from vllm_doctor.redact.secret_names import CUES, LETTERS, NAME, Name, classify
from vllm_doctor.redact.sentences import looks_chosen
from vllm_doctor.redact.spans import Span, compiled, looks_random

# What Kubernetes, Docker or Compose puts before a line.
SHIPPED = (r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,20}(?:Z|[+-][0-9:]{5})[ ](?:std(?:out|err)[ ][FP][ ])?"
           r"|[a-z][\w.-]{0,60}[ ]{1,8}\|[ ])")
# After a name: its closing quote or bracket, then = or : or =>, or `"name": X, "value":`.
_SEPARATOR = r"""(?x)
(?:\\*["'`])? \]? [ \t]{0,80}
(?: </key> \s{0,40} <string>
  | [ \t]{0,8} \{ \s{0,40} (?: default | value ) [ \t]{0,8} = [ \t]*
  | ,?\s{0,40} (?: (?<=\n) SHIPPED [ \t-]{0,40} )? \\*["']? \b value \\*["']? [ \t]{0,8} [:=] [ \t]*
  | (?:provided[ \t]{0,8})? (?: => | := | ==? | : (?!:) | %3[dD]
      | -> | → | [是为為は] [ \t]{0,4} :? (?= [ \t]{0,4} ["'!-~] ) ) [ \t]*
    (?: [|>][+-]?[ \t]*\n[ \t]* | \n[ \t]*-[ \t]+ | \n\s{0,80}(?=\\*["'])
      | \n[ \t]{2,80}(?=[\w+/=.~-]{8,200}[ \t\r]{0,8}(?:\n|$))(?=[^\n0-9]{0,200}[0-9]) )?
    (?: (?: & | !!? ) [\w-]{1,40} [ \t]{1,8} )?
    (?: invalid [ ] (?: \w{1,12} [ ] )? (?: value | choice ) :? [ ] (?=\\*["']) )? )
""".replace("SHIPPED", SHIPPED)
# The type behind a name in source code, up to its value.
_TYPE = r"""[A-Za-z][\w.]{0,40}(?:\[[\w, .|\[\]]{0,60}\])?(?:[ ]\|[ ][\w.]{1,40}){0,4}[ ]=[ ](?=["'])"""
_PAIR = r"""\\*["']\s{0,40},\s{0,40}(?=\\*(?:[bu]\\*)?["'])"""  # ('name', 'value'  and  ["--flag", "value"
_QUOTED_PAIR = r"""\\*["'][ ]{1,4}(?=\\*["'][^\s"'\\]{6,200}\\*["'])"""  # "name" "value"
# --flag value
_SPACE = r"""(?:\\*["'])?(?:[ \t]{0,80}[\\`^]\r?\n[ \t]*|\n[ \t]*-[ \t]+|[ \t]+)(?![-\s|>&;<\[\])}]|\\\s|\\*["']?$)"""
_ARRAY_ITEM = r"[ \t(]{1,8}\[[\w-]{1,40}\]=(?=\S)"
_DEEPEST = 32  # nested brackets whose items are told apart
_MORE = r"""[ \t]+(?![-|>&;<\\#\[(]|[0-9]?[>&])(?=\S)"""  # --api-key value value
_DEFAULT = r":?[-=+](?=[^\s}])"  # ${KEY:-X}
_EXPANSION = r"\$\{[A-Za-z_][A-Za-z0-9_]{0,80}:?[-=+](?=[^\s}])"
_ECHO = r"""(?:\\*["'])?(?:\$\(|`)[ \t]*(?:echo|printf)(?:[ \t]+-[a-zA-Z]+|[ \t]+["']?%[^\s]{1,8})*[ \t]+(?=\S)"""
# password is X; | api_key | X |; <password>X
_LOOSE = r"""(?xi)
(?: [ \t]{1,40} (?: (?: is | was | are | of | with | \| ) [ \t]{1,40} )? | [ \t]{0,40} \| [ \t]{0,40} | > | \n )
["'`]? (?= [\w/+=.~-]{8} )"""
_TYPED = r""">|\((?=["'])"""  # <password>X; ApiKey("X")
# Masked already, or a sentence of argparse.
_DONE = (r"\*\*\*(?![^\s,;&\"'`<>|()\[\]{}\\@])"
         r"|expected\s{1,16}(?:at\s{1,16}least\s{1,16})?\w{1,8}\s{1,16}arguments?\b|not\s{1,16}allowed\s{1,16}with\s{1,16}argument\b")
# What stays of an Authorization header: its scheme. Those with parameters are masked whole.
_SCHEME = (r"(?i)(?:(?:bearer|basic|token|api-?key|key|negotiate|ntlm|splunk)[ \t]+"
           r"|[a-z][a-z-]{2,24}[ \t]+(?=[\w+/.~-]{16,400}=?=?(?![\w+/=.~-]))(?=[^\s0-9]{0,100}[0-9]))")
_SIGNATURE = r"(?i)\b(?:signature|response)=\"?([\w+/=-]{16,200})"
_PARAMETERS = r"(?i)(?:digest|oauth|aws4-)[^'\n]*"
_COOKIES = r"[^\"'\n]+"
_VALUE_BEFORE = r"""(?x) \b value \\*["']? [ \t]{0,8} [:=] [ \t]{0,8} (\\*["']?) (?= ([^\s"'\\,{}]{1,200}) ) \2 \1
(?: ,\s{0,40} | \s{1,40} (?: (?<=\n) SHIPPED [ \t-]{0,40} )? )
\\*["']? name \\*["']? [ \t]{0,8} [:=] [ \t]{0,8} \\*["']? $""".replace("SHIPPED", SHIPPED)

HARMLESS = r"""(?ix) ["'`<\[(]{0,2}
      (?: | none | null | nil | true | false | yes | no | empty | redacted | hidden | masked | unset )
      ["'`>\])]{0,2}
    | (?-i: (?:NEW|YOUR|MY)_[A-Z_]{0,40}(?:KEY|TOKEN|SECRET|PASSWORD) )
    | (?:[a-z]{2,8}[_-])?[*.]{3,} | (?-i: \$[A-Z_][A-Z0-9_]* ) | \$\(?
    | \$\{[A-Z_][A-Z0-9_]*\}? | \$\{[A-Z_][A-Z0-9_]*(?: :?[-=+]\}? | :?\?.* )
    | \$\((?:cat|head|tail|jq|kubectl|aws|gcloud|vault|op|pass|python3?|sed|awk|grep|tr)\ .* | \$\([<]?[/~].*
    | <\ *(?:set\ to|your|redacted|hidden|unset|none)[^<>]{0,80}>?"""
# Source code in a traceback: a type, or a variable that is itself named after a secret. Never in quotes.
SOURCE_CODE = r"""(?x) (?: str | bool | int | bytes | list | dict | Any | SecretStr | Optional | Union ) (?: \[ .* )?
    | os\.environ | os\.getenv
    | (?: self | args | config | cfg | model_config | settings )
      \. [a-z_.]{0,80} (?: key | token | secret | password )"""
_PROSE = frozenset({
    "an", "and", "are", "argument", "as", "at", "be", "but", "by", "can", "expects", "for", "from", "has", "if", "in",
    "instead", "is", "it", "may", "must", "needs", "not", "of", "on", "option", "or", "parameter", "requires", "set",
    "should", "takes", "that", "the", "then", "to", "was", "were", "when", "which", "will", "with", "without", "you",
    "your",
    "safe", "review", "manual", "安全", "需评估", "手动",  # behind the title of a fix, at the right
})


def named_spans(text: str) -> list[Span]:
    """Return the values that follow names of secrets in `text`."""
    lower = text.lower()
    if not any(cue in lower for cue in CUES):
        return []
    if len(lower) != len(text):  # some letters have a longer lower case; none of a name's
        lower = re.sub("[A-Z]+", lambda match: match[0].lower(), text)
    return _Scan(text, lower).run()


class _Scan:
    """One pass over a text, forward: finds names and the values after them."""

    def __init__(self, text: str, lower: str) -> None:
        self._text = text
        self._lower = lower
        self._values = ValueReader(text)
        self._found: list[Span] = []
        self._depth = 0  # of the brackets that are being read

    def run(self) -> list[Span]:
        """Return the values found."""
        at = 0
        while match := compiled(NAME).search(self._lower, at):
            at = max(self._name(match), match.end())
        return self._found

    def _name(self, match: re.Match[str]) -> int:
        text, end = self._text, match.end()
        low = max(match.start() - 64, 0)
        start = low + len(text[low : match.start()].rstrip(LETTERS))
        if text[start - 1 : start] == "\\" and text[start] in "nrt0" and start < match.start():
            start += 1  # an escaped line end
        name = text[start:end]
        what = classify(name)
        if what is None:
            return end
        is_flag = name.startswith("--")
        before = text[max(start - 48, 0) : start]
        if before.endswith("://"):  # who logs in: `url_secrets` reads on
            return end
        if before.endswith("${") and (gap := compiled(_DEFAULT).match(text, end)):
            return self._default(gap.end(), what)
        if is_flag or before.endswith(("ENV ", "setx ", "setenv ", "set -gx ", "set -x ", "configure set ")):
            gap = compiled(_SPACE).match(text, end)
            if gap and (text[end] not in "\"'" or text[gap.end()] not in ",:"):
                return self._words(gap.end(), what, name)
        if what.is_sure and (gap := compiled(_TYPED).match(text, end)) and (
            before.endswith("<") if gap[0] == ">" else name[0].isupper() and not name.isupper()
        ):
            return self._value(gap.end(), what, name, is_explicit=True, is_flag=is_flag)
        is_quoted = before.endswith(('"', "'"))
        if is_quoted and what.is_sure and (pair := compiled(_QUOTED_PAIR).match(text, end)):
            return self._value(pair.end(), what, name, is_explicit=True, is_flag=is_flag)
        if (is_flag or (is_quoted and before.rstrip("bu\"'\\").endswith(("(", ")", "[")))) and (
            pair := compiled(_PAIR).match(text, end)
        ):
            return self._value(pair.end(), what, name, is_explicit=True, is_flag=is_flag)
        gap = compiled(_SEPARATOR).match(text, end)
        if gap is None:
            if compiled(r"""name\\*["']?[ \t]*[:=][ \t]*\\*["']?$""").search(before):
                self._value_before(start, what)
            return self._loose_value(end, what)
        if text[gap.end() : gap.end() + 1] == "\n":
            return self._loose_value(gap.end(), what)
        if ":" in gap[0] and (typed := compiled(_TYPE).match(text, gap.end())):
            gap = typed
        is_bare = name.lower() in {"token", "tokens"}
        is_explicit = (
            is_flag or (is_bare and (is_quoted or "=" in gap[0] or "value" in gap[0]))
            or (name.isupper() and "=" in gap[0])
        )
        return self._value(gap.end(), what, name, is_explicit=is_explicit, is_flag=is_flag)

    def _loose_value(self, at: int, what: Name) -> int:
        """Record the value that only words or line ends separate from its name, if it looks random."""
        gap = compiled(_LOOSE).match(self._text, at)
        value = compiled(BARE).match(self._text, gap.end()) if gap else None
        if gap is None or value is None:
            return at
        word = value[0].partition("</")[0]  # the end of an XML element
        if not looks_random(word) or "/" in word.strip("/"):
            return at
        self._add(value.start(), value.start() + len(word), what)
        return value.end()

    def _value_before(self, start: int, what: Name) -> None:
        """Record the value in `value: X` before `name: HF_TOKEN`."""
        low = max(start - 300, 0)
        if match := compiled(_VALUE_BEFORE).search(self._text[low:start]):
            self._add(low + match.start(2), low + match.end(2), what)

    def _default(self, at: int, what: Name) -> int:
        """Record the X of `${KEY:-X}`, which may be nested; return where it ends."""
        depth, end = 1, at
        for match in compiled(r"\$\{|\}|\n").finditer(self._text, at, at + 400):
            depth += {"${": 1, "}": -1}.get(match[0], -depth)
            end = match.start()
            if depth == 0:
                break
        else:
            value = self._values.read(at)
            end = value.after if value else at
        inner = self._text[at:end].strip("\\\"'")
        if compiled(HARMLESS).fullmatch(inner[:200]):
            return end
        while (nested := compiled(_EXPANSION).match(self._text, at)) and nested.end() < end:
            at, end = nested.end(), end - 1
        if inner and inner != "***":
            self._add(at, end, what)
        return end

    def _words(self, at: int, what: Name, name: str) -> int:
        """Record the value of `--hf-token a`, all of `--api-key a b`, up to the next flag, operator or end."""
        several = name.lower().replace("_", "-") == "--api-key"
        while True:
            count = len(self._found)
            end = self._value(at, what, name, is_explicit=True, is_flag=True, is_prose=True)
            more = compiled(_MORE).match(self._text, end) if several and len(self._found) > count else None
            if more is None:
                return end
            at = more.end()

    def _container(self, at: int, what: Name, name: str, *, is_explicit: bool) -> int:
        """Record the values in brackets; in deeply nested ones, all that follows in the line."""
        if self._depth >= _DEEPEST or compiled(r"[\[({,\s]{400}").match(self._text, at):
            end = self._text.find("\n", at)
            end = len(self._text) if end < 0 else end
            self._add(at, end, what)
            return end
        if (first := compiled(_ARRAY_ITEM).match(text := self._text, at)) is not None:
            return self._array(first, text, what)
        self._depth += 1
        try:
            return self._items(at, what, name, is_explicit=is_explicit)
        finally:
            self._depth -= 1

    def _array(self, item: re.Match[str] | None, text: str, what: Name) -> int:
        """Record the items of a shell's array: `KEYS=([0]="a" [1]="b")`."""
        at = 0
        while item is not None and (value := self._values.read(item.end())) is not None:
            self._add(value.start, value.end, what)
            at = value.after
            item = compiled(_ARRAY_ITEM).match(text, at)
        return at

    def _items(self, at: int, what: Name, name: str, *, is_explicit: bool) -> int:
        """Record the items of a list or tuple, or the values of a dict."""
        text = self._text
        while gap := compiled(r"[\[({,\s]{1,400}(?=[^\s\[({,\])}])").match(text, at):
            count = len(self._found)
            at = max(self._value(gap.end(), what, name, is_explicit=is_explicit, is_flag=True), gap.end() + 1)
            if colon := compiled(r"""["']?[ \t]*:[ \t]*(?=\S)""").match(text, at):
                del self._found[count:]
                at = max(self._value(colon.end(), what, name, is_explicit=is_explicit, is_flag=False), colon.end())
            if not (comma := compiled(r"\s{0,400}(?=,)").match(text, at)):
                break
            at = comma.end()
        return at

    def _value(
        self, at: int, what: Name, name: str, *, is_explicit: bool, is_flag: bool, is_prose: bool = False
    ) -> int:
        """Record the value that begins at `at`; return where to continue."""
        text = self._text
        if not is_flag and text[at : at + 1] in {"[", "(", "{"}:
            is_meant = what.is_sure or is_explicit or what.kind in {"registry-token", "secret"}
            return self._container(at, what, name, is_explicit=is_explicit) if is_meant else at
        if done := compiled(_DONE).match(text, at):
            return done.end()
        if (hint := compiled(r"<[^<>\n]{1,80}>").match(text, at)) and compiled(HARMLESS).fullmatch(hint[0]):
            return hint.end()
        if expansion := compiled(rf"""(?:\\*["'])?{_EXPANSION}""").match(text, at):
            return self._default(expansion.end(), what) if what.is_sure or is_explicit else expansion.end()
        if (echo := compiled(_ECHO).match(text, at)) and (what.is_sure or is_explicit):
            at = echo.end()
        elif what.kind == "bearer" and (whole := self._header(at, name)):
            self._add(at, whole.end(), what)
            return whole.end()
        value = self._values.read(at)
        if value is None:
            return at
        if what.kind == "bearer" and (scheme := compiled(_SCHEME).match(text, value.start, value.end)):
            value = value._replace(start=scheme.end())
        elif what.kind == "bearer" and (scheme := compiled(_SCHEME).match(text, value.start)):
            value = self._values.read(scheme.end()) or value
        if not value.is_quoted and text[value.end : value.end + 1] == "(" and text[value.start : value.end].islower():
            return value.end  # a call in a line of source code
        if compiled(rf"[\w-]{{0,64}}(?:{NAME})[:=]").fullmatch(text[value.start : value.end].lower()[:100]):
            return value.start  # `password: api_key: X`
        is_explicit = is_explicit or (value.is_quoted and name.lower() == "token" and value.end - value.start >= 8)
        if not self._is_harmless(value, what, name, is_explicit=is_explicit, is_prose=is_prose):
            self._add(value.start, value.end, what)
        elif value.is_quoted and compiled(r"[{:=]").search(text, value.start, value.end):
            return value.start  # JSON in a string has names of its own
        return value.after

    def _header(self, at: int, name: str) -> re.Match[str] | None:
        """Return the match of a header value that must be masked completely; None for a quoted value."""
        if compiled(r"""[bBuU]?\\*["']""").match(self._text, at):
            return None
        pattern = _COOKIES if name.lower().rstrip("s").endswith("cookie") else _PARAMETERS
        return compiled(pattern).match(self._text, at)

    def _is_harmless(self, value: Value, what: Name, name: str, *, is_explicit: bool, is_prose: bool) -> bool:
        text = self._text[value.start : value.end]
        if len(text) <= 120 and compiled(HARMLESS).fullmatch(text):
            return True
        if not value.is_quoted and compiled(SOURCE_CODE).fullmatch(text):
            return True
        if text.lower().replace("-", "_") == name.lower().replace("-", "_").lstrip("_"):
            return True  # token=token, [--api-key API_KEY]
        if is_prose and not value.is_quoted and text.lower().rstrip(".,:") in _PROSE:
            return True
        if what.is_sure:
            return False
        if what.is_vague:
            return not looks_random(text) or text.startswith(("/", "./", "~"))
        if what.kind == "secret" and value.is_quoted and looks_chosen(text):  # credentials=("user", "X")
            return False
        is_text_of_a_model = text.isdigit() or text.startswith(("<", "[")) or "|>" in text
        is_path = text.startswith(("/", "./", "~"))
        return is_text_of_a_model or is_path or not (is_explicit or looks_random(text))

    def _add(self, start: int, end: int, what: Name) -> None:
        if end > start:
            self._found.append(Span(start, end, what.kind, repeats=True))
        if what.kind == "bearer":  # a signature in it may stand again without the rest
            self._found += [Span(part.start(1), part.end(1), what.kind, repeats=True)
                            for part in compiled(_SIGNATURE).finditer(self._text, start, end)]
