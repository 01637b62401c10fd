"""The command line: one command a file."""

from __future__ import annotations

import gc
import sys

from vllm_doctor.cli.argv import read
from vllm_doctor.cli.option_table import DIAGNOSE, SHARED

_COLLECT_AFTER = 50_000  # objects: a start makes as many and drops few, so to look for dropped ones earlier finds none


def main() -> None:
    """Run `vllm-doctor`. A problem on the user's side is one line on stderr and status 2."""
    gc.set_threshold(_COLLECT_AFTER)
    name, *words = sys.argv[1:] or [""]
    try:
        typed = read(words, (*DIAGNOSE, *SHARED)) if name == "diagnose" else None
        if typed is not None:
            from vllm_doctor.cli.plain import run  # noqa: PLC0415 - importing the package must not load the engine

            run(*typed)
        else:
            from vllm_doctor.cli.root import cli  # noqa: PLC0415 - click costs 25 ms

            cli()
    finally:
        gc.freeze()  # the process ends, and so does what it holds: no garbage need be looked for in it
