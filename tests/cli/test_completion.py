"""Shell completion: the scripts, and what they offer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_schema import GOOD

from vllm_doctor.cli.root import cli

SHELLS = ("bash", "zsh", "fish")


def script(shell: str) -> str:
    result = CliRunner().invoke(cli, ["completion", shell])
    assert result.exit_code == 0, result.output
    return result.stdout


def offered(words: str, shell: str = "bash") -> list[str]:
    """What is offered for the last word of a line."""
    parts = words.split(" ")
    env = {"_VLLM_DOCTOR_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(parts) - 1)}
    result = CliRunner(env=env).invoke(cli, prog_name="vllm-doctor")
    return [line.partition(",")[2] for line in result.stdout.splitlines() if line]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_calls_the_command(shell: str) -> None:
    assert f"_VLLM_DOCTOR_COMPLETE={shell}_complete" in script(shell)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_takes_the_script(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    path = tmp_path / "script"
    path.write_text(script(shell), encoding="utf-8")
    assert subprocess.run([shell, "-n", str(path)], capture_output=True, check=False).returncode == 0


def test_another_shell_is_wrong_use() -> None:
    assert CliRunner().invoke(cli, ["completion", "tcsh"]).exit_code == 2


def test_bash_completes_for_real(tmp_path: Path) -> None:
    command = tmp_path / "vllm-doctor"
    command.write_text(f"#!{sys.executable}\nfrom vllm_doctor.cli import main\nmain()\n", encoding="utf-8")
    command.chmod(0o755)
    ask = ('eval "$(vllm-doctor completion bash)"; COMP_WORDS=(vllm-doctor diagnose --only cpu-kv); COMP_CWORD=3; '
           '_vllm_doctor_completion vllm-doctor; printf "%s\\n" "${COMPREPLY[@]}"; complete -p vllm-doctor')
    done = subprocess.run(["bash", "--norc", "-c", ask], env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, cwd=tmp_path,
                          capture_output=True, text=True, timeout=60, check=True)
    *ids, registered = done.stdout.splitlines()
    assert "cpu-kv-cache-space-too-small" in ids
    assert all(rule_id.startswith("cpu-kv") for rule_id in ids)
    assert registered == "complete -o nosort -F _vllm_doctor_completion vllm-doctor"


@pytest.mark.parametrize("words", ["vllm-doctor diagnose --only cpu-kv-cache-sp", "vllm-doctor diagnose --ignore cpu-kv-cache-sp",
                                   "vllm-doctor diagnose x.log --why cpu-kv-cache-sp", "vllm-doctor watch --only cpu-kv-cache-sp",
                                   "vllm-doctor explain cpu-kv-cache-sp"])
def test_rule_ids(words: str) -> None:
    assert offered(words) == ["cpu-kv-cache-space-too-small"]


def test_commands_options_and_choices() -> None:
    assert {"diagnose", "watch", "web", "completion"} <= set(offered("vllm-doctor "))
    assert offered("vllm-doctor diagnose --fail") == ["--fail-on"]
    assert offered("vllm-doctor diagnose --format ma") == ["markdown"]


def test_own_rules_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "my-rule.yaml").write_text(GOOD, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert offered("vllm-doctor diagnose --only my-r") == []
    assert offered("vllm-doctor diagnose --rules rules --only my-r") == ["my-rule"]
    (tmp_path / "vllm-doctor.toml").write_text('rules = ["rules"]\n', encoding="utf-8")
    assert offered("vllm-doctor diagnose --only my-r") == ["my-rule"]
    (tmp_path / "vllm-doctor.toml").write_text("broken", encoding="utf-8")
    assert offered("vllm-doctor diagnose --only cpu-kv-cache-sp") == ["cpu-kv-cache-space-too-small"]
