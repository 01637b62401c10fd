#!/usr/bin/env python3
"""Measure vllm-doctor against its targets and write RESULTS.md.

usage: python benchmarks/run.py [--figures scan,memory,…] [--rounds N] [--scale X]

The logs (about 2 GB) are made once and kept in ~/.cache/vllm-doctor-benchmarks. A whole run takes about half an hour.
"""

from __future__ import annotations

import argparse
import os
import pipes
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import reading
import results
from install import installed
from kit import Kit

FIGURES: Mapping[str, Callable[[Kit], Iterator[results.Figure]]] = {
    "scan": reading.scan,
    "memory": reading.memory,
    "hostile": reading.hostile,
    "shapes": reading.shapes,
    "cold": reading.cold,
    "pipe": pipes.pipe,
}


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figures", default=",".join(FIGURES), help="which, separated by commas (default: all)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each measurement is repeated (default: 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="all sizes times this; other than 1 is a trial")
    parser.add_argument("--program", type=Path, help="the vllm-doctor to measure (default: this tree, installed afresh)")
    parser.add_argument("--cache", type=Path, help="folder for logs and the installation")
    parser.add_argument("--output", type=Path, default=results.HERE / "RESULTS.md")
    options = parser.parse_args()
    chosen = options.figures.split(",")
    if unknown := [name for name in chosen if name not in FIGURES]:
        parser.error(f"no figures are called {', '.join(unknown)}: there are {', '.join(FIGURES)}")
    cache = options.cache or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vllm-doctor-benchmarks"
    kit = Kit(options.program or installed(cache), cache, options.scale, options.rounds)
    figures = []
    for name in chosen:
        for figure in FIGURES[name](kit):
            print(figure.row(), flush=True)
            figures.append(figure)
    results.write(options.output, figures, rounds=options.rounds, scale=options.scale)
    print(f"written to {options.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
