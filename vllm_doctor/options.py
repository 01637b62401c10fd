"""The options of a diagnosis."""

from __future__ import annotations

from typing import NamedTuple


class Options(NamedTuple):
    """What the user may give besides the log; everything has a default.

    `run` is the number of a server start, or None for the last one with any output. `gpu_memory_gib` is the GPU's total
    if the log does not show it, `gpu_used_gib` what is in use while the server runs, `gpu_status` the output of a tool
    such as nvidia-smi. `kv_shape` is the shape of the model's KV cache: layers, KV heads, elements of key and value of
    one head, and whether every rank holds it. `command` is the command line, `config` the text of a `--config` YAML
    file. `language` is that of the report's texts: `en` or `zh`. Without `shortcuts`, every line is
    parsed in full: slower, with the same report.
    """

    rules: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    command: str = ""
    config: str = ""
    gpu_memory_gib: float | None = None
    gpu_used_gib: float | None = None
    gpu_status: str = ""
    kv_shape: tuple[int, int, int, bool] | None = None
    vllm_version: str = ""
    run: int | None = None
    max_fixes: int = 5
    show_secrets: bool = False
    shortcuts: bool = True
    language: str = "en"
