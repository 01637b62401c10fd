"""Generate vllm_doctor/catalog/subcommand_flags.json: the flags that only some subcommands of `vllm` have.

    python tools/build_subcommand_flags.py SDISTS_DIR

SDISTS_DIR is what tools/sdists.py wrote. The file maps a flag to its subcommands, and each of these to the releases
that have it, as [[first, last], ...]; null is the newest. Flags of the server and the engine are in flags.jsonl
(build_flags.py) and left out here. The sources are read, not imported: `add_argument("--flag", …)`, and the fields of
dataclasses whose names end in Args.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from build_flags import spans
from sdists import unpacked

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from vllm_doctor.catalog.flag_file import table
from vllm_doctor.catalog.flags import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = {
    "bench serve": ("benchmarks/serve.py", "benchmarks/datasets.py", "benchmarks/datasets/datasets.py"),
    "bench throughput": ("benchmarks/throughput.py", "benchmarks/datasets.py", "benchmarks/datasets/datasets.py"),
    "bench latency": ("benchmarks/latency.py",),
    "bench startup": ("benchmarks/startup.py",),
    "bench mm-processor": ("benchmarks/mm_processor.py",),
    "bench sweep": ("benchmarks/sweep/serve.py", "benchmarks/sweep/serve_workload.py", "benchmarks/sweep/startup.py",
                    "benchmarks/sweep/plot.py", "benchmarks/sweep/plot_pareto.py"),
    "chat": ("entrypoints/cli/openai.py",),
    "run-batch": ("entrypoints/openai/run_batch.py", "entrypoints/launchers/run_batch.py"),
}  # fmt: skip
"""The files below vllm/ that declare the flags of a subcommand, or of the module that came before it."""


def declared(path: Path) -> Iterator[str]:
    """Yield the flags that a file declares."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if path.exists() else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            for argument in node.args:
                if isinstance(argument, ast.Constant) and str(argument.value).startswith("--"):
                    yield canonical(str(argument.value))
        elif isinstance(node, ast.ClassDef) and node.name.endswith("Args"):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    yield canonical(field.target.id)


def build(directory: Path) -> dict[str, dict[str, list[list[str | None]]]]:
    """Return the lifetimes of each flag in each subcommand."""
    roots = {str(version): root for version, root in unpacked(directory).items()}
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for release, root in roots.items():
        for subcommand, files in SOURCES.items():
            for flag in {flag for file in files for flag in declared(root / "vllm" / file)}:
                if flag not in table().flags:
                    found[flag][subcommand].add(release)
    return {flag: {subcommand: spans(present, list(roots)) for subcommand, present in sorted(found[flag].items())}
            for flag in sorted(found)}


def main() -> int:
    """Write the file."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sdists", type=Path, metavar="SDISTS_DIR")
    parser.add_argument("-o", "--output", type=Path,
                        default=here.parent / "vllm_doctor" / "catalog" / "subcommand_flags.json")
    options = parser.parse_args()
    rows = (f"{json.dumps(flag)}: {json.dumps(lives)}" for flag, lives in build(options.sdists).items())
    options.output.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
