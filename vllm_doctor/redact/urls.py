"""The passwords of URLs: `https://user:password@host`, a token in the user's place, a password that holds a slash."""

from __future__ import annotations

from vllm_doctor.redact.patterns import MASK, compiled, looks_random


def mask_urls(text: str, found: dict[str, None]) -> str:
    """`text` with the passwords of its URLs masked; `url-password` is added to `found`."""
    out: list[str] = []
    at, copied, following = 0, 0, text.find("://")
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
        if last > 0:
            first = len(user) + 1 if colon and len(user) < last else 0
            secret = url[first:last]
            if secret and (secret != MASK) and (first or looks_random(secret)):
                found["url-password"] = None
                out += [text[copied : at + first], MASK]
                copied = at + last
    return "".join([*out, text[copied:]])
