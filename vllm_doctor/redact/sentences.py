r"""Secrets in sentences and prompts: `password is X`, `invalid API key 'X'`, `expected X got Y`, `credentials a:X`.

What is quoted behind such a word is masked, else only what nobody writes in a sentence: letters with digits or signs
(`hunter2`), so that "password is required" stays. To add a wording, add a row to PLACES.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from vllm_doctor.redact.quoting import ValueReader
from vllm_doctor.redact.secret_names import NAME
from vllm_doctor.redact.spans import Span, compiled, looks_random

_NOUN = (r"(?:pass(?:word|wort|phrase|code|wd)|kennwort|mot[ ]de[ ]passe|contrase\xf1a|senha|wachtwoord"
         r"|(?:api|access|secret|subscription)[ _-]?key)s?")
_TOKENS = r"(?:hf|auth|access|api|bearer|session|csrf|refresh|secret|security)[ _-]?token"
CUES = ("pass", "wort", "contrase", "senha", "wachtwoord", "key", "credential", "login", "log in", "logg", "sign",
        "user", "token (", "secret (", "my token", "your token", "my secret", "your secret", "密", "令")
_ASKING = ("enter", "paste", "type", "input", "expected")  # what stands with a token
_VERB = (r"(?:[ \t]{1,4}(?:is|was|are|were|of|with|ist|lautet|est|es|è|é|value|provided|given|used|set[ ]to))")
_PAIR = r"[\w.@+-]{1,64}(?:[:/]|[ ]/[ ])(?=[^\s/:])"  # user:X, user/X

_AT_NOUN = rf"(?i)\b{_NOUN}"

# What stands right before the value.
PLACES: tuple[str, ...] = (
    rf"{_AT_NOUN}{_VERB}{{0,2}}(?:[ \t]{{0,4}}[:=])?[ \t]{{1,4}}[(\[]?(?=[^\s(\[])",
    rf"{_AT_NOUN}[ \t]{{0,4}}[(\[](?=[^\s(\[])",
    rf"(?i)\bcredentials?(?:[ \t]{{1,4}}(?:of|for|are|is|were|used))?[ \t:=]{{1,4}}[(\[\"']?{_PAIR}",
    rf"(?i)\b(?:log(?:ged|ging)?|sign(?:ed|ing)?)[ _-]?(?:in|on)[ \t]{{1,4}}(?:as|with|using)[ \t]{{1,4}}[\"']?{_PAIR}",
    rf"{_AT_NOUN}(?:[ \t]{{1,4}}[\w'-]{{1,20}}){{0,6}}?[ \t](?:is|was|è|ist|est|es)[ \t]{{1,4}}(?=\S)",
    rf"{_AT_NOUN}\b[^\n.;]{{0,60}}?\b(?:set|changed|updated|rotated|reset)[ \t](?:from|to)[ \t]{{1,4}}(?=\S)",
    rf"{_AT_NOUN}\b[^\n.;]{{0,60}}?\b(?:changed|updated|rotated)[ \t]from[ \t]\S{{1,100}}[ \t]to[ \t]{{1,4}}(?=\S)",
    rf"{_AT_NOUN}[ \t]{{0,40}}\|[ \t]{{0,40}}(?=[^\s|])",
    r"(?i)\b(?:user(?:name)?|login)[=: ]{1,3}[\w.@+-]{1,64}[ \t,;/]{1,4}(?:pass|pwd|pw|pin)[=: ]{1,3}(?=\S)",
    r"(?:密[码碼钥]|口令|令牌)[^\s:!-~]{0,8}:[ \t]{0,4}(?=[!-~])",
)
_BEFORE = (r"(?:^|(?<=\s))(\S{5,100})[ \t](?:is|was)[ \t](?:not[ \t])?(?:an?[ \t]|the[ \t]|your[ \t])?"
           r"(?:\w{1,12}[ \t]){0,2}\Z")
_PROMPT = rf"(?i)(?:({_NOUN})|\b(?:token|secret|pin))\b[^\n:]{{0,80}}:[ \t]{{1,8}}(?=\S)"
_ASKS = r"(?i)\b(?:enter|paste|type|input)\b"
_JUDGED = (
    r"(?i)\b(?:key|token|secret|signature)s?[ \t:=]{1,4}"
    r"(?=\\{0,8}[\"'`]?[^\s\"'`\\]{5,120}\\{0,8}[\"'`]?[ \t,;:(-]{1,4}"
    r"(?:which[ ])?(?:do(?:es)?(?:[ ]not|n't)|did(?:[ ]not|n't)|is|was|has|not|failed|mismatch|reject|denied|refused"
    r"|expired|revoked|invalid|unknown|unauthori[sz]ed|(?:from|for|by)[ ](?:user|client|ip|[\d.]{7}))\b)")
_LOADED = (r"(?i)\b(?:load(?:ed|ing)?|us(?:ed|ing)|read|found|got|set)[ \t]{1,4}(?:[\w'-]{1,20}[ \t]){0,3}?[\w-]{0,40}"
           r"(?<!cache[ _-])(?:key|token|secret)[ \t]{1,2}\((?=[^\s()]{5,200}\))")
_OWN = (r"(?i)\b(?:my|your)[ \t](?:[\w'-]{1,20}[ \t]){0,2}(?:key|token|secret)"
        r"(?:[ \t](?:is|was))?[ \t]?[:=]?[ \t](?=[^\s(])")
_IDENTIFIER = r"[A-Za-z]\w*(?:\.\w+)+|[a-z][a-z0-9]*(?:[_-][a-z0-9]+)+|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*"
_MISMATCH = rf"(?i)\b(?:{_NOUN}|{_TOKENS})"
_SIDES = r"(?i)\b(expected|got|received|actual|supplied|was|given)\b[:=]?[ \t]{1,4}(?=\S)"
# Words with digits that are no secrets: algorithms, types, versions, protocols.
_TERM = r"""(?xi) (?: sha | md | utf | base | v | http | oauth | tls | ssl | argon | bcrypt | scrypt | scram | pbkdf
  | aes | rsa | u?int | b?float | fp | bf | ed | x | s | ec | k8s | i18n | python | py | line | code | error | status
  | step | rank | user | worker | node | part | pod ) [\W\d_a-f]*"""


def looks_chosen(value: str) -> bool:
    """Return whether a person may have made up a value as a password: letters with digits or signs, no term."""
    value = value.rstrip(".,:;!?)]}'\"")
    if not 5 <= len(value) <= 100 or "/" in value or "://" in value or compiled(_TERM).fullmatch(value):
        return False
    return re.search("[A-Za-z]", value) is not None and re.search(r"[0-9!@#$%^&*?~]", value) is not None


def prose_spans(text: str) -> list[Span]:
    """Return the secrets that sentences of `text` name."""
    lower = text.lower()
    asks = any(cue in lower for cue in _ASKING)
    is_asked = asks and any(word in lower for word in ("token", "secret", "pin"))
    if not is_asked and not any(cue in lower for cue in CUES):
        return []
    has_noun = compiled(_AT_NOUN).search(text) is not None
    places = [place for place in PLACES if has_noun or not place.startswith(_AT_NOUN)]
    found = [span for place in places for span in _read(text, (m.end() for m in compiled(place).finditer(text)))]
    for prompt in compiled(_PROMPT).finditer(text) if compiled(_ASKS).search(text) else ():
        if compiled(_ASKS).search(text[max(prompt.start() - 60, 0) : prompt.start()]):
            found += _read(text, iter([prompt.end()]), is_sure=prompt[1] is not None)
    found += [*(_before(text) if has_noun else ()), *_judged(text)]
    return found + _read(text, _mismatches(text)) if "expected" in lower else found


def _before(text: str) -> list[Span]:
    """Return the values of `'X' is not a valid API key`."""
    found = []
    for word in compiled(rf"(?i)\b{_NOUN}\b").finditer(text):
        low = max(text.rfind("\n", 0, word.start()) + 1, word.start() - 160)
        if value := compiled(_BEFORE).search(text, low, word.start()):
            found += _read(text, iter([value.start(1)]))
    return found


def _judged(text: str) -> list[Span]:
    """Return the values of `key 'X' does not match`, `loaded key (X)` and `my key is X`.

    Names of parameters and settings are none.
    """
    return [span for span in _read(text, (found.end() for place in (_JUDGED, _LOADED, _OWN)
                                     for found in compiled(place).finditer(text)))
            if looks_chosen(word := text[span.start : span.end]) and not compiled(_IDENTIFIER).fullmatch(word)]


def _mismatches(text: str) -> Iterator[int]:
    """Yield where the values of `api key mismatch: expected X got Y` begin."""
    last = 0
    for word in compiled(_MISMATCH).finditer(text):
        newline = text.find("\n", word.end(), word.end() + 300)
        line_end = newline if newline >= 0 else word.end() + 300
        sides = list(compiled(_SIDES).finditer(text, max(word.end(), last), line_end))
        if any(side[1].lower() == "expected" for side in sides):
            yield from (side.end() for side in sides)
            last = sides[-1].end()


def _read(text: str, places: Iterator[int], *, is_sure: bool = False) -> list[Span]:
    values = ValueReader(text)
    found = []
    for place in places:
        value = values.read(place)
        if value is None or value.end <= value.start:
            continue
        word = text[value.start : value.end]
        end = value.end if value.is_quoted else value.start + len(word.rstrip(".,:;!?"))
        if _is_harmless(word) or text[value.end : value.end + 1] == "(":
            continue
        is_quoted = value.is_quoted and " " not in word
        if is_sure or is_quoted or looks_chosen(word) or (looks_random(word) and "/" not in word):
            found.append(Span(value.start, end, "password", repeats=True))
    return found


def _is_harmless(word: str) -> bool:
    """Return whether it is the mask, a variable, a flag, the name of a secret or a plain word of the language."""
    return (len(word) < 3 or word.startswith(("$", "-", "<", "{", "***", "%", "@")) or word.isdigit()
            or word.lower() in {"none", "null", "true", "false", "yes", "empty", "str", "int", "bytes", "string"}
            or compiled(rf"[\w. -]{{0,64}}(?:{NAME})[\w-]{{0,20}}").match(word.lower()[:100]) is not None)
