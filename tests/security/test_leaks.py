"""Secrets of a log never reach a report: planted in every place, quoting and spelling, through every format."""

from __future__ import annotations

import html
import json
import random
import re
import time
import urllib.parse
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from leak_places import ALNUM, COMMANDS, NEAR_MISSES, TEXTS, TOKENS
from nightly import some

from vllm_doctor.bundle.archive import Bundle, _files
from vllm_doctor.cli.diagnose_logs import render
from vllm_doctor.diagnosis.engine import diagnose
from vllm_doctor.options import Options
from vllm_doctor.redact import program_options, redact, secret_names, token_shapes

FORMATS = ("text", "json", "jsonl", "markdown", "html", "sarif", "junit", "github", "gitlab", "command", "agent")
STARTED = "INFO 10-08 20:33:40 [api_server.py:1044] vLLM API server version 0.10.2\n"
NO_CACHE = (
    "(EngineCore_DP0 pid=1) ERROR 10-08 20:33:48 [core.py:708] ValueError: To serve at least one request with the "
    "models's max seq len (40960), (5.62 GiB KV cache is needed, which is larger than the available KV cache memory "
    "(4.50 GiB). Based on the available memory, the estimated maximum model length is 32768.\n"
)
WRAPPERS = {
    "command": "$ {}\n" + STARTED + NO_CACHE,
    "error": STARTED + 'Traceback (most recent call last):\n  File "/x/y.py", line 1, in load\n    raise RuntimeError(x)\n'
             "RuntimeError: {}\n",
    "container": STARTED + "2026-10-08T20:33:41.000000000Z stderr F RuntimeError: {}\n",
    "rank": STARTED + "(Worker_TP1 pid=7) ERROR 10-08 20:33:48 [core.py:708] RuntimeError: {}\n",
}
secrets = st.tuples(st.text(ALNUM, min_size=6, max_size=24), st.sampled_from(ALNUM)).map(lambda it: f"Se7{it[0]}9x{it[1]}")


def written(log: str, format_: str, *, path: str | None = None, show: bool = False) -> str:
    report = diagnose(log.encode(), Options(show_secrets=show), path=path)
    return render([report], format_, {"color": "never", "width": 100, "verbose": True, "timeline": False, "language": "en"})


def readings(text: str) -> list[str]:
    """What a reader can make of a report: as it stands, without escapes, without marks and line ends."""
    plain = html.unescape(html.unescape(text.replace("&#8203;", "").replace("\\", "")))
    bare = re.sub(r"<U\+[0-9A-F]{4,6}>|[\u200b-\u200f\ufeff\xad]|\x1b\[[0-9;]*m", "", plain)
    return [text, plain, urllib.parse.unquote(text), bare, re.sub(r"\s+", "", bare)]


def assert_masked(secret: str, log: str, format_: str) -> None:
    text = written(log, format_)
    assert not any(secret in reading for reading in readings(text)), text
    if format_ in {"json", "sarif", "gitlab"}:
        json.loads(text)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(COMMANDS)), st.sampled_from(sorted(WRAPPERS)), st.sampled_from(FORMATS), secrets)
def test_a_secret_of_a_command_is_masked(place: str, wrapper: str, format_: str, secret: str) -> None:
    assert_masked(secret, WRAPPERS[wrapper].replace("{}", COMMANDS[place].replace("{s}", secret)), format_)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(TEXTS)), st.sampled_from(["error", "container", "rank"]), st.sampled_from(FORMATS), secrets)
def test_a_secret_with_a_name_is_masked(place: str, wrapper: str, format_: str, secret: str) -> None:
    assert_masked(secret, WRAPPERS[wrapper].replace("{}", TEXTS[place].replace("{s}", secret)), format_)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(sorted(TOKENS)), st.sampled_from(sorted(WRAPPERS)), st.sampled_from(FORMATS))
def test_a_token_is_masked_wherever_it_stands(data: st.DataObject, kind: str, wrapper: str, format_: str) -> None:
    before, alphabet, length, behind = TOKENS[kind]
    body = "".join(random.Random(data.draw(st.integers(0, 10**9))).choices(alphabet, k=length))
    secret = body if length >= 8 else behind
    assert_masked(secret, WRAPPERS[wrapper].replace("{}", f"request with {before}{body}{behind} failed"), format_)


@pytest.mark.parametrize("place", [*COMMANDS.values(), *TEXTS.values()])
def test_every_place(place: str) -> None:
    assert "Se7retValue9xQ" not in redact(place.replace("{s}", "Se7retValue9xQ"))


@pytest.mark.parametrize("places", [COMMANDS, TEXTS], ids=["commands", "texts"])
def test_no_format_and_no_file_of_a_bundle_shows_a_secret(places: dict[str, str]) -> None:
    for name in sorted(places)[::8]:
        log = WRAPPERS["command" if places is COMMANDS else "error"].replace("{}", places[name].replace("{s}", "Se7retValue9xQ"))
        report = diagnose(log.encode())
        files = dict(_files(Bundle(report, log.encode())))
        for format_ in FORMATS:
            files[format_] = render([report], format_, {"color": "never", "width": 100, "verbose": True, "timeline": False, "language": "en"})
        assert len(files) == len(FORMATS) + 5
        shown = [file for file, text in files.items() if any("Se7retValue9xQ" in reading for reading in readings(text))]
        assert shown == [], name


@settings(max_examples=30, deadline=None)
@given(secrets, st.sampled_from(FORMATS))
def test_a_value_that_was_named_once_is_masked_everywhere(secret: str, format_: str) -> None:
    log = f"$ export HF_TOKEN={secret}\n" + WRAPPERS["error"].replace("{}", f"401 for user {secret} at /x/{secret}/y")
    assert_masked(secret, log, format_)
    assert secret in written(log, format_, show=True) or format_ == "command"  # which quotes no log line


@pytest.mark.parametrize("format_", FORMATS)
def test_the_name_of_the_log_is_masked(format_: str) -> None:
    text = written(WRAPPERS["error"].replace("{}", "x"), format_, path="logs/hf_token=Se7retValue9xQ/server.log")
    assert "Se7retValue9xQ" not in text


def test_a_masked_command_says_how_to_fill_it_in() -> None:
    log = WRAPPERS["command"].replace("{}", 'sh -c "vllm serve m --max-model-len 40960 --api-key \\"Se7retValue9xQ\\""')
    notes = json.loads(written(log, "json"))["notes"]
    assert notes[-1] == ("*** in a command stands for a secret of the log: put your own value there, or set "
                         "VLLM_API_KEY instead of --api-key.")


@pytest.mark.parametrize("text", NEAR_MISSES)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(("text", "masked"), [
    ('bash -c "vllm serve m --api-key \\"Ab12\\" --port 1"', 'bash -c "vllm serve m --api-key \\"***\\" --port 1"'),
    ("VLLM_API_KEY=${KEY:-Ab12} vllm serve m", "VLLM_API_KEY=${KEY:-***} vllm serve m"),
    ("docker login -u a -p Ab12 nvcr.io", "docker login -u a -p *** nvcr.io"),
    ("--api-key Ab\\ Cd --port 1", "--api-key *** --port 1"),
    ("mysql -u root -pAb12 db", "mysql -u root -p*** db"),
    ("- name: HF_TOKEN\n  value: Ab12\n- name: X", "- name: HF_TOKEN\n  value: ***\n- name: X"),
    ("api\u200b_key\uff1aAb12", "api\u200b_key\uff1a***"),
])
def test_only_the_secret_is_masked(text: str, masked: str) -> None:
    assert redact(text) == masked
    assert redact(masked) == masked


@pytest.mark.parametrize("text", [
    "[nas]\ntype = sftp\npass = mTvyJT3kDMqfSUq4wunue6\n",
    "Password for the [elastic] user successfully reset.\nNew value: mTvyJT3kDMqfSUq4wunue6\n",
    '[pid 4212] getenv("BOLT_SECRET") = "mTvyJT3kDMqfSUq4wunue6"\n',
    "https://dav.widget.example/models llm mTvyJT3kDMqfSUq4wunue6\n",
    "$ aws ssm get-parameter --name /llm/db-password --query Parameter.Value --output text\nmTvyJT3kDMqfSUq4wunue6\n",
    "$ op item get store --fields label=password --reveal\nmTvyJT3kDMqfSUq4wunue6\n",
])
def test_a_value_that_looks_random_is_masked_where_a_program_shows_a_secret(text: str) -> None:
    log = text + WRAPPERS["error"].replace("{}", "login refused for mTvyJT3kDMqfSUq4wunue6")
    assert "mTvyJT3kDMqfSUq4wunue6" not in written(log, "json")


@pytest.mark.parametrize("form", ["Gr\u00c3\u00bcn-hrKXxWgspUGCa3EY", "4772c3bc6e2d68724b58785767737055474361334559",
                                  "%47%72%C3%BC%6E%2D%68%72%4B%58%78%57%67%73%70%55%47%43%61%33%45%59"])
def test_a_named_value_is_masked_in_other_encodings(form: str) -> None:
    log = "$ export STORE_PASSWORD=Gr\u00fcn-hrKXxWgspUGCa3EY\n" + WRAPPERS["error"].replace("{}", f"refused: {form}")
    assert form[-16:] not in written(log, "json")


def test_a_token_that_a_terminal_broke() -> None:
    token = "hf_" + "aB3dE6gH9" * 4
    line = "OSError: cannot download some/model-name from the hub as "
    text = line + token[:8] + "\n" + token[8:] + "\nINFO 10-08 20:33:40 the next line"
    assert redact(text) == f"{line}hf_***\n***\nINFO 10-08 20:33:40 the next line"


PUMPS = dict.fromkeys([
    "'a'\"b", "api_key='a'\"b", "${KEY:-", "${KEY:-${", "\\", '\\"', "\x1b[", "&#", "<U+200B>", "api\u200b_key=", "a:bcd@", "?key=",
    "docker login -p ", "curl -u a:", "echo a|", "machine a login ", "value: a name: token ", "api_key={'a':'b',", "secret=a;",
    "%3A%2F%2Fa%3A", "hf_" + "aB1" * 20 + "\n", "api_key=" + "aB1" * 20 + "\n", "(b'cookie',", "token is ", "eyJaaaaaaaa.",
    *secret_names.CUES, *(row[0] + " " for row in program_options.OPTIONS), *(row[1][0] for row in token_shapes.TOKENS),
])


@pytest.mark.parametrize(("before", "piece"), some(product(["", "api_key='"], PUMPS), 60))
def test_64_kib_take_no_time(before: str, piece: str) -> None:
    """About 0.3 s at most on a quick machine that is idle; what takes quadratic time takes a minute."""
    text = (before + piece * (65_536 // len(piece) + 1))[:65_536]
    began = time.process_time()
    redact(text)
    assert time.process_time() - began < 2.0
