"""What the user can say beside the log."""

from __future__ import annotations

from typing import NamedTuple


class Options(NamedTuple):
    """Everything has a default.

    `run` is a start's number, or None for the last one that says something. `gpu_memory_gib` is the card's size where
    the log does not show it. `command` is what was run, `config` the text of a `--config` YAML file. Without
    `shortcuts` every line is read in full: slower, with the same report.
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
