#!/usr/bin/env python3
"""Coverage-guided fuzzing of one target of fuzz_targets.py.     (pip install atheris)

usage: fuzz.py TARGET CORPUS_DIR -max_total_time=600 -timeout=10 -max_len=20000 -rss_limit_mb=1024
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["vllm_doctor"]):
    from fuzz_targets import TARGETS, seeds


def main() -> None:
    """Fill the corpus with the target's seeds and run."""
    program, target, folder, *options = sys.argv
    Path(folder).mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(target)):
        (Path(folder) / f"seed-{number}").write_bytes(seed)
    atheris.Setup([program, folder, f"-artifact_prefix={folder}/", *options], TARGETS[target])  # finds go there too
    atheris.Fuzz()


if __name__ == "__main__":
    main()
