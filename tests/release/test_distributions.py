"""The source archive and the wheel that a release would upload; the versions and the lock."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from vllm_doctor.version import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

spec = importlib.util.spec_from_file_location("check_distributions", ROOT / "tools" / "check_distributions.py")
check_distributions = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_distributions)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    for target in ("sdist", "wheel"):
        done = subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)], cwd=ROOT, capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, done.stderr
    return folder


def test_both_are_complete_and_hold_nothing_else(dist: Path) -> None:
    assert list(check_distributions.problems(dist, f"v{__version__}")) == []


def test_the_package_index_would_take_them(dist: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, dist.iterdir())], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_wheel_runs_on_what_was_compiled_and_reports_the_same(dist: Path, tmp_path: Path) -> None:
    [wheel] = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)  # noqa: S202 - our own
    for source in ("catalog/features.yaml", "catalog/frontends.yaml", "reports/templates/report.txt"):
        (tmp_path / "vllm_doctor" / source).unlink()
    log = ROOT / "fixtures" / "logs" / "fatkv-cpu-space-1.log"
    told = [subprocess.run([sys.executable, "-m", "vllm_doctor", "diagnose", str(log)], cwd=folder, capture_output=True, text=True, check=False,
                           env={**os.environ, "PYTHONPATH": str(folder)}).stdout for folder in (tmp_path, ROOT)]
    assert told[0] == told[1] != ""


def test_what_is_wrong_is_reported(dist: Path, tmp_path: Path) -> None:
    assert list(check_distributions.problems(dist, "v9.9")) == [f"the tag is v9.9, and the version {__version__} (vllm_doctor/version.py)"]
    for path in dist.iterdir():
        shutil.copy(path, tmp_path)
    [wheel], [sdist] = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("tests/test_x.py", "")
        archive.writestr("vllm_doctor/__pycache__/x.pyc", "")
    with tarfile.open(sdist, "w:gz") as archive:
        link = tarfile.TarInfo("../evil")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link, io.BytesIO())
    found = list(check_distributions.problems(tmp_path))
    assert {"wheel: tests/test_x.py does not belong in it", "wheel: vllm_doctor/__pycache__/x.pyc must not be in it", "sdist: ../evil is a link",
            "sdist: ../evil is outside its folder", "sdist: rules/ is missing"} <= set(found)
    wheel.unlink()
    assert "must hold one wheel" in next(check_distributions.problems(tmp_path))


def test_the_wheel_works_by_itself(dist: Path, tmp_path: Path) -> None:
    [wheel] = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)  # noqa: S202 - our own
    done = subprocess.run([sys.executable, "-m", "vllm_doctor", "diagnose", str(ROOT / "fixtures" / "logs" / "fatkv-cpu-space-1.log")], cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:24]) == (1, "✗ CPU KV cache too small")


def test_the_version_is_written_once() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert "version" not in PROJECT["project"]
    written = [path for path in ROOT.rglob("*.py") if ".venv" not in path.parts and f'"{__version__}"' in path.read_text(encoding="utf-8", errors="replace")
               and "__version__ =" in path.read_text(encoding="utf-8", errors="replace")]
    assert written == [ROOT / "vllm_doctor" / "version.py"]


def lock() -> dict[str, Requirement]:
    lines = [line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return {Requirement(line).name: Requirement(line) for line in lines}


def test_the_lock_has_each_dependency_at_one_version_that_is_allowed() -> None:
    needed = [Requirement(text) for text in (*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["zstd"])]
    pinned = lock()
    assert {need.name for need in needed} <= set(pinned)
    for requirement in pinned.values():
        [pin] = requirement.specifier
        assert pin.operator == "=="
        assert all(need.specifier.contains(pin.version) for need in needed if need.name == requirement.name)


def test_the_lock_is_used_by_the_image_and_the_action() -> None:
    assert "--constraint constraints.txt" in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert '--constraint "$GITHUB_ACTION_PATH/constraints.txt"' in (ROOT / "action.yml").read_text(encoding="utf-8")
    assert "constraints.txt" not in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()


def test_what_the_build_needs_is_what_the_package_needs() -> None:
    assert set(PROJECT["build-system"]["requires"]) - {"hatchling>=1.24"} == set(PROJECT["project"]["dependencies"])


def test_the_sdist_and_the_wheel_are_named_for_the_index(dist: Path) -> None:
    assert {path.name for path in dist.iterdir()} == {f"vllm_log_doctor-{__version__}.tar.gz", f"vllm_log_doctor-{__version__}-py3-none-any.whl"}
    assert re.fullmatch(r"\d+\.\d+\.\d+(?:rc\d+)?", __version__)
