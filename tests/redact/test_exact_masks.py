"""What is masked and what stays, to the character: each row decides between two readings of a notation."""

from __future__ import annotations

import re

import pytest

from vllm_doctor.redact import redact, redact_value, secrets_in
from vllm_doctor.redact.token_shapes import token_pattern

MASKED = {
    # named_values: the name
    "an escaped line end before the name": (r"x\ntoken=correcthorse", r"x\ntoken=***"),
    "who logs in": ("postgres://password:Zq8xK2mP4v@db.example/x", "postgres://password:***@db.example/x"),
    "setx of Windows": ("setx HF_TOKEN correcthorse", "setx HF_TOKEN ***"),
    "set of fish": ("set -x HF_TOKEN correcthorse", "set -x HF_TOKEN ***"),
    "a type of one secret": ('HubToken("correct")', 'HubToken("***")'),
    "a flag and its value in a list": ('["--token", "correcthorse"]', '["--token", "***"]'),
    "token=": ("token=correct", "token=***"),
    "a name and a value": ("name: token, value: correct", "name: token, value: ***"),
    # named_values: ${KEY:-X}
    "a default in a default": ("x=${HF_TOKEN:-${OTHER:-correcthorse}}", "x=${HF_TOKEN:-${OTHER:-***}}"),
    "a default without its end": ("x=${HF_TOKEN:-correcthorse", "x=${HF_TOKEN:-***"),
    # named_values: lists, tuples, dicts
    "a list of tokens": ("token=['correct']", "token=['***']"),
    "a tuple": ("password=('correcthorse', 'battery')", "password=('***', '***')"),
    "a dict of lists": ("password={'a': ['correcthorse', 'battery']}", "password={'a': ['***', '***']}"),
    "the logins of registries": ('{"auth": {"ann": "Zq8xK2mP4vL0wR7t"}}', '{"auth": {"ann": "***"}}'),
    "a user and a password": ("credentials=('ann', 'hunter2')", "credentials=('ann', '***')"),
    "in brackets behind a flag": ("--hf-token (correcthorse)", "--hf-token ***)"),
    "eight quoted characters": ('token: "correcthorse"', 'token: "***"'),
    # quoting
    "a quoted piece within a word": ('--hf-token correct"horse battery"staple next', "--hf-token *** next"),
    "a quote that is not closed": ('--hf-token correct"horse next', "--hf-token *** next"),
    # prose
    "five characters": ("the password is abc12", "the password is ***"),
    "what was expected, below another line": ("x\nAPI key mismatch: expected abc12x got def34y", "x\nAPI key mismatch: expected *** got ***"),
    "what was expected, up to the end of the line": ("API key mismatch: expected abc12x\nit got def34y", "API key mismatch: expected ***\nit got def34y"),
    # blocks
    "a table of two columns": ("user  password\nann   correct\n", "user  password\nann   ***\n"),
    "a table with bars": ("| user | api key |\n| ann | correct |\n", "| user | api key |\n| ann | *** |\n"),
    "the data of a Secret": ("kind: Secret\n  data:\n    a: correct\n  b: plain\n", "kind: Secret\n  data:\n    a: ***\n  b: plain\n"),
    "twelve characters of base64": ("data:\n  a: c2VjcmV0MTIz\n", "data:\n  a: ***\n"),
    # private_keys, wrapped
    "a key without its end": (f"-----BEGIN RSA PRIVATE KEY-----\n{'A1b2' * 16}\nplain words stand here\nand more of them\n",
                              "-----BEGIN RSA PRIVATE KEY-----\n***\nplain words stand here\nand more of them\n"),
    "four characters of a broken token": ("Error: the request had the token hf_abcdefghijklmnopqrstuvwxyz0123\nab12 and failed",
                                          "Error: the request had the token ***\n*** and failed"),
}
STAYS = {
    "seven quoted characters": 'token: "correct"',
    "the name of the flag": "--hf-token HF-TOKEN",
    "a word of a sentence and a sign": "the option --hf-token must: be given",
    "a token of a text": "token: word1",
    "a token of a vocabulary": 'token="[unused12]"',
    "a token of a vocabulary, behind a flag": "--token=[unused12]",
    "a path from here": "token=./run/t0ken",
    # program_options
    "an option of the next program": "mysql -u ann; tool -pcorrect",
    "a variable": "sshpass -p $PASS ssh",
    "a file": "zip -P @pass a.zip",
    "none at all": "sshpass -p None ssh",
    # url_secrets
    "a number in a URL": "https://h.example/x?code=404",
    "no value in a URL": "https://h.example/x?sig=none",
    # prose
    "a word and a sign": "the password is word!",
    "a place for a value": "the password is %s1234",
    "a word of a language": "the password is 'null'",
    "an answer": "the password is 'yes'",
    "a type": "the password is 'int'",
    # blocks
    "a sentence in a table": "| user | password |\n| ann | not the same |\n",
}


@pytest.mark.parametrize("name", MASKED)
def test_masked(name: str) -> None:
    text, masked = MASKED[name]
    assert redact(text) == masked


@pytest.mark.parametrize("name", STAYS)
def test_stays(name: str) -> None:
    assert redact(STAYS[name]) == STAYS[name]


@pytest.mark.parametrize("text", ["${HF_TOKEN:-***}", "sshpass -p *** ssh"])
def test_a_mask_is_no_secret(text: str) -> None:
    assert secrets_in(text) == ()


def test_a_token_by_its_key() -> None:
    assert redact_value({"token": "correcthorse", "tokens": 5}) == {"token": "***", "tokens": 5}


@pytest.mark.parametrize(("text", "found"), [("ab_123", True), ("cd_123", True), ("ab_12", False), ("ef_123", False)])
def test_a_token_has_one_of_the_prefixes(text: str, found: bool) -> None:
    assert (re.search(token_pattern(("ab_", "cd_"), "0-9", 3), text) is not None) is found
