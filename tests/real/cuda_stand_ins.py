"""Let PyTorch's CUDA build load without CUDA's own libraries, which a run on the CPU never calls. Run with the environment's python.

Where PyTorch's CPU index is out of reach, the build of PyPI serves; its libraries ask for 5 GB of others (cuBLAS, cuDNN, NCCL …). Each of
those is made here, empty: every function that PyTorch imports of it answers "no device" (needs gcc and binutils).
"""

from __future__ import annotations

import re
import subprocess
import sysconfig
import tempfile
from collections import defaultdict
from pathlib import Path

NO_DEVICE = 100  # cudaErrorNoDevice
_CUDA = re.compile(r"lib(?!cudart|cupti|cuda\.)(?:cu|nccl|nv)")
_NEEDED = re.compile(r"^ +NEEDED +(\S+)$", re.MULTILINE)
_VERSIONS = re.compile(r"^ +required from (\S+):\n((?: +0x.+\n)+)", re.MULTILINE)
_UNDEFINED = re.compile(r"^ +U ((?:cu|nccl|nv)\w+)(?:@(\S+))?$", re.MULTILINE)  # `ncclSend`, `cublasCreate_v2@libcublas.so.12`
_LEFT_OUT = re.compile(r"^Requires-Dist: (?:nvidia-(?!cuda-runtime|cuda-cupti)|cuda-bindings).*\n", re.MULTILINE)
_TOOLKIT = re.compile(r"(?<=^Requires-Dist: cuda-toolkit)\[[^\]]*\]", re.MULTILINE)


def main() -> None:
    """Make what is missing beside PyTorch's own libraries, and let its metadata ask for the rest alone: two small ones that are called."""
    site = Path(sysconfig.get_paths()["purelib"])
    folder = site / "torch" / "lib"
    versions: dict[str, set[str]] = {}  # by library, those that its functions are asked for with
    functions: dict[str, set[str]] = defaultdict(set)  # by version
    for library in folder.glob("*.so*"):
        head = _output("objdump", "-p", str(library))
        for name in _NEEDED.findall(head):
            versions.setdefault(name, set())
        for name, lines in _VERSIONS.findall(head):
            versions[name] |= {line.split()[-1] for line in lines.splitlines()}
        for name, version in _UNDEFINED.findall(_output("nm", "-D", "--undefined-only", str(library))):
            functions[version].add(name)
    for name in filter(_CUDA.match, versions):
        if not (folder / name).exists():
            _make(folder / name, functions[""], {version: functions[version] for version in versions[name]})
    for metadata in site.glob("torch-*.dist-info/METADATA"):
        text = metadata.read_text(encoding="utf-8")
        metadata.unlink()  # the file may be a link to the installer's cache
        metadata.write_text(_TOOLKIT.sub("[cudart,cupti]", _LEFT_OUT.sub("", text)), encoding="utf-8")


def _make(library: Path, plain: set[str], versioned: dict[str, set[str]]) -> None:
    """A library with those functions, some of them under versions."""
    names = sorted(plain.union(*versioned.values()))
    versions = "".join(f"{version} {{ global: {''.join(f'{name};' for name in sorted(versioned[version]))} }};\n" for version in sorted(versioned))
    with tempfile.TemporaryDirectory() as folder:
        source, script = Path(folder) / "functions.c", Path(folder) / "versions.map"
        source.write_text("".join(f"int {name}(void) {{ return {NO_DEVICE}; }}\n" for name in names), encoding="utf-8")
        script.write_text(versions, encoding="utf-8")
        options = [f"-Wl,-soname,{library.name}", *([f"-Wl,--version-script={script}"] if versioned else [])]
        subprocess.run(["gcc", "-w", "-shared", "-fPIC", "-fno-builtin", *options, "-o", str(library), str(source)], check=True)


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
