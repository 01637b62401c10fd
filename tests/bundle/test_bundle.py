"""`vllm-doctor bundle`: what is in the archive, and what is not."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from urllib.parse import unquote

from click.testing import CliRunner

from vllm_doctor.bundle import archive
from vllm_doctor.cli.root import cli

LOG = ("$ vllm serve /models/m --api-key Se7retValue9xQ\n"
       "INFO 11-20 10:00:00 [api_server.py:1837] vLLM API server version 0.14.1\n"
       "INFO 11-20 10:00:01 token hf_abcdefghijklmnopqrstuvwxyz012345AB\n"
       "Se7retValue9xQ stands here again\n"
       "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.\n")
NAMES = ["ISSUE.md", "report.md", "report.json", "server.log", "versions.txt"]


def bundled(tmp_path: Path, log: str, *options: str) -> dict[str, str]:
    source, archive = tmp_path / "server.log", tmp_path / "b.zip"
    source.write_text(log)
    done = CliRunner().invoke(cli, ["bundle", str(source), "--output", str(archive), "--isolated", *options])
    assert done.exit_code == 0, done.output
    with zipfile.ZipFile(archive) as opened:
        return {name.partition("/")[2]: opened.read(name).decode() for name in opened.namelist()}


def test_the_files(tmp_path: Path) -> None:
    files = bundled(tmp_path, LOG)
    assert list(files) == NAMES
    assert json.loads(files["report.json"])["primary"] == "budget-too-small-for-weights-and-activations"
    assert files["server.log"].count("\n") == LOG.count("\n")
    assert "| vLLM | 0.14.1 |" in files["ISSUE.md"]
    assert "| Model | /models/m |" in files["ISSUE.md"]


def test_no_secret_is_in_any_of_them(tmp_path: Path) -> None:
    for name, text in bundled(tmp_path, LOG).items():
        assert "Se7retValue9xQ" not in text, name
        assert "hf_abcdef" not in text, name


def test_the_same_log_gives_the_same_archive(tmp_path: Path) -> None:
    bundled(tmp_path, LOG)
    first = (tmp_path / "b.zip").read_bytes()
    (tmp_path / "b.zip").unlink()
    bundled(tmp_path, LOG)
    assert (tmp_path / "b.zip").read_bytes() == first


def test_a_file_that_exists_is_kept(tmp_path: Path) -> None:
    bundled(tmp_path, LOG)
    done = CliRunner().invoke(cli, ["bundle", str(tmp_path / "server.log"), "--output", str(tmp_path / "b.zip")])
    assert (done.exit_code, done.stderr) == (2, f"vllm-doctor: {tmp_path}/b.zip: file exists\n")


def test_an_archive_for_others_shows_no_secrets(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["bundle", str(tmp_path), "--show-secrets"])
    assert (done.exit_code, done.stderr) == (
        2, "vllm-doctor: the archive is for others: it is not made with --show-secrets\n")


def test_the_middle_of_a_long_log_is_left_out(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(archive, "FIRST_BYTES", 200)
    monkeypatch.setattr(archive, "LAST_BYTES", 200)
    text = bundled(tmp_path, LOG + "INFO a line\n" * 100 + "the last line\n")["server.log"]
    assert len(text) < 500
    assert text.startswith("$ vllm serve /models/m --api-key ***")
    assert "[vllm-doctor left out " in text
    assert text.endswith("the last line\n")


def test_the_issue_quotes_what_failed_as_a_block(tmp_path: Path) -> None:
    log = 'Traceback (most recent call last):\n  File "/a/b.py", line 3, in f\n    g()\nFrobError: see ``` @everyone # hi\n'
    issue = bundled(tmp_path, log)["ISSUE.md"]
    before, block, _ = issue.split("````")
    assert "FrobError: see ``` @everyone # hi" in block
    assert "@everyone" not in before


def test_an_issue_for_vllm_has_its_title_in_the_address(tmp_path: Path) -> None:
    [address] = re.findall(r"https://github\.com/vllm-project/vllm/issues/new\?title=(\S+)", bundled(tmp_path, LOG)["ISSUE.md"])
    assert unquote(address) == "No memory left for the KV cache"


def test_a_title_of_the_log_carries_no_secret_and_no_mark_into_the_address(tmp_path: Path) -> None:
    log = ("$ vllm serve /models/m --api-key Se7retValue9xQ\nTraceback (most recent call last):\n"
           '  File "/opt/venv/lib/python3.12/site-packages/vllm/x.py", line 1, in f\n    f()\n'
           "OddError: --> <b>&body=x#y hf_abcdefghijklmnopqrstuvwxyz012345AB Se7retValue9xQ\n")
    text = bundled(tmp_path, log)["ISSUE.md"]
    [address] = re.findall(r"issues/new\?title=(\S+)", text)
    assert re.fullmatch(r"[\w.~%-]+", address)
    assert text.split("-->", 1)[0].endswith("yours may be of another kind. ")
    assert "hf_abcdef" not in unquote(address)
    assert "Se7retValue9xQ" not in unquote(address)
    assert len(address) < 1000
