"""Secrets known by their shape, wherever they stand: `sk-...`, `hf_...`, AWS keys, JSON web tokens, lines of base64.

A shape that words may have too (`hf_transfer`) is a secret only if the value looks generated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from vllm_doctor.redact.patterns import MASK, compiled

_EDGE = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"  # the start of a word, also after an escaped line end


class _Shape(NamedTuple):
    kind: str
    cues: tuple[str, ...]  # one of them stands in the text, else the pattern is not tried
    pattern: str  # group 1 stays, group 2 is masked
    is_secret: Callable[[str], bool] = lambda _value: True
    least: int = 0  # characters of base64 in a row


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
    _Shape("github-token", ("gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_pat_"),
           _EDGE + r"(gh[opsur]_|github_pat_)([A-Za-z0-9_]{16,})"),
    _Shape("gitlab-token", ("glpat-",), _EDGE + r"(glpat-)([\w-]{10,})"),
    _Shape("slack-token", ("xox", "xapp-"), _EDGE + r"(xox[a-z]-|xapp-)([A-Za-z0-9-]{8,})"),
    _Shape("slack-token", ("hooks.slack.com",), r"(hooks\.slack\.com/[a-z]{1,16}/)([\w/-]{8,})"),
    _Shape("registry-token", ("pypi-", "npm_", "dckr_pat_"), _EDGE + r"(pypi-|npm_|dckr_pat_)([\w-]{20,})"),
    _Shape("wandb-key", ("wandb",), r"(wandb login (?:--relogin )?|wandb_v1_)([\w-]{20,})"),
    _Shape("jwt", ("eyJ",), r"(?:(?<![\w.-])|(?<=\\[nrt]))(eyJ)([\w-]{8,}(?:\.[\w-]*)*)"),
    _Shape("bearer", ("earer", "EARER"),
           r"(\b[Bb](?:earer|EARER)(?:[ \t]+|%20|\+))([\w.~+/=%-]{6,})", _is_bearer),
    _Shape("azure-key", ("sig=", "Sig=", "SIG=", "nature=", "NATURE="),
           r"(?i)((?:[?&;]|u0026)(?:x-(?:amz|goog)-)?sig(?:nature)?=)([^&\s\"'<>\\]{6,})"),
    _Shape("password", ("-u ", "-u=", "-user ", "-user="),
           r"((?<![\w-])(?:-u|--user)[ =][\"']?(?![0-9]+:[0-9])[^\s:\"']{1,64}:)([^\s\"']+)"),
    _Shape("watermark-key", ("watermark",),
           r"(watermark[^\n]{0,200}?\bkey\\?[\"']?(?:[:=]|\s)\s{0,4})([0-9]+)"),
    _Shape("private-key", (), r"(?m)(^[ \t>|]*)([A-Za-z0-9+/]{40,}={0,2})(?=[ \t\r]*$)", _is_key_material, 40),
    _Shape("private-key", (),  # a line of a key file behind a log prefix: 64, 70 or 76 characters
           r"(?<![\w+/=.-])()([A-Za-z0-9+/]{64}(?:[A-Za-z0-9+/]{6}){0,2})(?![\w+/=.-])", _is_key_material, 64),
)  # fmt: skip


_BASE64_ALONE = bytes(code if chr(code).isalnum() or chr(code) in "+/" else 32 for code in range(128)) + b" " * 128


def mask_shapes(text: str, found: dict[str, None]) -> str:
    """`text` with every secret known by its shape masked; its kind is added to `found`."""
    longest = max(map(len, text.encode("ascii", "replace").translate(_BASE64_ALONE).split()), default=0)
    for shape in _SHAPES:
        if shape.cues and not any(cue in text for cue in shape.cues):
            continue
        if shape.least and longest < shape.least:
            continue

        def masked(match: re.Match[str], shape: _Shape = shape) -> str:
            if not shape.is_secret(match[2]):
                return match[0]
            if shape.cues:  # a lone line of base64 is masked, but no proof of a key
                found[shape.kind] = None
            return match[1] + MASK

        text = compiled(shape.pattern).sub(masked, text)
    return text
