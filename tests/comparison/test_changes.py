"""What changed between a good start and a failed one: the change that explains the failure comes first."""

from __future__ import annotations

import json
from pathlib import Path

import click.testing
import jsonschema
import pytest

from vllm_doctor.cli.root import cli
from vllm_doctor.comparison.changes import _is_equal

LOGS = Path(__file__).parent.parent.parent / "fixtures" / "logs"
GOOD = LOGS / "healthy" / "tiny-start-stop.log"
HEAD = """\
(APIServer pid=1) INFO 11-24 00:10:00 [api_utils.py:347] vLLM API server version {version}
(APIServer pid=1) INFO 11-24 00:10:01 [api_utils.py:286] non-default args: {args}
"""


def compare(bad, good=GOOD, *more):
    return click.testing.CliRunner().invoke(cli, ["diagnose", str(bad), "--against", str(good), *more])


def changes_of(bad, good=GOOD):
    return [tuple(change.values()) for change in json.loads(compare(bad, good, "--format", "json").output)["changes"]]


@pytest.mark.parametrize(("name", "what", "good", "bad"), [
    ("arg-block-size-17", "--block-size", "not set", "17"),
    ("arg-dtype-int3", "--dtype", "not set", "int3"),
    ("arg-max-lora-rank-48", "--max-lora-rank", "not set", "48"),
    ("arg-max-num-seqs-not-int", "--max-num-seqs", "not set", "many"),
    ("arg-misspelt-max-modle-len", "--max-modle-len", "not set", "8192"),
    ("arg-swap-space-unknown", "--swap-space", "not set", "4"),
    ("arg-utilization-percent", "--gpu-memory-utilization", "not set", "90"),
    ("mem-kv-bytes-too-small", "--kv-cache-memory-bytes", "not set", "67108864"),
    ("mem-kvspace-200", "VLLM_CPU_KVCACHE_SPACE", "1", "200"),
    ("mem-utilization-0.1", "--gpu-memory-utilization", "not set", "0.1"),
    ("model-quant-fp8-cpu", "--quantization", "not set", "fp8"),
    ("model-tp2-cpu", "--tensor-parallel-size", "not set", "2"),
    ("model-arch-unknown", "model", "/models/tiny", "/models/tiny-unknown-arch"),
    ("env-port-in-use", "--port", "8100", "8104"),
    ("env-cxx-missing", "CXX", "not set", "/usr/bin/g++-9"),
])
def test_the_changed_setting_comes_first(name, what, good, bad):
    assert changes_of(LOGS / f"{name}.log")[0] == (what, good, bad, True)


def test_a_log_against_itself_has_no_change():
    result = compare(GOOD, GOOD)
    assert "  No change against " in result.output
    assert changes_of(GOOD, GOOD) == []


def test_a_good_log_has_changes_and_none_explains():
    found = changes_of(GOOD, LOGS / "healthy" / "tiny-lora.log")
    assert found
    assert not any(explains for *_, explains in found)


def test_the_only_change_explains_a_failure_that_no_rule_knows(tmp_path):
    good, bad = tmp_path / "good.log", tmp_path / "bad.log"
    good.write_text(HEAD.format(version="0.11.0", args="{'model': 'm'}") + "INFO:     Application startup complete.\n")
    bad.write_text(HEAD.format(version="0.11.1", args="{'model': 'm'}")
                   + "(EngineCore_DP0 pid=2) ERROR 11-24 00:10:05 [core.py:708] FrobError: quite unknown\n")
    assert changes_of(bad, good) == [("vLLM release", "0.11.0", "0.11.1", True)]


def test_what_a_log_does_not_show_is_no_change(tmp_path):
    good, bad = tmp_path / "good.log", tmp_path / "bad.log"
    good.write_text(HEAD.format(version="0.11.0", args="{'model': 'm', 'block_size': 16}"))
    bad.write_text("vllm serve: error: argument --block-size: invalid choice: '17' (choose from 1, 8, 16)\n")
    assert changes_of(bad, good) == [("--block-size", "16", "17", True)]


def test_the_formats_show_the_changes():
    text = compare(LOGS / "mem-utilization-0.01.log").output
    assert "    ► --gpu-memory-utilization: not set → 0.01, explains the failure\n" in text
    assert "    · --port: 8100 → 8102\n" in text
    markdown = compare(LOGS / "mem-utilization-0.01.log", GOOD, "--format", "markdown").output
    assert "| \\--gpu-memory-utilization | not set | 0.01 | explains the failure |" in markdown
    html = compare(LOGS / "mem-utilization-0.01.log", GOOD, "--format", "html").output
    assert '<td>--gpu-memory-utilization <span class="badge error">explains the failure</span></td>' in html


def test_secrets_of_both_logs_stay_hidden(tmp_path):
    good, bad = tmp_path / "good.log", tmp_path / "bad.log"
    for path, key in ((good, "Zx81-good-key-12345"), (bad, "Zx82-bad-key-67890")):
        path.write_text(HEAD.format(version="0.11.0", args=f"{{'model': 'm', 'api_key': ['{key}'], 'served_model_name': '{key}'}}")
                        + "ERROR 11-24 00:10:05 [core.py:708] FrobError: quite unknown\n")
    for format_ in ("text", "json", "markdown", "html"):
        output = compare(bad, good, "--format", format_).output
        assert "good-key" not in output
        assert "bad-key" not in output


@pytest.mark.parametrize("arguments", [
    ["a.log", "b.log", "--against", str(GOOD)],
    [str(GOOD), "--together", "--against", str(GOOD)],
    [str(GOOD), "--against", "none.log"],
    [str(GOOD), "--against", str(GOOD), "--run", "all"],
])
def test_wrong_use_ends_with_status_2(arguments):
    assert click.testing.CliRunner().invoke(cli, ["diagnose", *arguments]).exit_code == 2


def test_a_release_that_prints_all_arguments_shows_the_default(tmp_path):
    line = "INFO 10-20 09:00:00 api_server.py:529] args: Namespace(model='m', max_num_seqs={}, swap_space=4)\n"
    good, bad = tmp_path / "good.log", tmp_path / "bad.log"
    good.write_text("INFO 10-20 09:00:00 api_server.py:528] vLLM API server version 0.6.3\n" + line.format(256))
    bad.write_text("INFO 10-20 09:00:00 api_server.py:528] vLLM API server version 0.6.3\n" + line.format(4096)
                   + "ERROR 10-20 09:00:10 engine.py:366] FrobError: quite unknown\n")
    assert changes_of(bad, good) == [("--max-num-seqs", "256", "4096", True)]


@pytest.mark.parametrize("arguments", [["--against", str(GOOD)], ["--together", str(GOOD)]])
def test_the_json_report_follows_the_schema(arguments):
    schema = json.loads((LOGS.parent.parent / "schema" / "report.schema.json").read_text())
    result = click.testing.CliRunner().invoke(
        cli, ["diagnose", str(LOGS / "mem-utilization-0.01.log"), "--format", "json", *arguments])
    jsonschema.Draft202012Validator(schema).validate(json.loads(result.output))


@pytest.mark.parametrize(("left", "right", "is_equal"), [
    ("/t/Chat.jinja", "/t/chat.jinja", False), ("org/model", "/org/model", False), ("/models/m/", "/models/m", True), (True, "true", True),
    (8192, 8192.0, True), (None, "None", False),
])
def test_values_are_equal(left, right, is_equal):
    assert _is_equal(left, right) is is_equal
