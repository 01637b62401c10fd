"""What people pipe in: `gh run view --log-failed`, `kubectl logs --previous`, `pbpaste`; the frames are as those tools write them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from vllm_doctor import diagnose
from vllm_doctor.reports.model import Report

ROOT = Path(__file__).resolve().parents[2]
LOG = (ROOT / "fixtures" / "logs" / "fatkv-cpu-space-1.log").read_text(encoding="utf-8")
PROMPT, BODY = LOG.splitlines()[0], LOG.splitlines()[1:]
CAUSE = "cpu-kv-cache-space-too-small"


def numbers(first: int = 0) -> list[str]:
    """Seven digits of a second, one a line."""
    return [f"{first + number:07d}" for number in range(len(BODY) + 20)]


def gh(job: str, step: str, *, until: str = "Process completed with exit code 1.") -> str:
    """GitHub CLI: job TAB step TAB stamp message; a byte-order mark starts each step's file."""
    lines = ["##[group]Run vllm serve /models/fatkv --port 8100", "\x1b[36;1mvllm serve /models/fatkv --port 8100\x1b[0m",
             "shell: /usr/bin/bash -e {0}", "env:", "  VLLM_CPU_KVCACHE_SPACE: 1", "  pythonLocation: /opt/hostedtoolcache/Python/3.12.8/x64",
             "##[endgroup]", *BODY, f"##[error]{until}"]
    stamped = [f"2026-05-06T10:00:01.{fraction}Z {line}" for fraction, line in zip(numbers(), lines, strict=False)]
    stamped[0] = "\ufeff" + stamped[0]
    return "".join(f"{job}\t{step}\t{line}\n" for line in stamped)


def kubectl(*, timestamps: bool, prefix: bool = False, notice: str = "") -> str:
    pod = "[pod/vllm-6c9f7d8b5f-tq2xj/vllm] " if prefix else ""
    lines = [f"2026-02-14T02:04:00.{fraction}89Z {line}" if timestamps else line for fraction, line in zip(numbers(), BODY, strict=False)]
    return notice + "".join(f"{pod}{line}\n" for line in lines)


def terminal(width: int) -> list[str]:
    """What a terminal of that width gives to the clipboard: long lines broken."""
    return [line[start:start + width] for line in [PROMPT, *BODY] for start in range(0, max(1, len(line)), width)]


PASTES = {
    "gh run view --log-failed": gh("serve (3.12)", "Start vLLM"),
    "gh run view --log-failed, steps unknown": gh("serve", "UNKNOWN STEP"),
    "gh, a job with spaces and slashes": gh("e2e / gpu (L4, 24 GiB)", "Run vllm serve /models/fatkv --port 8100"),
    "kubectl logs --previous --timestamps": kubectl(timestamps=True),
    "kubectl logs --previous": kubectl(timestamps=False),
    "kubectl logs --previous --all-containers --prefix --timestamps": kubectl(timestamps=True, prefix=True),
    "kubectl logs --previous, its notice pasted along": kubectl(timestamps=True, notice='Defaulted container "vllm" out of: vllm, istio-proxy\n'),
    "pbpaste": LOG.rstrip("\n"),
    "pbpaste, Windows line ends": LOG.replace("\n", "\r\n"),
    "pbpaste of a terminal of 120 columns": "\n".join(terminal(120)),
    "pbpaste of an issue's code block": f"Here is what I get:\n\n```text\n{LOG}```\n\nvLLM was installed with pip, any idea?\n",
    "pbpaste of a quoted mail": "".join(f"> {line}\n" for line in [PROMPT, *BODY]),
}


def told(text: str) -> Report:
    return diagnose(text.encode("utf-8"))


@pytest.mark.parametrize("name", PASTES)
def test_the_cause_is_found(name: str) -> None:
    report = told(PASTES[name])
    assert report.primary == CAUSE
    assert report.facts["max_model_len"] == 131072
    assert report.facts["vllm_version"] == "0.32.0"
    assert report.facts["kv_cache_available_gib"] == pytest.approx(0.98)
    assert report.cause.fixes[0].flags["--max-model-len"] == "8064"


@pytest.mark.parametrize("name", PASTES)
def test_the_evidence_stands_bare_with_its_line(name: str) -> None:
    evidence = told(PASTES[name]).cause.evidence[0]
    assert evidence.text.startswith("ValueError: To serve at least one request with the model's max seq len (131072)")
    assert "at least one request" in PASTES[name].splitlines()[evidence.line - 1]


@pytest.mark.parametrize("name", [name for name in PASTES if name.startswith("gh")])
def test_the_command_of_a_workflow_is_corrected(name: str) -> None:
    assert "vllm serve /models/fatkv --port 8100 --max-model-len 8064" in told(PASTES[name]).cause.fixes[0].command


@pytest.mark.parametrize("name", [name for name in PASTES if name.startswith("pbpaste")])
def test_the_command_at_the_prompt_is_corrected(name: str) -> None:
    assert told(PASTES[name]).cause.fixes[0].command == "VLLM_CPU_KVCACHE_SPACE=1 vllm serve /models/fatkv --port 8100 --max-model-len 8064"


@pytest.mark.parametrize("name", ["gh run view --log-failed", "kubectl logs --previous --timestamps", "pbpaste"])
def test_through_a_pipe(name: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "vllm_doctor", "diagnose"], input=PASTES[name].encode("utf-8"), capture_output=True, cwd=tmp_path,
                          timeout=60, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith("✗ CPU KV cache too small for --max-model-len 131072\n".encode())


def test_two_jobs_that_failed_are_kept_apart() -> None:
    report = told(gh("serve (3.11)", "Start vLLM") + gh("serve (3.12)", "Start vLLM"))
    assert report.primary == CAUSE
    assert report.source.runs == 2
