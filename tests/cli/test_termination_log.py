"""`run --termination-log`: the cause in a pod's status."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from report_sample import CAUSE, FAILED, HEALTHY, UNEXPLAINED

from vllm_doctor.reports import termination_message
from vllm_doctor.reports.model import Evidence

ROOT = Path(__file__).resolve().parents[2]
LOG = ROOT / "fixtures" / "logs" / "fatkv-cpu-space-1.log"


def run(log: Path, target: Path, status: int = 1) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "vllm_doctor", "run", "--isolated", "--termination-log", str(target), "--", "sh", "-c",
                           f"cat '{log}'; exit {status}"], cwd=ROOT, capture_output=True, timeout=120, check=False)


def test_the_cause_and_its_fix_are_in_the_file(tmp_path: Path) -> None:
    target = tmp_path / "termination-log"
    target.write_bytes(b"")  # it is there already, as Kubernetes mounts it
    inode = target.stat().st_ino
    done = run(LOG, target, 3)
    assert done.returncode == 3
    assert done.stdout == LOG.read_bytes()
    lines = target.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "CPU KV cache too small for --max-model-len 131072"
    assert "VLLM_CPU_KVCACHE_SPACE=1 vllm serve /models/fatkv --port 8100 --max-model-len 8064" in lines
    assert target.stat().st_ino == inode


def test_a_server_that_was_well_leaves_it_empty(tmp_path: Path) -> None:
    target = tmp_path / "termination-log"
    assert run(ROOT / "fixtures" / "logs" / "healthy" / "tiny-awq-serving.log", target, 0).returncode == 0
    assert not target.exists()


def test_a_file_that_cannot_be_written_does_not_change_the_status(tmp_path: Path) -> None:
    done = run(LOG, tmp_path / "none" / "termination-log", 7)
    assert done.returncode == 7
    assert b"vllm-doctor: " in done.stderr.splitlines()[-1]


def test_secrets_are_masked_and_nothing_is_a_control_sequence(tmp_path: Path) -> None:
    secret = b"hf_" + b"Zq7" * 11 + b"a"
    log, target = tmp_path / "server.log", tmp_path / "termination-log"
    log.write_bytes(LOG.read_bytes().replace(b"vllm serve", b"HF_TOKEN=" + secret + b" vllm serve", 1).replace(
        b"ValueError: To serve", b"ValueError: \x1b[31m" + secret + b" To serve"))
    run(log, target)
    text = target.read_bytes()
    assert b"CPU KV cache" in text
    assert secret not in text
    assert b"\x1b" not in text


@pytest.mark.parametrize("report", [FAILED, UNEXPLAINED])
def test_it_keeps_to_what_kubernetes_takes_and_cuts_no_command(report) -> None:
    long = "ü" * 1500
    fix = CAUSE.fixes[0]._replace(command="vllm serve " + "x" * 5000)
    cause = CAUSE._replace(explanation=long, evidence=(Evidence(1, long),), fixes=(fix,))
    text = termination_message.render(report._replace(findings=(cause,) if report.findings else ()))
    assert 0 < len(text.encode()) <= 4096
    assert "vllm serve x" not in text
    assert termination_message.render(report).endswith("\n")


def test_a_healthy_server_has_no_message() -> None:
    assert termination_message.render(HEALTHY) == ""
