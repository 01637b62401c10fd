"""docs/holmesgpt-toolset.yaml, filled in as HolmesGPT does (each parameter quoted for the shell) and run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import Environment

ROOT = Path(__file__).parents[2]
[(NAME, TOOLSET)] = yaml.safe_load((ROOT / "docs" / "holmesgpt-toolset.yaml").read_text(encoding="utf-8"))["toolsets"].items()
TOOLS: dict[str, dict[str, Any]] = {tool["name"]: tool for tool in TOOLSET["tools"]}


def run(tmp_path: Path, command: str, values: dict[str, str], program: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "vllm-doctor"
    script.write_text(f"#!/bin/sh\n{program}\n")
    script.chmod(0o755)
    filled = Environment(autoescape=False).from_string(command).render({name: shlex.quote(value) for name, value in values.items()})  # noqa: S701
    return subprocess.run(filled, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False,  # noqa: S602 - as HolmesGPT
                          env={**os.environ, "PATH": str(tmp_path), "PYTHONPATH": str(ROOT)})


def test_its_form() -> None:
    assert NAME == "vllm-doctor"
    assert set(TOOLSET) <= {"description", "tags", "prerequisites", "llm_instructions", "tools"}
    assert set(TOOLSET["tags"]) <= {"core", "cluster", "cli"}
    assert all(set(tool) == {"name", "description", "command"} for tool in TOOLS.values())


@pytest.mark.parametrize("tool", TOOLS)
def test_what_a_model_writes_stays_one_argument(tool: str, tmp_path: Path) -> None:
    command = TOOLS[tool]["command"]
    names = re.findall(r"\{\{\s*(\w+)", command)
    done = run(tmp_path, command, dict.fromkeys(names, "$(touch evil); `x` 'y' --all"), 'for word in "$@"; do echo "[$word]"; done')
    assert done.stderr == ""
    assert not (tmp_path / "evil").exists()
    assert done.stdout.count("$(touch evil)") == len(names)
    assert done.stdout.splitlines()[-1].startswith("[$(touch evil)")


@pytest.mark.parametrize("tool", [name for name in TOOLS if name != "vllm_doctor_explain"])
def test_the_command_is_one_of_ours(tool: str, tmp_path: Path) -> None:
    values = {"namespace": "serving", "pod": "vllm-0", "kind": "statefulset", "name": "vllm"}
    done = run(tmp_path, TOOLS[tool]["command"], values, f'exec "{sys.executable}" -m vllm_doctor "$@"')
    assert (done.returncode, done.stderr) == (2, "vllm-doctor: kubectl: not installed here, or not in PATH\n")
    hostile = run(tmp_path, TOOLS[tool]["command"], values | {"namespace": "--all"}, f'exec "{sys.executable}" -m vllm_doctor "$@"')
    assert hostile.returncode == 2


def test_a_flag_is_explained(tmp_path: Path) -> None:
    done = run(tmp_path, TOOLS["vllm_doctor_explain"]["command"], {"name": "--max-num-seqs"}, f'exec "{sys.executable}" -m vllm_doctor "$@"')
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "# --max-num-seqs")
