"""Secrets in columns of tables and in Kubernetes Secrets, read at once and line by line."""

from __future__ import annotations

import time
from itertools import product

import pytest
from nightly import some

from vllm_doctor.redact import Redactor, redact

ENCODED = "c3VubnkgZGF5IDQyIGlzIGhlcmU="
TABLES = [
    "| Name | Password |\n|------|----------|\n| db | maple7tree |",
    "+------+------------+\n| user | passwd     |\n+------+------------+\n| bob  | maple7tree |",
    "\u2502 user \u2502 password \u2502\n\u2502 bob \u2502 maple7tree \u2502",
    "user\tpassword\thost\nbob\tmaple7tree\tdb1",
    "name,api_key,quota\nbob,maple7tree,5",
    "NAME      SECRET          AGE\nbob       maple7tree      4d",
    "kind: Secret\nstringData:\n  first: maple7tree\n  second: b",
    "kind: Secret\nstringData:\n  config.yaml: |\n    maple7tree",
    '{\n  "kind": "Secret",\n  "data": {\n    "a": "maple7tree"\n  }\n}',
]


@pytest.mark.parametrize("text", TABLES)
def test_a_block_is_masked(text: str) -> None:
    masked = redact(text)
    assert masked == text.replace("maple7tree", "***").replace("second: b", "second: ***")


@pytest.mark.parametrize("text", TABLES)
@pytest.mark.parametrize("prefix", ["", "(EngineCore_DP0 pid=1) ERROR 10-08 20:33:48 [core.py:708] ",
                                    "2026-10-08T20:33:41.000000000Z stderr F "])
def test_a_line_of_a_block_is_remembered(text: str, prefix: str) -> None:
    redactor = Redactor()
    for line in text.split("\n"):
        redactor.learn_line(prefix + line)
    assert redactor.redact("cannot reach bob maple7tree") == "cannot reach bob ***"


@pytest.mark.parametrize("text", [
    f"data:\n  hf: {ENCODED}\nkind: Secret", f"data:\n  hf: {ENCODED}",
    f'{{"kind":"Secret","data":{{"a":"{ENCODED}","b":"{ENCODED}"}}}}',
    f'{{\\"data\\":{{\\"a\\":\\"{ENCODED}\\"}},\\"kind\\":\\"Secret\\"}}',
])
def test_encoded_values(text: str) -> None:
    assert redact(text) == text.replace(ENCODED, "***")


@pytest.mark.parametrize("text", [
    "model,tokens,seconds\nQwen3-8B-FP8,12,4", "| Token | Logprob |\n|---|---|\n| the | -0.1 |",
    "data:\n  mode: auto\n  path: /models/Qwen3-30B-A3B\n  revision: 9f2c1ab43de0a1b2c3d4e5f60718293a4b5c6d7e",
    "kind: ConfigMap\ndata:\n  model: Qwen3-30B-A3B", "You can use a token, a password, or a key\nRunning on GPU, CPU, or TPU",
    "NAME      READY   STATUS\nvllm-0    0/1     Error", "user,password\nno rows here",
])
def test_other_blocks_stay(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("text", [
    "line\nb3BlbnNzaC1rAb1Cd2Ef3Gh4\nAb1Cd2Ef3Gh4Ij5Kl6==\n-----END OPENSSH PRIVATE KEY-----",
])
def test_a_key_without_its_head(text: str) -> None:
    assert redact(text) == "line\n***\n***\n-----END OPENSSH PRIVATE KEY-----"


@pytest.mark.parametrize("text", ["hf_Ab1Cd2Ef3Gh4Ij5\nKl6Mn7Op8Qr9St0Uv", "hf_Ab1Cd2Ef3Gh4Ij5\n    Kl6Mn7Op8Qr9St0Uv"])
def test_a_broken_token(text: str) -> None:
    assert redact(text) == text.replace("Ab1Cd2Ef3Gh4Ij5", "***").replace("Kl6Mn7Op8Qr9St0Uv", "***")


PUMPS = [
    "a,password\n", "| a | password |\n| b | c |\n", "kind: Secret\n", "stringData:\n a: b\n", f"data:\n a: {ENCODED}\n", "| ",
    "-----END PRIVATE KEY-----\n", "aB3/" * 16 + "\n-----END PRIVATE KEY-----\n", "enter api key ", "password is ",
    "password is is is changed from ", "api key expected a ", '"kind":"Secret","data":{"a":"b"', f"{ENCODED} ",
]


@pytest.mark.parametrize(("before", "piece"), some(product(["", "kind: Secret\ndata:\n", "a,password\n"], PUMPS), 10))
def test_64_kib_take_no_time(before: str, piece: str) -> None:
    text = (before + piece * (65_536 // len(piece) + 1))[:65_536]
    redactor = Redactor()
    began = time.process_time()
    redact(text)
    for line in text.split("\n"):
        redactor.learn_line(line)
    assert time.process_time() - began < 1.0


def test_lines_apart_are_not_read_as_one() -> None:
    redactor = Redactor()
    for line in ("--api-key \\", "reading the config", "maple7tree is a key of the config"):
        redactor.learn_line(line)
    assert redactor.redact("found maple7tree") == "found maple7tree"


def test_values_of_any_number_of_lines_are_remembered() -> None:
    lines = [f"WARNING: the api key 'maple{number}tree' is old" for number in range(200)] + ["filler key " * 300] * 8
    redactor = Redactor()
    for line in lines:
        redactor.learn_line(line)
    assert Redactor(redactor).redact("maple0tree maple199tree") == "*** ***"
