"""Check what a release would upload: `python tools/check_distributions.py dist [--tag v0.1.0]`.

The wheel must hold the package, its rules and nothing else; the source archive what it takes to build and test it.
"""

from __future__ import annotations

import argparse
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

NAME = "vllm_log_doctor"
IN_WHEEL = ("vllm_doctor/__init__.py", "vllm_doctor/py.typed", "vllm_doctor/pytest_plugin.py", "vllm_doctor/_rules/rules.json",
            "vllm_doctor/_rules/stalls.yaml", "vllm_doctor/_schema/", "vllm_doctor/reports/templates/report.md", "vllm_doctor/bundle/issue.md",
            "vllm_doctor/catalog/flags.jsonl", "vllm_doctor/catalog/raised_texts.jsonl.xz")
IN_SDIST = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "hatch_build.py", "constraints.txt", "action.yml", "Dockerfile", "rules/",
            "schema/", "tests/conftest.py", "tools/check_distributions.py", "docs/ci.md", "fixtures/logs/")
NEVER = ("__pycache__", ".pyc", ".venv", ".git/", ".mypy_cache", ".hypothesis", ".env", "id_rsa", ".DS_Store")
SCRIPTS = ("vllm-doctor = vllm_doctor.cli:main", "kubectl-vllm_doctor = vllm_doctor.cli.kubectl:main", "vllm-doctor = vllm_doctor.pytest_plugin")
MOST_BYTES = 20 << 20


def main() -> int:
    """Print what is wrong, one line each; return 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tag", default="", help="the tag that the version must have")
    values = parser.parse_args()
    found = list(problems(values.folder, values.tag))
    print("\n".join(found) or "both distributions are complete")
    return 1 if found else 0


def problems(folder: Path, tag: str = "") -> Iterator[str]:
    """Yield what is wrong with the distributions in a folder."""
    wheels, sdists = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    if len(wheels) != 1 or len(sdists) != 1 or len(list(folder.iterdir())) != 2:
        yield f"{folder}: must hold one wheel and one source archive, and nothing else"
        return
    version = sdists[0].name.removesuffix(".tar.gz").removeprefix(f"{NAME}-")
    if not wheels[0].name.startswith(f"{NAME}-{version}-py3-none-any"):
        yield f"{wheels[0].name}: is of another version than {sdists[0].name}"
    if tag and tag != f"v{version}":
        yield f"the tag is {tag}, and the version {version} (vllm_doctor/version.py)"
    with zipfile.ZipFile(wheels[0]) as wheel:
        names = wheel.namelist()
        yield from wrong("wheel", names, IN_WHEEL)
        info = f"{NAME}-{version}.dist-info/"
        yield from (f"wheel: {name} does not belong in it" for name in names if not name.startswith(("vllm_doctor/", info)))
        scripts = wheel.read(f"{info}entry_points.txt").decode()
        yield from (f"wheel: no entry point {script}" for script in SCRIPTS if script not in scripts)
        if f"{info}licenses/LICENSE" not in names:
            yield "wheel: no licence"
    with tarfile.open(sdists[0]) as sdist:
        root = f"{NAME}-{version}/"
        names = [member.name for member in sdist.getmembers()]
        yield from (f"sdist: {name} is outside its folder" for name in names if not f"{name}/".startswith(root))
        yield from (f"sdist: {member.name} is a link" for member in sdist.getmembers() if member.issym() or member.islnk())
        yield from wrong("sdist", [name.removeprefix(root) for name in names], IN_SDIST)
    for path in (*wheels, *sdists):
        if path.stat().st_size > MOST_BYTES:
            yield f"{path.name}: {path.stat().st_size >> 20} MiB"


def wrong(kind: str, names: list[str], wanted: tuple[str, ...]) -> Iterator[str]:
    """Yield what is missing among the names, and what must not be there."""
    for want in wanted:
        if not any(name.startswith(want) if want.endswith("/") else name == want for name in names):
            yield f"{kind}: {want} is missing"
    yield from (f"{kind}: {name} must not be in it" for name in names if any(part in name for part in NEVER))


if __name__ == "__main__":
    sys.exit(main())
