"""The options of a diagnosis."""

from __future__ import annotations

from typing import NamedTuple


class Options(NamedTuple):
    """What the user may give besides the log; everything has a default.

    `run` is the number of a server start, or None for the last one with any output. `gpu_memory_gib` is the GPU's total
    if the log does not show it. `command` is the command line, `config` the text of a `--config` YAML file. Without
    `shortcuts`, every line is parsed in full: slower, with the same report.
    """

    rules: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    command: str = ""
    config: str = ""
    gpu_memory_gib: float | None = None
    vllm_version: str = ""
    run: int | None = None
    max_fixes: int = 5
    show_secrets: bool = False
    shortcuts: bool = True
