from __future__ import annotations

import gzip
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from model_configs import CONFIGS

from vllm_doctor.cli.root import cli

ROOT = Path(__file__).resolve().parents[2]
LOG = ROOT / "fixtures" / "logs" / "fatkv-cpu-space-1.log"
HEALTHY = ROOT / "fixtures" / "logs" / "healthy" / "tiny-start-stop.log"


def run(*arguments: str, data: bytes | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, list(arguments), input=data)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


SMALL_ON_TWO = """\
(VllmWorker rank=0 pid=31) INFO 06-01 10:00:00 [gpu_model_runner.py:1347] Model loading took 1.2216 GiB and 5.5 seconds
(VllmWorker rank=1 pid=32) INFO 06-01 10:00:00 [gpu_model_runner.py:1347] Model loading took 1.2216 GiB and 5.5 seconds
INFO 06-01 10:00:30 [kv_cache_utils.py:634] GPU KV cache size: 7,216 tokens
INFO 06-01 10:00:30 [kv_cache_utils.py:637] Maximum concurrency for 1,024 tokens per request: 7.05x
(VllmWorker rank=0 pid=31) INFO 06-01 10:01:10 [gpu_model_runner.py:1686] Graph capturing finished in 44 secs, took 1.99 GiB
(VllmWorker rank=1 pid=32) INFO 06-01 10:01:10 [gpu_model_runner.py:1686] Graph capturing finished in 44 secs, took 1.99 GiB
INFO 06-01 10:01:11 [core.py:159] init engine (profile, create kv cache, warmup model) took 74.74 seconds
"""
CARDS = """\
| 0 NVIDIA GeForce RTX 3080 On | 00000000:98:00.0 Off | N/A |
| 0% 30C P8 26W / 320W | 4546MiB / 20480MiB | 0% Default |
| 1 NVIDIA GeForce RTX 3080 On | 00000000:B1:00.0 Off | N/A |
| 0% 30C P8 21W / 320W | 4546MiB / 20480MiB | 0% Default |
"""


def memory_of(*arguments: str, data: str) -> dict[str, float]:
    _, out, _ = run("diagnose", "--format", "json", *arguments, data=data.encode())
    memory = json.loads(out)["memory"]
    return {part["name"]: part["gib"] for part in memory["parts"]} | {"device": memory["device_gib"]}


def test_what_the_card_shows_balances_the_memory(tmp_path: Path) -> None:
    (tmp_path / "smi.txt").write_text(CARDS)
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS["qwen3-8b"]))
    unknown = {"weights": 1.2216, "cuda_graphs": 1.99, "kv_cache_and_runtime": 1.2279, "free": 15.5606, "device": 20.0}
    model = ("--model-config", str(tmp_path))
    known = {"weights": 1.2216, "cuda_graphs": 1.99, "kv_cache": 0.4955, "runtime": 0.7323, "free": 15.5606, "device": 20.0}
    for arguments, log in (((), SMALL_ON_TWO + CARDS), (("--gpu-status", str(tmp_path / "smi.txt")), SMALL_ON_TWO),
                           (("--gpu-memory", "20", "--gpu-used", "4.4395"), SMALL_ON_TWO)):
        assert memory_of(*arguments, data=log) == pytest.approx(unknown, abs=0.001)
        assert memory_of(*arguments, *model, data=log) == pytest.approx(known, abs=0.001)
    assert sum(known.values()) - known["free"] - known["device"] == pytest.approx(4546 / 1024, abs=0.01)


@pytest.mark.parametrize("more", [[], ["--gpu-memory", "20"], ["--gpu-used", "4.44"], ["--gpu-used", "0.5"],
                                  ["--gpu-memory", "20", "--gpu-used", "4.44"], ["--gpu-memory", "20", "--gpu-used", "25"]])
def test_giving_more_never_shows_less(more: list[str]) -> None:
    shown = memory_of(*more, data=SMALL_ON_TWO)
    assert {"weights", "cuda_graphs"} <= set(shown)
    assert (shown["weights"], shown["cuda_graphs"]) == pytest.approx((1.2216, 1.99))


def test_a_model_with_windows_has_no_shape(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS["gemma-3-27b-text"]))
    status, _, err = run("diagnose", str(LOG), "--model-config", str(tmp_path))
    assert status == 2
    assert "its layers differ in what they cache" in err


def test_a_page_comes_from_standard_input() -> None:
    page = (ROOT / "tests" / "pages" / "documents" / "two-servers.md").read_bytes()
    _, out, _ = run("diagnose", "-", "--format", "json", data=page)
    report = json.loads(out)
    assert (report["primary"], report["source"]["run"]) == ("budget-too-small-for-weights-and-activations", 2)
    _, out, _ = run("diagnose", str(ROOT / "tests" / "pages" / "documents" / "two-servers.md"), "--run", "all",
                    "--format", "jsonl")
    assert [json.loads(line)["status"] for line in out.splitlines()] == ["serving", "failed"]


def test_exit_status() -> None:
    assert run("diagnose", str(LOG))[0] == 1
    assert run("diagnose", str(LOG), "--fail-on", "never")[0] == 0
    assert run("diagnose", str(HEALTHY))[0] == 0
    assert run("diagnose", str(HEALTHY), "-q")[1] == ""


@pytest.mark.parametrize(("arguments", "words"), [
    (["diagnose", "/nowhere/server.log"], "no such file"),
    (["diagnose", str(ROOT)], "is a directory"),
    (["diagnose", str(LOG), "--only", "kv-cache-to-small"], "did you mean"),
    (["diagnose", str(LOG), "--rules", "/nowhere"], "no such folder of rules"),
    (["diagnose", str(LOG), "--command", "ls -l"], "not one that starts vLLM"),
    (["diagnose", str(LOG), "--vllm-version", "new"], "not a version"),
    (["diagnose", str(LOG), "--run", "7"], "there is no run 7"),
    (["diagnose", str(LOG), "--config", "/nowhere.yaml"], "no such file"),
    (["diagnose", str(LOG), "--gpu-status", "/nowhere.txt"], "no such file"),
    (["diagnose", str(LOG), "--gpu-status", str(LOG)], "shows no GPU"),
    (["diagnose", str(LOG), "--model-config", "/nowhere"], "no such folder"),
    (["explain", "kv-cache-to-small"], "near: "),
    (["rules", "show", "nope"], "no rule has the id"),
])
def test_wrong_use_is_one_line(arguments: list[str], words: str) -> None:
    status, out, err = run(*arguments)
    assert status == 2
    assert out == ""
    assert words in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("arguments", [["diagnose", "--no-such-flag"], ["diagnose", "--run", "zero"], ["nonsense"]])
def test_wrong_flags_are_told(arguments: list[str]) -> None:
    status, _, err = run(*arguments)
    assert status == 2
    assert "Error:" in err


@pytest.mark.parametrize("data", [b"", bytes(range(256)) * 50, b"\xff\xfe", b"\n\n\n", b"hello\n"])
def test_what_is_no_log_is_told_so(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(data)
    status, out, _ = run("diagnose", str(path))
    assert status == 0
    assert out == "· No output of a vLLM server in this log\n"


def test_a_broken_rule_file_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("id: mine\ntitle: x\nseverty: error\n", encoding="utf-8")
    status, _, err = run("diagnose", str(LOG), "--rules", str(tmp_path))
    assert status == 2
    assert err.strip() == f"vllm-doctor: {path}:3:1: the rule has no key `severty`; did you mean `severity`?"


def test_standard_input_and_compressed_files(tmp_path: Path) -> None:
    plain = json.loads(run("diagnose", str(LOG), "--format", "json")[1])
    piped = json.loads(run("diagnose", "--format", "json", data=LOG.read_bytes())[1])
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(LOG.read_bytes()))
    packed = json.loads(run("diagnose", str(path), "--format", "json")[1])
    for other in (piped, packed):
        assert other["source"].pop("path") != plain["source"]["path"]
        assert other["findings"] == plain["findings"]


def test_several_logs(tmp_path: Path) -> None:
    status, out, _ = run("diagnose", str(LOG), str(HEALTHY), "--format", "json")
    assert status == 1
    assert [report["status"] for report in json.loads(out)["reports"]] == ["failed", "stopped"]
    lines = run("diagnose", str(LOG), str(HEALTHY), "--format", "jsonl")[1].splitlines()
    assert [json.loads(line)["source"]["path"] for line in lines] == [str(LOG), str(HEALTHY)]
    target = tmp_path / "report.json"
    assert run("diagnose", str(LOG), "--format", "json", "--output", str(target))[1] == ""
    assert json.loads(target.read_text())["primary"]


def test_colours_only_when_asked() -> None:
    assert "\x1b[" not in run("diagnose", str(LOG))[1]
    out = run("diagnose", str(LOG), "--color", "always")[1]
    assert out.startswith("\x1b[1;31m✗\x1b[0m \x1b[1mCPU KV cache too small for --max-model-len 131072\x1b[0m\n")
    assert out.splitlines()[0].count("\x1b[") == 4


def test_a_warning_has_its_own_color() -> None:
    warned = STALLED + b"INFO 05-06 10:00:11 [api_server.py:1] Started server process\n"
    err = slowly(warned, 2, "--stall-after", "1", "--color", "always", until=b"stalled")
    assert b"\x1b[1;33m!\x1b[0m \x1b[1mThe start is stalled\x1b[0m\n" in err


def test_width_is_kept() -> None:
    out = run("diagnose", str(LOG), "--width", "60")[1]
    prose = [line for line in out.splitlines() if "vllm serve" not in line]
    assert max(len(line) for line in prose) <= 60, max(prose, key=len)


@pytest.mark.parametrize("name", ["kv-cache-too-small-for-max-len", "--max-num-seqs", "kv_cache_tokens", "-tp"])
def test_explain(name: str) -> None:
    status, out, _ = run("explain", name)
    assert status == 0
    assert out.startswith("# ")


def watch(log: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "vllm_doctor", "watch", *arguments], input=log, capture_output=True,
                          timeout=60, check=False)


def test_watch_passes_every_byte_and_reports_on_stderr() -> None:
    log = LOG.read_bytes() + bytes(range(256))
    done = watch(log)
    assert done.stdout == log
    assert done.returncode == 1
    assert b"cpu-kv-cache-space-too-small" in done.stderr


def test_watch_is_silent_on_a_healthy_log() -> None:
    done = watch(HEALTHY.read_bytes())
    assert (done.stdout, done.stderr, done.returncode) == (HEALTHY.read_bytes(), b"", 0)


def test_watch_with_wrong_use_ends_with_two() -> None:
    assert watch(b"", "--nope").returncode == 2


def test_run_keeps_the_commands_own_status() -> None:
    done = subprocess.run([sys.executable, "-m", "vllm_doctor", "run", "--", sys.executable, "-c",
                           "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"],
                          capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


@pytest.mark.parametrize(("rule_id", "words"), [
    ("cpu-kv-cache-space-too-small", "fires: line"),
    ("kv-cache-too-small-for-max-len", "`cpu-kv-cache-space-too-small` refines it"),
    ("model-weights-exceed-gpu-memory", "none of its patterns is in the log"),
])
def test_why(rule_id: str, words: str) -> None:
    status, out, _ = run("diagnose", str(LOG), "--why", rule_id)
    assert status == 0
    assert words in out


def test_why_writes_no_report_and_no_command_of_a_ci_runner(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(LOG.read_bytes().replace(b"ValueError: To serve", b"ValueError: ##[error] To serve"))
    status, out, _ = run("diagnose", str(log), "--why", "cpu-kv-cache-space-too-small")
    assert status == 0
    assert "##[error]" not in out
    for options in (["--output", "x"], ["--report", "json=x"]):
        assert run("diagnose", str(LOG), "--why", "cpu-kv-cache-space-too-small", *options)[0] == 2


def test_verbose_says_what_was_recognised() -> None:
    out = run("diagnose", str(LOG), "-v")[1]
    assert "Encoding utf-8; wrappers: none." in out
    assert "vLLM 0.32.0, from line" in out


@pytest.mark.parametrize(("old", "new", "problem"), [
    ("pattern: something is wrong", "pattern: (something is wrong", "is not a valid regular expression"),
    ("fixes:", "let: {a: 9 ** 9}\nfixes:", "is not part of the language"),
])
def test_a_rule_that_could_not_be_used_is_refused_at_once(tmp_path: Path, old: str, new: str, problem: str) -> None:
    from test_schema import GOOD

    (tmp_path / "my-rule.yaml").write_text(GOOD.replace(old, new, 1), encoding="utf-8")
    status, _, err = run("diagnose", str(LOG), "--rules", str(tmp_path))
    assert status == 2
    assert problem in err
    assert err.startswith(f"vllm-doctor: {tmp_path}/my-rule.yaml:")


def slowly(log: bytes, pause: float, *arguments: str, until: bytes = b"") -> bytes:
    """What `watch` says of a log that pauses, once it has said `until` (on a busy machine that takes as long as it takes)."""
    with subprocess.Popen([sys.executable, "-m", "vllm_doctor", "watch", *arguments], stdin=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        process.stdin.write(log)
        process.stdin.flush()
        said, give_up = b"", time.monotonic() + 60
        while until not in said and time.monotonic() < give_up and process.poll() is None:
            if select.select([process.stderr], [], [], 1)[0]:
                said += os.read(process.stderr.fileno(), 65536)
        time.sleep(pause)
        return said + process.communicate(timeout=60)[1]


IS_STALLED = b"The start is stalled"
STALLED = (b"INFO 05-06 10:00:00 [api_server.py:1] vLLM API server version 0.8.5\n"
           b"INFO 05-06 10:00:03 [core.py:58] Initializing a V1 LLM engine (v0.8.5) with config: model='m', "
           b"tensor_parallel_size=2\nINFO 05-06 10:00:09 [gpu_model_runner.py:1] Starting to load model m...\n")


def test_a_start_that_stands_still_is_told_once() -> None:
    err = slowly(STALLED, 2, "--stall-after", "1", until=IS_STALLED)
    assert err.count(b"! The start is stalled\n  No log line for ") == 1
    assert b" s in phase weights. " in err


def test_ranks_that_wait_for_each_other_are_told_with_their_fixes() -> None:
    log = STALLED.replace(b"[gpu_model_runner.py:1] Starting to load model m...", b"[pynccl.py:69] vLLM is using nccl==2.21.5")
    err = slowly(log, 0, "--stall-after", "1", until=IS_STALLED)
    assert b"nccl-p2p-hang" in err.partition(IS_STALLED)[2]


@pytest.mark.parametrize("arguments", [[], ["--stall-after", "0"]])
def test_a_slow_start_is_no_stall(arguments: list[str]) -> None:
    assert slowly(STALLED, 2, *arguments) == b""


def test_an_idle_server_is_no_stall() -> None:
    assert slowly(HEALTHY.read_bytes().partition(b"shutdown triggered")[0], 3, "--stall-after", "1") == b""


def test_a_start_that_stands_still_before_its_first_marker_is_told_once() -> None:
    err = slowly(b"Triton is installed, but doesn't include CPU backend. Disabling Triton.\n", 2, "--stall-after", "1", until=IS_STALLED)
    assert err.count(b"! The start is stalled\n  No log line for ") == 1
