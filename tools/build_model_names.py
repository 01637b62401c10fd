"""Generate vllm_doctor/catalog/model_names.json: the first vLLM release with each architecture and model type.

    python tools/build_model_names.py SDISTS_DIR [-o vllm_doctor/catalog/model_names.json]

SDISTS_DIR is what tools/sdists.py wrote. The architectures are the keys of each release's model registry. A model
type counts from the release on whose own configurations have it, or whose tests run with a transformers that has it;
of transformers the first release of each minor version is read from the package index that pip is configured for.
Nothing is imported or run.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.version import Version
from sdists import PipIndex, unpacked, version_of

from vllm_doctor.catalog.requirements import requirement

OUTPUT = Path(__file__).resolve().parent.parent / "vllm_doctor" / "catalog" / "model_names.json"
REGISTRIES = ("models/registry.py", "models/__init__.py")
OLDEST_TRANSFORMERS = Version("4.33")  # of vLLM 0.2.0
MAPPINGS = ("auto_mappings.py", "configuration_auto.py")
_TABLE = re.compile(r"_(?!PREVIOUSLY_|OOT_|TRANSFORMERS_BACKEND)\w*MODELS\Z")


def assigned(source: str, names: re.Pattern[str]) -> Iterator[ast.expr]:
    """Yield the values of a module's assignments to names that match."""
    for node in ast.parse(source).body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        if any(isinstance(target, ast.Name) and names.match(target.id) for target in targets) and node.value is not None:
            yield node.value


def keys(value: ast.expr) -> Iterator[str]:
    """Yield the keys of a dict that is written as `{...}`, `dict(a=...)`, or `OrderedDict([("a", ...), ...])`."""
    if isinstance(value, ast.Dict):
        yield from (key.value for key in value.keys if isinstance(key, ast.Constant) and isinstance(key.value, str))
    elif isinstance(value, ast.Call):
        yield from (keyword.arg for keyword in value.keywords if keyword.arg)
        for argument in value.args:
            yield from keys(argument)
    elif isinstance(value, ast.List | ast.Tuple):
        for item in value.elts:
            if isinstance(item, ast.Tuple) and item.elts and isinstance(item.elts[0], ast.Constant):
                yield str(item.elts[0].value)


def architectures(release: Path) -> set[str]:
    """Return the architectures of a release's model registry."""
    for registry in REGISTRIES:
        file = release / "vllm" / "model_executor" / registry
        if file.exists():
            source = file.read_text(encoding="utf-8")
            found = {key for value in assigned(source, _TABLE) for key in keys(value)}
            if found:
                return found
    return set()


def own_model_types(release: Path) -> set[str]:
    """Return the model types whose configuration classes are vLLM's own."""
    file = release / "vllm" / "transformers_utils" / "config.py"
    if not file.exists():
        return set()
    source = file.read_text(encoding="utf-8")
    return {key for value in assigned(source, re.compile(r"_CONFIG_REGISTRY\w*\Z")) for key in keys(value)}


def transformers_model_types(index: PipIndex) -> dict[str, Version]:
    """Return the first minor version of transformers with each model type."""
    first: dict[tuple[int, int], tuple[Version, object]] = {}
    for link in index.links("transformers"):
        parsed = version_of(link.filename)
        if parsed is None or parsed[1] != "wheel" or parsed[0].is_prerelease or parsed[0] < OLDEST_TRANSFORMERS:
            continue
        minor = parsed[0].release[:2]
        if minor not in first or parsed[0] < first[minor][0]:
            first[minor] = (parsed[0], link)
    found: dict[str, Version] = {}
    for version, link in sorted(first.values(), key=lambda each: each[0]):
        archive = io.BytesIO()
        index.download(link, archive)
        with zipfile.ZipFile(archive) as wheel:
            names = set(_types_of(wheel))
        print(f"transformers {version}: {len(names)} model types", file=sys.stderr)
        for name in names:
            found.setdefault(name, version)
    return found


def _types_of(wheel: zipfile.ZipFile) -> Iterable[str]:
    for file in MAPPINGS:
        path = f"transformers/models/auto/{file}"
        if path in wheel.namelist():
            for value in assigned(wheel.read(path).decode(), re.compile(r"CONFIG_MAPPING_NAMES\Z")):
                yield from keys(value)


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description="Generate vllm_doctor/catalog/model_names.json.")
    parser.add_argument("sdists", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=OUTPUT)
    options = parser.parse_args()

    index = PipIndex()
    try:
        of_transformers = transformers_model_types(index)
    finally:
        index.close()
    since: dict[str, dict[str, str]] = {"architectures": {}, "model_types": {}}
    for version, folder in unpacked(options.sdists).items():
        for name in architectures(folder):
            since["architectures"].setdefault(name, str(version))
        needed = requirement("transformers", str(version))
        numbers = re.findall(r"\d+(?:\.\d+)+", (needed.tested or needed.asked) if needed else "")
        newest = max(map(Version, numbers), default=OLDEST_TRANSFORMERS)
        types = {name for name, first in of_transformers.items() if first <= newest}
        for name in types | own_model_types(folder):
            since["model_types"].setdefault(name, str(version))
    options.output.write_text(json.dumps(since, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    print({kind: len(names) for kind, names in since.items()}, file=sys.stderr)


if __name__ == "__main__":
    main()
