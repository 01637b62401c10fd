"""The five minutes of a newcomer: draft from a log, test, lint, use."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from vllm_doctor.cli.root import cli

LOG = """\
INFO 05-06 10:00:00 [api_server.py:1042] vLLM API server version 0.8.5
ERROR 05-06 10:00:09 [core.py:396] EngineCore failed to start.
ERROR 05-06 10:00:09 [core.py:396] Traceback (most recent call last):
ERROR 05-06 10:00:09 [core.py:396]   File "/opt/venv/vllm/v1/engine/core.py", line 387, in run_engine_core
ERROR 05-06 10:00:09 [core.py:396]     engine_core = EngineCoreProc(*args, **kwargs)
ERROR 05-06 10:00:09 [core.py:396] ValueError: The frobnicator supports at most 8 widgets, but 12 were given.
RuntimeError: Engine core initialization failed. See root cause above.
"""


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, list(arguments))
    return result.exit_code, result.output


def test_from_a_log_to_a_rule_that_fires(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(LOG, encoding="utf-8")
    assert "No rule explains it yet" in run("diagnose", str(log))[1]
    mine = tmp_path / "mine"
    assert run("rules", "new", "too-many-widgets", "--from", str(log), "--into", str(mine))[0] == 0
    rule = mine / "too-many-widgets.yaml"
    assert "supports at most [\\d.,]+ widgets, but [\\d.,]+ were given" in rule.read_text(encoding="utf-8")
    assert run("rules", "test", str(rule)) == (0, "2 passed, 0 failed\n")
    assert run("rules", "lint", str(rule)) == (0, "1 rules, 0 problems\n")
    status, out = run("diagnose", str(log), "--rules", str(mine))
    assert status == 1
    assert re.search(r"rule too-many-widgets ·", out)


def test_the_line_can_be_named_and_must_exist(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(LOG, encoding="utf-8")
    assert run("rules", "new", "a", "--from", str(log), "--line", "2", "--into", str(tmp_path))[0] == 0
    assert "EngineCore failed to start" in (tmp_path / "a.yaml").read_text(encoding="utf-8")
    assert "there is no line 99" in run("rules", "new", "b", "--from", str(log), "--line", "99")[1]
    assert "exists already" in run("rules", "new", "a", "--from", str(log), "--into", str(tmp_path))[1]
    assert "is no id" in run("rules", "new", "Not An Id", "--into", str(tmp_path))[1]


def test_a_secret_in_the_line_does_not_get_into_the_rule(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("RuntimeError: bad token hf_abcdefghijklmnopqrstuvwxyz0123456789\n", encoding="utf-8")
    assert run("rules", "new", "a", "--from", str(log), "--line", "1", "--into", str(tmp_path))[0] == 0
    assert "abcdefghijklmnop" not in (tmp_path / "a.yaml").read_text(encoding="utf-8")


def test_bless_writes_what_comes_out_and_keeps_what_a_person_wrote(tmp_path: Path) -> None:
    import yaml

    log = tmp_path / "server.log"
    log.write_text("ERROR 05-06 10:00:01 [core.py:489] ValueError: To serve at least one request with the model's max seq "
                   "len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory "
                   "(4.00 GiB). Based on the available memory, the estimated maximum model length is 32752.\n", encoding="utf-8")
    assert run("rules", "bless", str(log))[0] == 0
    expect = yaml.safe_load((tmp_path / "server.yaml").read_text(encoding="utf-8"))["expect"]
    assert expect["primary"] == "kv-cache-too-small-for-max-len"
    assert expect["facts"]["estimated_max_model_len"] == 32752
    assert expect["fix_any_of"][0]["flag"] == "--max-model-len"
    status, out = run("rules", "bless", str(log))
    assert (status, "exists already" in out) == (2, True)


def test_a_built_in_rule_is_tested_as_it_is_used() -> None:
    rule = Path(__file__).resolve().parents[2] / "rules" / "args" / "flag-value-invalid.yaml"
    tests = sum(line.startswith("  - name: ") for line in rule.read_text(encoding="utf-8").splitlines())
    assert run("rules", "test", str(rule)) == (0, f"{tests} passed, 0 failed\n")


def test_a_draft_matches_quoted_names_with_blanks_and_others_of_their_kind(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("ValueError: Can't frobnicate the tensor 'my widget' of 7 bolts, which don't have \"any thread\" at all\n", encoding="utf-8")
    assert run("rules", "new", "a", "--from", str(log), "--line", "1", "--into", str(tmp_path))[0] == 0
    rule = tmp_path / "a.yaml"
    assert run("rules", "test", str(rule)) == (0, "2 passed, 0 failed\n")
    log.write_text("ValueError: Can't frobnicate the tensor 'layers.0' of 12 bolts, which don't have \"a head\" at all\n", encoding="utf-8")
    assert "rule a ·" in run("diagnose", str(log), "--rules", str(tmp_path))[1]
