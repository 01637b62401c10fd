"""Secrets that a sentence names, and sentences that name none."""

from __future__ import annotations

import pytest

from vllm_doctor.redact import redact


@pytest.mark.parametrize(("text", "masked"), [
    ("the password is maple7tree", "the password is ***"),
    ("user admin and password maple7tree failed", "user admin and password *** failed"),
    ("using password (maple7tree) for db", "using password (***) for db"),
    ("invalid API key 'maple' given", "invalid API key '***' given"),
    ("'maple7tree' is not a valid API key", "'***' is not a valid API key"),
    ("using credentials admin:maple7tree", "using credentials admin:***"),
    ("logged in as bob/maple7tree", "logged in as bob/***"),
    ("Enter passphrase for key '/root/.ssh/id': maple", "Enter passphrase for key '/root/.ssh/id': ***"),
    ("Paste an API key from your profile and hit enter: maple", "Paste an API key from your profile and hit enter: ***"),
    ("api key mismatch: expected maple7tree got oak8leaf", "api key mismatch: expected *** got ***"),
    ("password changed from maple7tree to oak8leaf", "password changed from *** to ***"),
    ("Passwort: maple", "Passwort: ***"),
    ("mot de passe : maple", "mot de passe : ***"),
    ("contrase\xf1a: maple", "contrase\xf1a: ***"),
    ("\u5bc6\u7801\u662f maple", "\u5bc6\u7801\u662f ***"),
    ("\u5bc6\u7801\u9519\u8bef\uff1amaple7tree", "\u5bc6\u7801\u9519\u8bef\uff1a***"),
])
def test_a_named_secret_is_masked(text: str, masked: str) -> None:
    assert redact(text) == masked
    assert redact(masked) == masked


@pytest.mark.parametrize("text", [
    "the password is required", "password is incorrect, try again", "API key is missing", "API key VLLM_API_KEY is not set",
    'API key "VLLM_API_KEY" not set', "token is too long", "token mismatch: expected str got int", "api key must be str, got int64",
    "passwords are hashed with sha256", "password (optional) for the database", "Access denied (using password: YES)",
    "credentials at s3://bucket/key1", "credentials: /root/.aws/credentials1", "password for user admin: authentication failed",
    "The API key header is X-Api-Key", "API key is valid for model Qwen/Qwen3-30B-A3B", 'secret "hf-token-1" not found',
    "expected token type float16 got bfloat16", "\u5bc6\u7801\u662f\u5fc5\u586b\u7684", "Enter a model name: Qwen3-8B",
    "logged in as root", "def get_api_key() -> str", "type of token 3: int32", "password must have 12 characters",
])
def test_a_sentence_without_a_secret_stays(text: str) -> None:
    assert redact(text) == text
