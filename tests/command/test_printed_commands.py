"""Every command that a report prints: it is valid shell, and it asks for a change that the user has not made."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from report_texts import fixes, reports

from vllm_doctor.authoring import template_outline
from vllm_doctor.rulebase.loader import builtin

PROGRAMS = ["apt-get", "cat", "chmod", "conda", "curl", "df", "dmesg", "dnf", "docker", "echo", "env", "export", "find", "fuser", "getconf", "git", "grep", "hf", "hl-smi", "huggingface-cli", "ip", "journalctl", "kill", "kubectl", "ldconfig", "ldd", "ls", "lsof", "lspci", "mkdir", "modelscope", "modprobe", "mount", "nc", "ninja", "nproc", "npu-smi", "numactl", "nvcc", "nvidia-smi", "pip", "podman", "py-spy", "python", "python3", "ray", "rocm-smi", "rm", "sha256sum", "source", "ss", "sudo", "sync", "sysctl", "systemctl", "taskset", "torchrun", "ucx_info", "ulimit", "uname", "unset", "uv", "vllm", "xpu-smi", "yum"]
COMMAND = re.compile(rf"(?:[A-Z_]+=\S+ )*(?:{'|'.join(PROGRAMS)})(?= |$)")
UNQUOTED = re.compile(r"""^(?:[^'"#]|'[^']*'|"[^"]*")*?[\w.\]][<>]=?\d""")
NVIDIA = re.compile(r"\b(?:nvidia-smi|nvcc|CUDA_VISIBLE_DEVICES|cuda-compat)\b")


def syntax_errors(commands: list[str], folder: Path) -> list[str]:
    """Return the commands that `bash -n` rejects, all checked in one process."""
    for number, text in enumerate(commands):
        (folder / f"{number}.sh").write_text(text + "\n", encoding="utf-8")
    done = subprocess.run(["bash", "-c", 'for file in *.sh; do bash -n "$file" 2>/dev/null || echo "${file%.sh}"; done'], cwd=folder,
                          capture_output=True, text=True, check=True)
    return [commands[int(number)] for number in done.stdout.split()]


def printed() -> dict[str, str]:
    """Return command -> where it is printed: corrected commands and the shell lines among the steps."""
    found: dict[str, str] = {}
    for name, report in reports().items():
        for fix in fixes(report):
            lines = [*([fix.command] if fix.command and report.command and "\n" not in fix.command else []),
                     *(step for step in fix.steps if COMMAND.match(step))]
            found.update(dict.fromkeys(lines, f"{name}: {fix.id}"))
    for action in builtin().actions.values():
        for step in action.steps:
            for line in template_outline.steps(step):
                text = re.sub(r"<\w+>", "VALUE", re.sub(r"^(?:On (?:CUDA|ROCm|XPU|TPU|CPU|Gaudi|Ascend NPU)|Elsewhere): ", "", line))
                if COMMAND.match(text):
                    found.setdefault(text, f"action {action.id}")
    return found


def test_the_check_can_fail(tmp_path: Path) -> None:
    assert syntax_errors(["pip install 'x>=1'", "echo (a note)", "ls 'open"], tmp_path) == ["echo (a note)", "ls 'open"]
    assert UNQUOTED.match("pip install vllm>=0.9")
    assert not UNQUOTED.match("pip install 'vllm>=0.9'  # >=0.8 works as well")


def test_bash_accepts_every_command(tmp_path: Path) -> None:
    commands = printed()
    assert len(commands) > 300
    assert [(commands[text], text) for text in syntax_errors(list(commands), tmp_path)] == []


def test_no_version_becomes_a_redirection() -> None:
    assert [(where, text) for text, where in printed().items() if UNQUOTED.match(text)] == []


def test_no_process_is_killed_by_its_name() -> None:
    assert [(where, text) for text, where in printed().items() if re.search(r"\b(?:pkill|killall)\b", text)] == []


@pytest.mark.parametrize("device", ["rocm", "npu", "xpu", "tpu", "hpu", "cpu"])
def test_no_nvidia_step_on_another_platform(device: str) -> None:
    found = [(name, fix.id, text) for name, report in reports().items() if report.facts.get("device") == device
             for fix in fixes(report) for text in (fix.title, *fix.steps) if NVIDIA.search(text)]
    assert found == []


def test_a_fix_changes_something() -> None:
    """No fix repeats the shown command."""
    for name, report in reports().items():
        for fix in fixes(report):
            if fix.command is None or report.command is None:
                continue
            assert fix.command != report.command, (name, fix.id)
