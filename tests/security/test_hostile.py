"""One log that tries everything at once, through every format: nothing in it acts, no secret gets out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

import jsonschema
import pytest
from click.testing import CliRunner
from lxml import etree
from test_formats import SARIF_SCHEMA, Tags, as_a_runner_reads, as_github_reads, uris

from vllm_doctor.cli.diagnose_logs import render
from vllm_doctor.cli.root import cli
from vllm_doctor.diagnosis.engine import diagnose
from vllm_doctor.options import Options
from vllm_doctor.reports.model import Report

CASES = ("all", "attack", "namespace", "command", "curl", "traceback", "env", "unknown")
FORMATS = ("text", "json", "jsonl", "markdown", "html", "sarif", "junit", "github", "gitlab", "agent")

# Each kind of secret, each with a value that stands nowhere else.
SECRETS = {
    "openai key": "sk-Zq3PlantedOpenAi7Wn2Lk9Vb4Xc8Md1",
    "hugging face token": "hf_QxPlantedHuggingFaceTokenZk83NvLw21",
    "aws key id": "AKIAPLANTED7EXAMPLE9",
    "aws secret": "wJalrPLANTEDFEMIK7MDENGbPxRfiCYzzKEYq1w2",
    "gcp key": "AIzaSyPlantedGoogleKey4821vbnmqwertyuio",
    "azure signature": "Pl4ntedAzureSignature9%2Bq8w7e6r5t4",
    "bearer": "eyPlantedBearer0123456789abcdefghij",
    "basic": "cGxhbnRlZDpCYXNpY1Bhc3N3b3JkOTk5",
    "url password": "Pl4ntedUrlPassw0rd",
    "password": "Pl4ntedPassw0rdPlain",
    "private key": "MIIEpAIBAAKCAQEAplantedPrivateKeyBodyLineOne0123456789ABCDEFGHIJ",
    "github token": "ghp_PlantedGitHubToken0123456789abcdefghi",
}

PLACES = {
    "namespace": "INFO 05-06 10:00:00 [api_server.py:1] PLANT-NAMESPACE args: Namespace(model='/models/x', api_key=['{openai}'], hf_token='{hf}', "
                 "ssl_keyfile_password='{password}', download_dir='https://me:{url}@host/x')",
    "command": "PLANT-COMMAND vllm serve /models/x --api-key {openai} --hf-token {hf} --served-model-name x",
    "curl": "PLANT-CURL curl -u admin:{password} -H 'Authorization: Bearer {bearer}' -H 'Authorization: Basic {basic}' "
            "'https://me:{url}@x.blob.core.windows.net/c?sv=1&sig={azure}'",
    "traceback": 'RuntimeError: PLANT-TRACEBACK {{"api_key": "{openai}", "password": "{password}", "key": "{gcp}", "url": "https://{github}@github.com/x"}}',
    "env": "PLANT-ENV HF_TOKEN={hf} AWS_ACCESS_KEY_ID={aws_id} AWS_SECRET_ACCESS_KEY={aws} GITHUB_TOKEN={github} GOOGLE_API_KEY={gcp} DB=postgres://u:{url}@db/x",
}
VALUES = {"openai": "openai key", "hf": "hugging face token", "aws_id": "aws key id", "aws": "aws secret", "gcp": "gcp key", "azure": "azure signature",
          "bearer": "bearer", "basic": "basic", "url": "url password", "password": "password", "github": "github token"}

# What each reader of a report might obey.
ATTACKS = (
    "::error title=EVIL::EVIL", "::set-output name=EVIL::1", "::add-mask::a", "::stop-commands::EVIL", "##[error]EVIL", "##vso[task.setvariable]EVIL",
    "##teamcity[EVIL]", "</pre></li></ol><script>EVIL()</script>", "<img src=x onerror=EVIL()>", '<a href="javascript:EVIL()">x</a>', "]]><evil/>",
    '" onmouseover="EVIL()', "{{ 7 * 191 }} {% EVIL %}", "</details></summary>", "[EVIL](https://evil.example)", "![EVIL](https://evil.example/x.png)",
    "```` ``` ~~~", "@everyone @evil-team", "evil/evil#1 GH-666", "https://evil.example/EVIL", "www.evil.example", "| a | b |", "&#64;evil &lt;b&gt;",
    "\x1b]0;EVIL\x07\x1b[31m\x1b[2J", "\x9b31m", "\u202eLIVE\u202c \u2066x\u2069 \u200e\u200f", "\u200b\ufeff\u2028\u2029\x85", "\x00\x01\x08\x0b\x0c\ufffe\uffff",
    "%0A::error::EVIL", "{0} {1}", "=cmd|'/c calc'!A1", "$(EVIL) `EVIL` $EVIL", "'; rm -rf EVIL #",
)

RULE = """\
id: planted-{name}
title: "Planted {name}: {{{{ model }}}}"
severity: {severity}
phase: weights
role: {role}
match:
  any:
    - id: line
      anchor: {anchor}
      pattern: "{anchor} (?P<model>.*)"
explain: |
  The log says {{{{ model }}}}

  {{{{ model }}}}
fixes:
  - id: rename
    title: "Use {{{{ model }}}}"
    set: {{--served-model-name: model}}
    safety: safe
    cost: "Costs {{{{ model }}}}"
tests:
  - {{name: it fires, log: "{anchor} x", fires: line}}
  - {{name: it does not, log: "x", fires: null}}
references: [https://docs.vllm.ai/]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log and the rules that carry its lines into every text of a report."""
    new_folder = tmp_path_factory.mktemp("hostile")
    rules = new_folder / "rules" / "weights"
    rules.mkdir(parents=True)
    names = {"attack": "PLANT-ATTACK", **{name: f"PLANT-{name.upper()}" for name in PLACES}}
    for name, anchor in names.items():
        severity, role = {"namespace": ("warning", "advice"), "curl": ("warning", "advice")}.get(name, ("error", "cause"))
        (rules / f"planted-{name}.yaml").write_text(RULE.format(name=name, anchor=anchor, severity=severity, role=role), encoding="utf-8")
    filled = {name: line.format(**{key: SECRETS[kind] for key, kind in VALUES.items()}) for name, line in PLACES.items()}
    attack = " ".join(ATTACKS)
    lines = [
        f"$ HF_TOKEN={SECRETS['hugging face token']} vllm serve /models/x --api-key {SECRETS['openai key']} --chat-template '{attack}'",
        "INFO 05-06 10:00:00 [api_server.py:1043] vLLM API server version 0.8.5",
        filled["namespace"], filled["command"], filled["curl"], filled["env"],
        f"ERROR 05-06 10:00:01 [core.py:1] PLANT-ATTACK {attack}",
        *(f"ERROR 05-06 10:00:01 [core.py:1] PLANT-ATTACK {text}" for text in ATTACKS),
        *ATTACKS,
        "-----BEGIN RSA PRIVATE KEY-----", SECRETS["private key"], "-----END RSA PRIVATE KEY-----",
        "Traceback (most recent call last):",
        f'  File "/x/{attack}.py", line 1, in load',
        f"    raise RuntimeError({SECRETS['openai key']!r})",
        filled["traceback"],
    ]
    (new_folder / "server.log").write_bytes("\n".join(lines).encode("utf-8") + b"\n\xff\xfe\x80 EVIL\n")
    last = f"Traceback (most recent call last):\n  File \"x.py\", line 1, in load\n{filled['traceback'].replace('PLANT-', '')} {attack}\n"
    (new_folder / "unknown.log").write_bytes(("\n".join(lines[1:2]) + "\n" + last).encode("utf-8"))
    return new_folder


Reports = Callable[[str], list[Report]]


@pytest.fixture(scope="module")
def reports(folder: Path) -> Reports:
    """The reports of a case: by all rules, by one rule alone so that it is the cause, by a rule that does not fire."""

    @lru_cache
    def read(case: str, *, show_secrets: bool = False) -> list[Report]:
        only = () if case == "all" else (f"planted-{'attack' if case == 'unknown' else case}",)
        options = Options(rules=(str(folder / "rules"),), only=only, show_secrets=show_secrets)
        return [diagnose(folder / ("unknown.log" if case == "unknown" else "server.log"), options)]

    return read


def written(reports: list[Report], format_: str) -> str:
    """What the command prints."""
    return render(reports, format_, {"color": "never", "width": 100, "verbose": True, "timeline": False, "language": "en"})


@pytest.fixture(params=FORMATS)
def format_(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=CASES)
def text(request: pytest.FixtureRequest, reports: Reports, format_: str) -> str:
    return written(reports(request.param), format_)


def test_no_secret_is_in_any_format(text: str, format_: str) -> None:
    for kind, secret in SECRETS.items():
        assert secret not in text, (kind, text[max(0, text.find(secret) - 60):][:60])
        assert secret.partition("_")[2][:12] not in text or "_" not in secret, kind


def test_the_secrets_were_there_to_be_found(reports: Reports, format_: str) -> None:
    seen = "".join(written(reports(name, show_secrets=True), format_) for name in PLACES)
    seen = re.sub(r"\s+", "", seen) if format_ == "text" else seen.replace("%25", "%").replace("&#8203;", "")
    missing = [kind for kind, secret in SECRETS.items() if secret not in seen and kind != "private key"]
    assert missing == [] or format_ == "agent"  # which shows the first lines only


def test_a_password_in_an_argument_that_the_shell_must_quote(folder: Path) -> None:
    log = folder / "quoted.log"
    log.write_text("$ vllm serve /models/x\nRuntimeError: PLANT-ATTACK {'password': 'Pl4ntedQuoted'}\n", encoding="utf-8")
    report = diagnose(log, Options(rules=(str(folder / "rules"),), only=("planted-attack",)))
    assert "--served-model-name" in report.findings[0].fixes[0].command
    assert "Pl4ntedQuoted" not in report.findings[0].fixes[0].command


def test_nothing_is_a_terminal_escape_or_a_direction_mark(text: str) -> None:
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]", text)


def test_nothing_is_a_command_of_the_build_runner(text: str, format_: str) -> None:
    commands = as_a_runner_reads(text)
    if format_ != "github":
        assert commands == []
    for level, properties, _ in commands:
        assert level in {"error", "warning", "notice"}
        assert set(properties) <= {"title", "file", "line"}
        assert not properties["title"].startswith("EVIL")


def test_no_format_shows_a_template_filled_in(text: str) -> None:
    assert str(7 * 191) not in text


@pytest.mark.parametrize("name", ["attack", "all", "unknown"])
def test_html_has_no_element_of_the_log(reports: Reports, name: str) -> None:
    read = Tags(re.sub(r"(?s)<(style|script)>.*?</\1>", r"<\1></\1>", written(reports(name), "html")))
    assert read.names().count("script") == 1
    assert not {"img", "evil", "iframe", "b", "link", "base", "form"} & set(read.names())
    for tag, attributes in read.tags:
        assert not [key for key in attributes if key.startswith("on") or key in {"style", "src"}]
        assert tag != "a" or urlsplit(attributes["href"]).scheme == "https"
        assert tag != "a" or "evil" not in attributes["href"]
    assert "EVIL()" in read.prose or "EVIL()" in "".join(read.blocks)


@pytest.mark.parametrize("name", ["attack", "all", "unknown"])
def test_markdown_has_no_structure_of_the_log(reports: Reports, name: str) -> None:
    read = as_github_reads(written(reports(name), "markdown"))
    assert not {"img", "script", "b", "evil", "em", "del", "input", "blockquote", "hr"} & set(read.names())
    assert not [attributes for tag, attributes in read.tags if tag == "a" and "evil" in (attributes["href"] or "")]
    assert not re.search(r"[@#]\w|https?://|www\.", read.prose.replace("https://docs.vllm.ai", "").replace("https://github.com/vllm-project", ""))
    assert "EVIL" in "".join(read.blocks)


def test_sarif_has_no_address_of_the_log(reports: Reports) -> None:
    document = json.loads(written(reports("all"), "sarif"))
    jsonschema.Draft202012Validator(SARIF_SCHEMA).validate(document)
    assert not [uri for uri in uris(document["runs"]) if "evil" in uri.lower() or not (uri == "server.log" or uri.startswith("https://"))]
    for result in document["runs"][0]["results"]:
        [place] = result["locations"]
        assert place["physicalLocation"]["artifactLocation"] == {"uri": "server.log"}  # outside of the working directory: no folder
        assert not re.search(r"(?<!\\)\[[^\]]*(?<!\\)\]\(", result["message"]["text"])
        assert not re.search(r"(?<!\{)\{\d+\}(?!\})", result["message"]["text"])


def test_junit_is_well_formed_and_holds_no_element_of_the_log(reports: Reports) -> None:
    root = etree.fromstring(written(reports("all"), "junit").encode())
    assert {element.tag for element in root.iter()} <= {"testsuites", "testsuite", "testcase", "failure", "skipped", "system-out"}


@pytest.mark.parametrize("kind", ["json", "jsonl"])
def test_json_holds_what_the_log_says(reports: Reports, kind: str) -> None:
    report = json.loads(written(reports("attack"), kind))
    said = json.dumps([finding["evidence"] for finding in report["findings"]], ensure_ascii=False)
    assert "##[error]EVIL" in said  # broken in the bytes, whole in the value
    assert "<U+202E>LIVE" in said


def test_the_command_line_leaks_nothing_either(folder: Path, format_: str) -> None:
    result = CliRunner().invoke(cli, ["diagnose", str(folder / "server.log"), "--rules", str(folder / "rules"), "--format", format_])
    assert result.exit_code == 1, result.output
    assert not [kind for kind, secret in SECRETS.items() if secret in result.stdout]
    assert format_ == "github" or as_a_runner_reads(result.stdout) == []


def test_a_hostile_name_of_the_log(folder: Path, tmp_path: Path, format_: str) -> None:
    path = tmp_path / "a\n::error::EVIL ##[x]\u202e<script>`|@evil.log"
    path.write_bytes((folder / "server.log").read_bytes())
    result = CliRunner().invoke(cli, ["diagnose", str(path), "--rules", str(folder / "rules"), "--only", "planted-env", "--format", format_])
    assert result.exit_code == 1, result.output
    text = result.stdout_bytes.decode("utf-8")
    test_nothing_is_a_command_of_the_build_runner(text, format_)
    if format_ not in {"json", "jsonl"}:  # there it is the name of a file, as given
        assert "\u202e" not in text
    if format_ == "html":
        assert text.count("<script>") == 1
