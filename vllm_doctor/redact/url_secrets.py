"""Secrets in URLs: `https://user:password@host`, a token in the user's place, `?key=…`."""

from __future__ import annotations

from vllm_doctor.redact.spans import MASK, Span, compiled, looks_random

# Expressions of parameters that hold a secret where they stand in a URL. Others are found by their names, as anywhere.
PARAMETERS = ("key", "token", "sig", "signature", "auth", "code", "secret", "pwd", "pass", "session", "sid", "ticket",
              "jwt", "otp", "credential", "subscription-key", "x-[a-z]{1,8}-signature", "q-signature")
_PLACEHOLDERS = {"none", "null", "value", "true", "false"}
_PARAMETER = rf"""(?xi) (?: [?&;#] | (?<=%3F) | (?<=%26) | (?<=%23) )
    (?: {"|".join(PARAMETERS)} ) (?: = | %3D )
    ( (?: [^\s&;#"'<>\\%] | %(?!26) ){{3,}} )"""
_ENCODED = r"""(?xi) (?<=%3A%2F%2F) (?: [\w.~+-] | %(?!3A|2F|40)[0-9A-F]{2} ){0,64} %3A
    ( (?: [\w.~+-] | %(?!40|2F)[0-9A-F]{2} ){1,400} ) %40"""
_WITHOUT_SCHEME = r"""(?xi) (?: (proxy) \\?["']? [=:] \s{0,4} \\?["']? | (?<![\w./:@-]) )
    [\w.%+-]{1,64} : ( [^\s:@/"'<>]{3,200} ) @ (?= [\w.-]{1,100} [:(/] )"""
# conda: https://host/t/TOKEN/channel; of a host that is not named so, only with a channel's folders behind it.
_CHANNEL = r"""(?x) :// ( [\w.@:*-]{1,120} ) /t/ ( [\w.-]{6,100} ) /
    (?= ( [\w./-]{0,100}? \b (?:noarch|linux-|win-|osx-|get/|repodata) )? )"""


def url_spans(text: str) -> list[Span]:
    """Return the secrets in the URLs of `text`."""
    found = _userinfo(text)
    if "=" in text or "%" in text:
        found += [Span(match.start(1), match.end(1), "url-parameter", repeats=True)
                  for match in compiled(_PARAMETER).finditer(text) if _is_value(match[1])]
    if "/t/" in text:
        found += [Span(match.start(2), match.end(2), "url-token", repeats=True)
                  for match in compiled(_CHANNEL).finditer(text) if match[3] or "conda" in match[1]]
    if "%40" in text:
        found += [Span(match.start(1), match.end(1), "url-password", repeats=True)
                  for match in compiled(_ENCODED).finditer(text)]
    if "@" in text:
        found += [Span(match.start(2), match.end(2), "url-password", repeats=True)
                  for match in compiled(_WITHOUT_SCHEME).finditer(text)
                  if (match[1] and match[2] != MASK and not match[2].isdigit()) or looks_random(match[2])]
    return found


def _is_value(value: str) -> bool:
    """Return whether it is a value, not the mask, a number (`?code=404`) or a placeholder."""
    return not value.isdigit() and value[0] not in "*${" and value.lower() not in _PLACEHOLDERS


def _userinfo(text: str) -> list[Span]:
    """Return passwords of `scheme://user:password@host`, also with a slash, and tokens in place of the user."""
    found: list[Span] = []
    following = text.find("://")
    while following >= 0:
        at = following + 3
        following = text.find("://", at)
        run = compiled(r"(?:[^\s\"'<>`\\]|\\(?![\"']))*").match(text, at, following if following >= 0 else len(text))
        url = run[0] if run else ""
        authority = compiled(r"[^/?#]*").match(url)[0]  # type: ignore[index]
        user, colon, rest = authority.partition(":")
        if "@" in authority:
            last = authority.rfind("@")
        elif colon and not rest.isdigit():  # the password holds a slash, as AWS keys do; a port does not
            last = url.rfind("@")
        else:
            last = -1
        if last <= 0:
            continue
        first = len(user) + 1 if colon and len(user) < last else 0
        secret = url[first:last]
        is_redis = text[max(at - 9, 0) : at].endswith(("redis://", "rediss://"))  # they have no users
        if secret and secret != MASK and (first or is_redis or looks_random(secret)):
            found.append(Span(at + first, at + last, "url-password", repeats=True))
        if first and secret == "x-oauth-basic":  # noqa: S105 - the token stands in the user's place
            found.append(Span(at, at + len(user), "url-password", repeats=True))
    return found
