"""The workflows: valid by GitHub's schema, pinned, with no more rights than they need; the plug-in for krew."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_distributions import PROJECT, ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
READ = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in WORKFLOWS}
PINNED = re.compile(r"uses: [\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")

spec = importlib.util.spec_from_file_location("krew_plugin", ROOT / "tools" / "krew_plugin.py")
krew_plugin = importlib.util.module_from_spec(spec)
spec.loader.exec_module(krew_plugin)


def steps(workflow: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for job in workflow["jobs"].values():
        yield from job["steps"]


def test_they_are_valid_by_the_published_schema() -> None:
    done = subprocess.run([sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, WORKFLOWS)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / "action.yml"], ids=lambda path: path.name)
def test_each_action_is_pinned_to_a_commit_and_names_its_release(path: Path) -> None:
    lines = [line.strip().removeprefix("- ") for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert lines
    assert [line for line in lines if not PINNED.fullmatch(line)] == []


def test_an_action_has_one_commit_everywhere() -> None:
    used = re.findall(r"uses: (\S+?)@(\S+)", "".join(path.read_text(encoding="utf-8") for path in (*WORKFLOWS, ROOT / "action.yml")))
    assert len(dict(used)) == len(set(used))


@pytest.mark.parametrize("name", READ)
def test_no_expression_is_filled_into_a_script(name: str) -> None:
    assert [step["run"] for step in steps(READ[name]) if "${{" in step.get("run", "")] == []


@pytest.mark.parametrize("name", READ)
def test_a_checkout_leaves_no_token_behind(name: str) -> None:
    assert all(step["with"]["persist-credentials"] is False for step in steps(READ[name]) if step.get("uses", "").startswith("actions/checkout@"))


def test_rights() -> None:
    assert READ["ci"]["permissions"] == {"contents": "read"}
    assert all("permissions" not in job for job in READ["ci"]["jobs"].values())
    assert READ["release"]["permissions"] == {}
    rights = {name: job["permissions"] for name, job in READ["release"]["jobs"].items()}
    assert rights["pypi"] == {"id-token": "write"}
    assert {name for name, given in rights.items() if "contents" in given and given["contents"] == "write"} == {"github"}
    assert READ["release"]["jobs"]["pypi"]["environment"] == "pypi"
    assert "secrets." not in (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")


def test_the_matrix_has_every_python_and_both_systems() -> None:
    matrix = READ["ci"]["jobs"]["test"]["strategy"]["matrix"]
    assert PROJECT["project"]["requires-python"] == ">=3.10"
    assert matrix["python"] == [f"3.{minor}" for minor in range(10, 15)]
    assert matrix["os"] == ["ubuntu-latest", "macos-latest"]
    assert READ["ci"]["jobs"]["wheel"]["strategy"]["matrix"]["python"] == ["3.10", "3.14"]


@pytest.mark.parametrize("name", READ)
def test_the_files_that_the_scripts_name_exist(name: str) -> None:
    named = {word for step in steps(READ[name]) for word in re.findall(r"(?:tools|fixtures|\.github)/[\w./-]+\w", step.get("run", ""))}
    assert [word for word in named if not (ROOT / word).exists()] == []


def test_an_audit_and_signed_checksums_are_part_of_it() -> None:
    assert any("pip-audit" in step.get("run", "") for step in steps(READ["ci"]))
    assert any("sigstore sign SHA256SUMS" in step.get("run", "") for step in steps(READ["release"]))
    built = [step["with"] for name in READ for step in steps(READ[name]) if step.get("uses", "").startswith("docker/build-push-action@")]
    assert sum(bool(given.get("sbom")) for given in built) == 2


# ---- krew


def test_the_manifest_of_krew() -> None:
    data = krew_plugin.archive()
    manifest = krew_plugin.manifest(data, "me/vllm-doctor", "v0.1.0")
    assert manifest["metadata"]["name"] == "vllm-doctor"  # the file's name, as krew wants it
    [platform] = manifest["spec"]["platforms"]
    assert platform["sha256"] == hashlib.sha256(data).hexdigest()
    assert platform["uri"] == "https://github.com/me/vllm-doctor/releases/download/v0.1.0/kubectl-vllm_doctor.tar.gz"
    assert re.fullmatch(r"v\d+\.\d+\.\d+.*", manifest["spec"]["version"])
    assert len(manifest["spec"]["shortDescription"]) <= 50
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(data))) as tar:
        assert {member.name: oct(member.mode) for member in tar} == {platform["bin"]: "0o755", "LICENSE": "0o644"}
    assert krew_plugin.archive() == data


def test_the_script_passes_everything_on_or_says_what_is_missing(tmp_path: Path) -> None:
    script = tmp_path / "kubectl-vllm_doctor"
    script.write_bytes(krew_plugin.SCRIPT)
    script.chmod(0o755)
    done = subprocess.run([script, "vllm-0"], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (127, "")
    assert "vllm-doctor is not in PATH" in done.stderr
    (tmp_path / "vllm-doctor").write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    (tmp_path / "vllm-doctor").chmod(0o755)
    done = subprocess.run([script, "vllm 0", "-n", "$(x)"], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    assert done.stdout == "kubectl|vllm 0|-n|$(x)|"
