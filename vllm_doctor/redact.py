"""Mask secrets in text that leaves the tool, and make such text safe to print.

A secret is known by its shape, wherever it stands (`sk-...`, `hf_...`, a private key, a URL's password), or
by the name before it (`api_key='...'`, `--hf-token X`, `"password": "..."`, `VLLM_API_KEY=...`). In doubt it is
masked: a report can do without a word, a user can't do without the key. What follows a name that only sounds
secret (`pad_token`, `num_tokens`) stays.

Every pattern is anchored or bounded and every scan goes forward only: the time is linear in the text. Masking
never removes a newline.
"""

from __future__ import annotations

import re
import string
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MASK = "***"

# ---- by shape

_EDGE = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"  # the start of a word, also after an escaped line end


class _Shape(NamedTuple):
    kind: str
    cues: tuple[str, ...]  # one of them stands in the text, else the pattern is not tried
    pattern: str  # group 1 stays, group 2 is masked
    is_secret: Callable[[str], bool] = lambda _value: True


def _looks_random(value: str) -> bool:
    """A generated value rather than a word, a path or a number."""
    letters = re.search("[A-Za-z]", value) is not None
    digits = re.search("[0-9]", value) is not None
    mixed = value.lower() != value != value.upper()
    return letters and digits and (len(value) >= 16 or (len(value) >= 8 and mixed))


def _is_bearer(value: str) -> bool:
    return len(value) >= 20 or re.search("[0-9]", value) is not None


def _is_hf_token(value: str) -> bool:
    """`hf_transfer` and `hf_overrides` are names; tokens are 34 letters and digits, made-up ones shorter."""
    return len(value) >= 20 or re.search("[A-Z0-9]", value) is not None


def _is_key_material(line: str) -> bool:
    """Base64 as in a key file: all three classes of characters; a hexadecimal hash has two."""
    return all(re.search(some, line) for some in ("[A-Z]", "[a-z]", "[0-9+/]")) and not line.startswith("/")


_SHAPES = (
    _Shape("hf-token", ("hf_",), r"(hf_)([A-Za-z0-9]{30,})"),
    _Shape("hf-token", ("hf_",), _EDGE + r"(hf_)([A-Za-z0-9]{8,})(?![A-Za-z0-9_])", _is_hf_token),
    _Shape("hf-token", ("api_org_",), r"(api_org_)([A-Za-z0-9]{8,})"),
    _Shape("api-key", ("sk-",), _EDGE + r"(sk-)((?!learn)[A-Za-z0-9_-]{8,})"),
    _Shape("api-key", ("gsk_", "nvapi-", "pplx-", "xai-"), _EDGE + r"(gsk_|nvapi-|pplx-|xai-)([\w-]{16,})"),
    _Shape("aws-key", ("AKIA", "ASIA"), _EDGE + r"(AKIA|ASIA)([A-Z0-9]{12,})"),
    _Shape("gcp-key", ("AIza",), _EDGE + r"(AIza)([\w-]{20,})"),
    _Shape("gcp-key", ("ya29.", "GOCSPX-"), _EDGE + r"(ya29\.|GOCSPX-)([\w.-]{16,})"),
    _Shape("github-token", ("gh", "github_pat_"), _EDGE + r"(gh[opsur]_|github_pat_)([A-Za-z0-9_]{16,})"),
    _Shape("gitlab-token", ("glpat-",), _EDGE + r"(glpat-)([\w-]{10,})"),
    _Shape("slack-token", ("xox", "xapp-"), _EDGE + r"(xox[a-z]-|xapp-)([A-Za-z0-9-]{8,})"),
    _Shape("slack-token", ("hooks.slack.com",), r"(hooks\.slack\.com/[a-z]{1,16}/)([\w/-]{8,})"),
    _Shape("registry-token", ("pypi-", "npm_", "dckr_pat_"), _EDGE + r"(pypi-|npm_|dckr_pat_)([\w-]{20,})"),
    _Shape("wandb-key", ("wandb",), r"(wandb login (?:--relogin )?|wandb_v1_)([\w-]{20,})"),
    _Shape("jwt", ("eyJ",), r"(?:(?<![\w.-])|(?<=\\[nrt]))(eyJ)([\w-]{8,}(?:\.[\w-]*)*)"),
    _Shape("bearer", ("earer", "EARER"),
           r"(\b[Bb](?:earer|EARER)(?:[ \t]+|%20|\+))([\w.~+/=%-]{6,})", _is_bearer),
    _Shape("azure-key", ("ig", "IG"),
           r"(?i)((?:[?&;]|u0026)(?:x-(?:amz|goog)-)?sig(?:nature)?=)([^&\s\"'<>\\]{6,})"),
    _Shape("password", ("-u", "--user"),
           r"((?<![\w-])(?:-u|--user)[ =][\"']?(?![0-9]+:[0-9])[^\s:\"']{1,64}:)([^\s\"']+)"),
    _Shape("watermark-key", ("watermark",),
           r"(watermark[^\n]{0,200}?\bkey\\?[\"']?(?:[:=]|\s)\s{0,4})([0-9]+)"),
    _Shape("private-key", (), r"(?m)(^[ \t>|]*)([A-Za-z0-9+/]{40,}={0,2})(?=[ \t\r]*$)", _is_key_material),
    _Shape("private-key", (),  # a line of a key file behind a log prefix: 64, 70 or 76 characters
           r"(?<![\w+/=.-])()([A-Za-z0-9+/]{64}(?:[A-Za-z0-9+/]{6}){0,2})(?![\w+/=.-])", _is_key_material),
)  # fmt: skip


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _mask_shapes(text: str, found: dict[str, None]) -> str:
    for shape in _SHAPES:
        if shape.cues and not any(cue in text for cue in shape.cues):
            continue

        def masked(match: re.Match[str], shape: _Shape = shape) -> str:
            if not shape.is_secret(match[2]):
                return match[0]
            if shape.cues:  # a lone line of base64 is masked, but no proof of a key
                found[shape.kind] = None
            return match[1] + MASK

        text = _compiled(shape.pattern).sub(masked, text)
    return text


# ---- private keys

_PEM_BEGIN = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_PEM_END = r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_PEM_LINE = r"[ \t>|]*(?:[A-Za-z0-9+/=]{1,100}|Proc-Type:.*|DEK-Info:.*|Version:.*|)[ \t\r]*"
_PEM_LIMIT = 16_384  # characters; a longer block is no key


def _mask_pem(text: str, found: dict[str, None]) -> str:
    if "PRIVATE KEY" not in text:
        return text
    out: list[str] = []
    at = 0
    while begin := _compiled(_PEM_BEGIN).search(text, at):
        found["private-key"] = None
        out.append(text[at : begin.end()])
        end = _compiled(_PEM_END).search(text, begin.end(), begin.end() + _PEM_LIMIT)
        at = end.start() if end else _cut_pem_end(text, begin.end())
        body = text[begin.end() : at].split("\n")
        out.append("\n".join(MASK if line.strip() else line for line in body))
    out.append(text[at:])
    return "".join(out)


def _cut_pem_end(text: str, at: int) -> int:
    """Where a key whose end is missing stops: at the first line that can't be part of it."""
    newline = text.find("\n", at)
    while newline >= 0:
        following = text.find("\n", newline + 1)
        line = text[newline + 1 : following if following >= 0 else len(text)]
        if len(line) > 200 or not _compiled(_PEM_LINE).fullmatch(line):
            return newline
        newline = following
    return len(text)


# ---- the passwords of URLs


def _mask_urls(text: str, found: dict[str, None]) -> str:
    out: list[str] = []
    at, copied, following = 0, 0, text.find("://")
    while following >= 0:
        at = following + 3
        following = text.find("://", at)
        run = _compiled(r"(?:[^\s\"'<>`\\]|\\(?![\"']))*").match(text, at, following if following >= 0 else len(text))
        url = run[0] if run else ""
        authority = _compiled(r"[^/?#]*").match(url)[0]  # type: ignore[index]
        user, colon, rest = authority.partition(":")
        if "@" in authority:
            last = authority.rfind("@")
        elif colon and not rest.isdigit():  # the password holds a slash, as AWS keys do; a port does not
            last = url.rfind("@")
        else:
            last = -1
        if last > 0:
            first = len(user) + 1 if colon and len(user) < last else 0
            secret = url[first:last]
            if secret and (secret != MASK) and (first or _looks_random(secret)):
                found["url-password"] = None
                out += [text[copied : at + first], MASK]
                copied = at + last
    return "".join([*out, text[copied:]])


# ---- by name

_LETTERS = string.ascii_letters + string.digits + "_-"  # of names
_NAME = r"""(?x)
(?: secret[ _-]?access[ _-]?key | access[ _-]?key(?:[ _-]?id)? | api[ _.-]?key
  | (?:secret|private|account|shared|signing|encryption|master|auth|subscription)[ _-]?key(?:[_-]?id)?
  | secret | pass(?:word|wd|phrase) | (?<=[_;-])(?:pwd|pass) | token | credential | sharedaccesssignature
  | authorization | cookie )
s? (?:_?[0-9]{1,2})? (?![A-Za-z0-9_-])
"""
_CUES = ("key", "secret", "pass", "pwd", "token", "credential", "auth", "cookie", "sharedaccess")

# The word before `token` that makes it a credential; or a piece of text. Others: a value that looks random is
# masked.
_CREDENTIAL_OF = (
    r"hf|hub|huggingface|face|auth|authentication|access|api|session|security|refresh|id|bearer|gh|github|"
    r"gitlab|git|oauth|oauth2|personal|pat|app|service|registry|modelscope|wandb|replicate|vault|jwt|"
    r"sas|deploy|admin|login|seed|ngc|nvidia|docker|npm|pypi|slack|telegram|discord|join|bootstrap|csrf|"
    r"xsrf|client|secret|private|ray"
)
_PIECE_OF_TEXT = (
    r"pad|bos|eos|unk|sep|cls|mask|image|video|audio|vision|per|next|first|last|stop|start|end|begin|"
    r"think|thinking|special|added|extra|prompt|output|input|decoded|decode|prefill|new|num|max|min|"
    r"context|draft|sampled|generated|tool|placeholder|bad|boi|eoi|eot|n|idx|step|valid|response|"
    r"special|class|prefix|suffix|media|add|use"
)

_LOGIN_OF = r"db|user|admin|root|mysql|postgres|pg|redis|smtp|ftp|mongo|proxy|http|ssl|key|auth|login"
_OWNERS = {
    **dict.fromkeys(("hf", "huggingface", "hugging", "hub"), "hf-token"),
    **dict.fromkeys(("aws", "amz", "s3"), "aws-key"),
    "azure": "azure-key",
    "gcp": "gcp-key",
    "wandb": "wandb-key",
}
_KEYS = {  # a part of the name -> the kind
    "account": "azure-key",
    "sharedaccess": "azure-key",
    "accesskey": "aws-key",
    "private": "private-key",
    "apikey": "api-key",
    "secret": "secret",
}

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

_HARMLESS = r"""(?ix) ["'`<\[(]{0,2}
      (?: | none | null | nil | true | false | empty | redacted | hidden | masked | unset )
      ["'`>\])]{0,2}
    | [*.]{3,} | (?-i: \$[A-Z_][A-Z0-9_]* | \$\{[A-Z_][A-Z0-9_]*(?: [:?-].* )? \}? ) | \$\(?
    | <\ *(?:set\ to|your|redacted|hidden|unset|none)[^<>]{0,80}>?"""
# Source code in a traceback: a type, or a variable that is itself named after a secret. Never in quotes.
_CODE = r"""(?x) (?: str | bool | int | bytes | list | dict | Any | SecretStr | Optional | Union ) (?: \[ .* )?
    | os\.environ | os\.getenv
    | (?: self | args | config | cfg | model_config | settings )
      \. [a-z_.]{0,80} (?: key | token | secret | password )"""
_PROSE = (
    r"an|and|are|argument|as|at|be|but|by|can|for|from|has|if|in|is|it|may|must|not|of|on|option|or|"
    r"parameter|set|should|that|the|then|to|was|were|when|which|will|with|without|you|your"
)


def _is(word: str, words: str) -> bool:
    return _compiled(words).fullmatch(word) is not None


class _Name(NamedTuple):
    kind: str
    sure: bool  # else only a value that looks random is masked


def _classify(name: str) -> _Name | None:
    """What a name (`--hf-token`, `VLLM_API_KEY`, `accessToken`) announces; None when nothing secret."""
    words = [
        word
        for word in re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name[-80:]).lower())
        if word and not word.isdigit()
    ]
    if not words:
        return None
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    joined = "".join(words)
    kind = next((_OWNERS[word] for word in words if word in _OWNERS), "")
    if token := re.search("tokens?$", last):
        before = last[: token.start()] or before
        if _is(before, _PIECE_OF_TEXT) or (last.endswith("s") and not _is(before, _CREDENTIAL_OF)):
            return None
        return _Name(kind or "token", sure=_is(before, _CREDENTIAL_OF) or (name.isupper() and before != ""))
    if last == "pass" and not _is(before, _LOGIN_OF):
        return None
    if last.startswith(("pass", "pwd")) or "passw" in last:
        return _Name("password", sure=True)
    if last.startswith("credential"):
        return _Name(kind or "secret", sure=False)
    if last in {"authorization", "cookie", "cookies"}:
        return _Name("bearer", sure=True)
    return _Name(kind or next((_KEYS[part] for part in _KEYS if part in joined), "api-key"), sure=True)


class _Scan:
    """One pass over a text: finds names, masks the values after them."""

    def __init__(self, text: str, found: dict[str, None]) -> None:
        self._text = text
        self._found = found
        self._out: list[str] = []
        self._copied = 0
        self._line_end = -1

    def run(self) -> str:
        at = 0
        lower = self._text.lower()
        if len(lower) != len(self._text):  # some letters have a longer lower case; none of a name's
            lower = re.sub("[A-Z]+", lambda match: match[0].lower(), self._text)
        while match := _compiled(_NAME).search(lower, at):
            at = max(self._name(match), match.end())
        return "".join([*self._out, self._text[self._copied :]])

    def _name(self, match: re.Match[str]) -> int:
        text, end = self._text, match.end()
        low = max(match.start() - 64, 0)
        start = low + len(text[low : match.start()].rstrip(_LETTERS))
        if text[start - 1 : start] == "\\" and text[start] in "nrt" and start < match.start():
            start += 1  # an escaped line end
        name = text[start:end]
        flag = name.startswith("--")
        before = text[max(start - 8, 0) : start]
        what = _classify(name)
        if what is None:
            return end
        shell = flag or before.endswith(("ENV ", "setx "))
        if shell and (gap := _compiled(_SPACE).match(text, end)):
            return self._words(gap.end(), what, name)
        quoted = before.endswith(('"', "'"))
        if (flag or (quoted and before.rstrip("bu\"'\\").endswith(("(", ")")))) and (
            pair := _compiled(_PAIR).match(text, end)
        ):
            return self._value(pair.end(), what, name, explicit=True, flag=flag)
        gap = _compiled(_SEPARATOR).match(text, end)
        if gap is None:
            return end
        bare = name.lower() in {"token", "tokens"}
        explicit = (
            flag or (bare and (quoted or "=" in gap[0] or "value" in gap[0])) or (name.isupper() and "=" in gap[0])
        )
        return self._value(gap.end(), what, name, explicit=explicit, flag=flag)

    def _words(self, at: int, what: _Name, name: str) -> int:
        """The value of `--hf-token a`, all of `--api-key a b`: up to the next flag, operator or end."""
        several = name.lower().replace("_", "-") == "--api-key"
        while True:
            copied = self._copied
            end = self._value(at, what, name, explicit=True, flag=True, prose=True)
            more = _compiled(_MORE).match(self._text, end) if several and self._copied > copied else None
            if more is None:
                return end
            at = more.end()

    def _items(self, at: int, what: _Name, name: str, *, explicit: bool) -> int:
        """The items of a list, a tuple or a dict."""
        text = self._text
        while gap := _compiled(r"[\[({,\s]{1,400}(?=[^\s\[({,\])}])").match(text, at):
            at = max(self._value(gap.end(), what, name, explicit=explicit, flag=True), gap.end() + 1)
            if not (comma := _compiled(r"\s{0,400}(?=,)").match(text, at)):
                break
            at = comma.end()
        return at

    def _value(self, at: int, what: _Name, name: str, *, explicit: bool, flag: bool, prose: bool = False) -> int:
        """Mask the value that begins at `at`; where to go on."""
        text = self._text
        if not flag and text[at : at + 1] in {"[", "(", "{"}:
            return self._items(at, what, name, explicit=explicit) if what.sure or explicit else at
        if done := _compiled(_DONE).match(text, at):
            return done.end()
        if opened := _compiled(_OPEN).match(text, at):
            start, end, close = self._quoted(opened)
            explicit = explicit or (name.lower() == "token" and end - start >= 8)
            if what.kind == "bearer" and (scheme := _compiled(_SCHEME).match(text, start, end)):
                start = scheme.end()
        elif (hint := _compiled(r"<[^<>\n]{1,80}>").match(text, at)) and _compiled(_HARMLESS).fullmatch(hint[0]):
            return hint.end()
        elif what.kind == "bearer" and (whole := self._header(at, name)):
            return self._mask(at, whole.end(), what)
        else:
            scheme = _compiled(_SCHEME).match(text, at) if what.kind == "bearer" else None
            start = scheme.end() if scheme else at
            bare = _compiled(_BARE).match(text, start)
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
        return _compiled(pattern).match(self._text, at)

    def _quoted(self, opened: re.Match[str]) -> tuple[int, int, int]:
        """(start, end, after the closing quote) of a quoted value; without that quote: to the line's end."""
        text, start = self._text, opened.end()
        if not opened[1]:
            inner = _compiled(_QUOTED[opened[2]]).match(text, start)
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
    def _stays(value: str, what: _Name, name: str, *, explicit: bool, prose: bool, quoted: bool) -> bool:
        if len(value) <= 120 and _compiled(_HARMLESS).fullmatch(value):
            return True
        if not quoted and _compiled(_CODE).fullmatch(value):
            return True
        if value.lower().replace("-", "_") == name.lower().replace("-", "_").lstrip("_"):
            return True  # token=token, [--api-key API_KEY]
        if prose and not quoted and _is(value.lower().rstrip(".,:"), _PROSE):
            return True
        if what.sure:
            return False
        text_of_a_model = value.isdigit() or value.startswith(("<", "[")) or "|>" in value
        path = value.startswith(("/", "./", "~"))
        return text_of_a_model or path or not (explicit or _looks_random(value))

    def _mask(self, start: int, end: int, what: _Name) -> int:
        self._found[what.kind] = None
        self._out += [self._text[self._copied : start], MASK]
        self._copied = end
        return end


# ---- what others call


def _masked(text: str, found: dict[str, None]) -> str:
    text = _mask_urls(_mask_pem(text, found), found)
    lower = text.lower()
    if any(cue in lower for cue in _CUES):
        text = _Scan(text, found).run()
    return _mask_shapes(text, found)


def redact(text: str) -> str:
    """`text` with `***` in the place of every secret; applied twice it changes nothing more."""
    return _masked(text, {})


def redact_lines(lines: Iterable[str]) -> Iterator[str]:
    """As `redact`, line by line, but private keys that span lines are followed from BEGIN to END."""
    left = 0  # lines
    for line in lines:
        if left and not re.search(_PEM_END, line):
            left -= 1
            yield MASK + line[len(line.rstrip("\r\n")) :] if line.strip() else line
            continue
        left = 200 if re.search(_PEM_BEGIN, line) and not re.search(_PEM_END, line) else 0
        yield redact(line)


def secrets_in(text: str) -> tuple[str, ...]:
    """The kinds of secrets that stand unmasked in `text`, sorted: `("api-key", "hf-token")`."""
    found: dict[str, None] = {}
    _masked(text, found)
    return tuple(sorted(found))


def redact_value(value: Any) -> Any:
    """A redacted copy of nested dicts, lists, tuples and strings; a key `api_key` masks all that it holds."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        named = _announces(value.get("name"), "") and "value" in value
        return {
            (redact(key) if isinstance(key, str) else key): (
                _mask_all(item) if _announces(key, item) or (named and key == "value") else redact_value(item)
            )
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        items = [
            _mask_all(item) if index and _is_flag(value[index - 1], item) else redact_value(item)
            for index, item in enumerate(value)
        ]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _announces(key: object, item: object) -> bool:
    """Whether `key` is the name of a secret and `item` may be one."""
    if not isinstance(key, str) or not _compiled(_NAME + r"\Z").search(key[-60:].lower()):
        return False
    what = _classify(key)
    return what is not None and (what.sure or (key.lower() == "token" and isinstance(item, str)))


def _is_flag(before: object, item: object) -> bool:
    """Whether `before` and `item` are `--api-key` and its value in a list of arguments."""
    flag = isinstance(before, str) and before.startswith("--") and _announces(before, item)
    return flag and isinstance(item, str) and not item.startswith("-")


def _mask_all(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, dict):
        return {key: _mask_all(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_mask_all(item) for item in value)
    return value if isinstance(value, str) and len(value) <= 120 and _compiled(_HARMLESS).fullmatch(value) else MASK


# Control characters (but newline and tab), direction marks, invisible separators and tags, lone surrogates.
_UNSAFE = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def safe_text(text: str) -> str:
    """`text` with what a terminal would obey (or hide) shown as `<U+001B>`; newlines and tabs stay."""
    return _compiled(_UNSAFE).sub(lambda match: f"<U+{ord(match[0]):04X}>", text)
