"""Secrets known by their shape, wherever they stand. To add one, add a row to TOKENS.

The prefix stays in the report: it says whose key it is. The shapes are those that the issuers publish.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from vllm_doctor.redact.spans import Span, compiled, looks_generated, looks_random

ALNUM = "A-Za-z0-9"
WORD = "A-Za-z0-9_"
URLSAFE = r"A-Za-z0-9_\-"
HEX = "0-9a-f"

# kind, prefixes, characters of the secret part, how many at least
TOKENS: tuple[tuple[str, tuple[str, ...], str, int], ...] = (
    ("api-key", ("nvapi-", "gsk_", "pplx-", "xai-", "csk-", "fw_", "tvly-", "jina_", "sess-", "rpa_", "ntn_",
                 "ctx7sk-", "tgp_v1_"),
     URLSAFE, 16),
    ("api-key", ("openai-insecure-api-key.",), URLSAFE + ".", 6),  # a WebSocket's protocol
    ("api-key", ("r8_",), ALNUM, 20),  # Replicate
    ("api-key", ("dapi", "dsapi", "pul-", "rubygems_", "key-"), HEX, 32),  # Databricks, Pulumi, RubyGems, Mailgun
    ("api-key", ("SK",), HEX, 32),  # Twilio
    ("api-key", ("SG.",), URLSAFE + ".", 32),  # SendGrid
    ("api-key", ("lin_api_", "lin_oauth_", "glsa_", "glc_", "NRAK-", "NRJS-", "PMAK-", "sgp_", "figd_"), URLSAFE, 16),
    ("api-key", ("lsv2_pt_", "lsv2_sk_", "sntrys_", "sntryu_", "phx_", "sb_secret_", "sbp_"), URLSAFE + "+/=", 16),
    ("api-key", ("dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."), ALNUM + "._-", 20),  # Doppler
    ("api-key", ("HRKU-", "CFPAT-", "ATATT3", "ATCTT3", "AKCp", "cmVmdGtuOj"), URLSAFE + "=", 20),
    ("api-key", ("shpat_", "shpca_", "shppa_", "shpss_", "sq0csp-", "sq0atp-", "pscale_tkn_", "pscale_pw_",
                 "pscale_oauth_"), URLSAFE, 20),
    ("api-key", ("tskey-", "ops_eyJ", "fm1_", "fm2_", "fm1r_", "fm1a_", "fo1_"), URLSAFE + "+/=,", 20),
    ("api-key", ("hcaik_", "hcaic_", "hcxik_", "hcxic_", "hcxlk_", "hcxmk_", "hcamk_"), ALNUM, 16),  # Honeycomb
    ("age-key", ("AGE-SECRET-KEY-1", "age-secret-key-1", "AGE-SECRET-KEY-PQ-1"), ALNUM, 20),
    ("private-key", ("b3BlbnNzaC1rZXkt", "LS0tLS1CRUdJTiBSU0EgUFJJVkFURS", "LS0tLS1CRUdJTiBQUklWQVRF",
                     "LS0tLS1CRUdJTiBFQyBQUklW", "LS0tLS1CRUdJTiBPUEVOU1NI", "MIIEvQIBADAN", "MIIEvgIBADAN",
                     "MIIEpAIBAAKCAQEA", "MIIEowIBAAKCAQEA", "MHcCAQEEI", "MC4CAQAwBQYDK2Vw"), ALNUM + "+/=", 20),
    ("aws-key", ("AKIA", "ASIA", "ABIA", "ACCA"), "A-Z0-9", 12),
    ("cloud-key", ("AKLT", "LTAI", "AKID"), ALNUM, 14),  # Volcengine, Alibaba, Tencent
    ("digitalocean-token", ("dop_v1_", "doo_v1_", "dor_v1_"), HEX, 32),
    ("gcp-key", ("AIza",), URLSAFE, 20),
    ("gcp-key", ("ya29.", "GOCSPX-"), URLSAFE + ".", 16),
    ("github-token", ("ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_"), WORD, 16),
    ("gitlab-token", ("glpat-",), URLSAFE + ".", 10),
    ("gitlab-token", ("gldt-", "glrt-", "glrtr-", "glcbt-", "glptt-", "glft-", "glsoat-", "glimt-", "glagent-",
                      "glffct-", "GR1348941"), URLSAFE + ".", 16),
    ("hf-token", ("api_org_",), ALNUM, 8),
    ("registry-token", ("dckr_pat_", "dckr_oat_"), URLSAFE, 20),
    ("registry-token", ("npm_",), ALNUM, 20),
    ("registry-token", ("pypi-",), URLSAFE, 20),
    ("slack-token", ("xoxb-", "xoxp-", "xoxa-", "xoxe-", "xoxe.xoxp-", "xoxo-", "xoxr-", "xoxs-", "xoxc-", "xoxd-",
                     "xapp-"), URLSAFE + "%", 8),
    ("stripe-key", ("sk_live_", "sk_test_", "sk_prod_", "rk_live_", "rk_test_", "rk_prod_", "whsec_"),
     ALNUM + "+/=", 10),
    ("vault-token", ("hvs.", "hvb.", "hvr."), URLSAFE, 20),
    ("wandb-key", ("wandb_v1_",), URLSAFE, 20),
)  # fmt: skip

_WORDS = "[a-z_-]+|[A-Z]*[_-][A-Z_-]*"  # `npm_config_registry` is a name
_EDGE = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-F]{2}))"  # the start of a word, also after an escape


def _is_bearer(value: str) -> bool:
    return len(value) >= 20 or re.search("[0-9]", value) is not None


def _is_hf_token(value: str) -> bool:
    """Return whether it is a token (usually 34 letters and digits), not a name such as `hf_transfer`."""
    return len(value) >= 20 or re.search("[A-Z0-9]", value) is not None


def _is_generated(value: str) -> bool:
    digits = sum(letter.isdigit() for letter in value)
    return digits > 1 and value.lower() != value != value.upper() and looks_generated(value)


def _is_key_material(line: str) -> bool:
    """Return whether it is Base64 as in a key file: three character classes; a hexadecimal hash has two."""
    return all(re.search(some, line) for some in ("[A-Z]", "[a-z]", "[0-9+/]")) and not line.startswith("/")


class _Shape(NamedTuple):
    """A token that a prefix alone does not describe. Group 1 of the pattern stays, group 2 is masked."""

    kind: str
    cues: tuple[str, ...]  # one of them stands in the text, else the pattern is not tried
    pattern: str
    is_secret: object = None  # a check of group 2
    base64: int = 0  # characters of base64 that stand in a row somewhere in the text


SHAPES = (
    _Shape("hf-token", ("hf_",), r"(hf_)([A-Za-z0-9]{30,})"),
    _Shape("hf-token", ("hf_",), _EDGE + r"(hf_)([A-Za-z0-9]{8,})(?![A-Za-z0-9_])", _is_hf_token),
    _Shape("api-key", ("sk-",), _EDGE + r"(sk-)((?!learn)[A-Za-z0-9_-]{8,})"),
    _Shape("api-key", (".atlasv1.",), r"(?<![A-Za-z0-9])()([A-Za-z0-9]{14}\.atlasv1\.[\w=-]{20,})"),
    _Shape("api-key", ("-us",), r"(?<![A-Za-z0-9])()([0-9a-f]{32}-us[0-9]{1,2})(?![A-Za-z0-9])"),  # Mailchimp
    _Shape("azure-key", ("Q~",), r"(?<![\w~.-])()([A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34})(?![\w~-])"),
    _Shape("telegram-token", (":AA",), r"(?<![A-Za-z0-9])((?:bot)?[0-9]{6,12}:)(AA[\w-]{30,})"),
    _Shape("vault-token", ("s.", "b."), r"(?<![\w.-])([sb]\.)([A-Za-z0-9]{24})(?![\w.-])", looks_random),
    _Shape("slack-token", ("hooks.slack.com",), r"(hooks\.slack\.com/[a-z]{1,16}/)([\w/-]{8,})"),
    _Shape("webhook", ("office.com/webhook",), r"(office\.com/webhook(?:b2)?/)([\w@/-]{8,})"),  # Teams
    _Shape("webhook", ("/bot/v2/hook/",), r"(/bot/v2/hook/)([\w-]{8,})"),  # Feishu, Lark
    _Shape("webhook", ("/hooks/",), r"(/hooks/)([a-z0-9]{26})(?![\w-])"),  # Mattermost
    _Shape("webhook", ("hooks.zapier.com",), r"(hooks\.zapier\.com/hooks/catch/)([\w/-]{8,})"),
    _Shape("aws-key", ("AKIA", "ASIA"),
           r"(A[KS]IA[A-Z0-9]{12,24}[:;,/| \t\"']{1,6})([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])"),
    _Shape("webhook", ("/api/webhooks/",), r"(/api/webhooks/[0-9]{6,24}/)([\w-]{20,})"),  # Discord
    _Shape("jwt", ("eyJ",), r"(?:(?<![\w.-])|(?<=\\[nrt]))(eyJ)([\w-]{8,}(?:\.[\w-]*)*)"),
    _Shape("bearer", ("earer", "EARER"),
           r"(\b[Bb](?:earer|EARER)(?:[ \t]+|%20|\+))([\w.~+/=%-]{6,})", _is_bearer),
    _Shape("azure-key", ("sig=", "Sig=", "SIG=", "nature=", "NATURE="),
           r"(?i)([?&;](?:x-(?:amz|goog)-)?sig(?:nature)?=)([^&\s\"'<>\\]{6,})"),
    _Shape("watermark-key", ("watermark",),
           r"(watermark[^\n]{0,200}?\bkey\\?[\"']?(?:[:=]|\s)\s{0,4})([0-9]+)"),
    _Shape("api-key", (".",), r"(?<![\w.-])()([0-9a-f]{32}\.[A-Za-z0-9]{16})(?![\w.-])"),  # Zhipu
    # A vendor that no row above names; symbols of C++ are no tokens.
    _Shape("", (), r"(?<!\w)(?!_Z)((?:\w{1,40}_)?)((?a:[A-Za-z0-9]{20,512}))(?!\w)", _is_generated),
    _Shape("", (), r"(?m)(^[ \t>|]*)([A-Za-z0-9+/]{40,}={0,2})(?=[ \t\r]*$)", _is_key_material, 40),
    _Shape("", (),  # a line of a key file behind a log prefix: 64, 70 or 76 characters
           r"(?<![\w+/=.-])()([A-Za-z0-9+/]{64}(?:[A-Za-z0-9+/]{6}){0,2})(?![\w+/=.-])", _is_key_material, 64),
)  # fmt: skip


_BASE64_ALONE = bytes(code if chr(code).isalnum() or chr(code) in "+/" else 32 for code in range(128)) + b" " * 128


def token_pattern(prefixes: Iterable[str], characters: str, least: int) -> str:
    """Return the expression of a row of TOKENS: group 1 is the secret part."""
    return f"{_EDGE}(?:{'|'.join(map(re.escape, prefixes))})([{characters}]{{{least},}})"


def token_spans(text: str) -> list[Span]:
    """Return the secrets in `text` that are recognised by their shape."""
    found: list[Span] = []
    for kind, prefixes, characters, least in TOKENS:
        present = [prefix for prefix in prefixes if prefix in text]
        if present:
            token = compiled(token_pattern(present, characters, least))
            found += [Span(match.start(1), match.end(1), kind) for match in token.finditer(text)
                      if len(match[1]) >= 2 * least or not compiled(_WORDS).fullmatch(match[1])]
    longest = max(map(len, text.encode("ascii", "replace").translate(_BASE64_ALONE).split()), default=0)
    for shape in SHAPES:
        if (shape.cues and not any(cue in text for cue in shape.cues)) or longest < shape.base64:
            continue
        check = shape.is_secret
        found += [Span(match.start(2), match.end(2), shape.kind) for match in compiled(shape.pattern).finditer(text)
                  if not callable(check) or check(match[2])]
    return found
