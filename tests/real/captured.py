"""A launch's log as a whole-log test: NAME.log with what must come out in NAME.yaml, nothing private in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from launches import Launch, Release
from trial import Outcome, Trial, as_typed

FOLDER = Path(__file__).resolve().parent.parent.parent / "fixtures" / "logs"
_ADDRESS = re.compile(r"(mq_connect_ip=|tcp://)(?!127\.|0\.)\d+\.\d+\.\d+\.\d+")


def write_labelled(release: Release, trial: Trial, outcome: Outcome, folder: Path) -> None:
    """Write the log, and a label made of the launch alone: what the world was, not what the tool said."""
    launch = outcome.launch
    name = f"real-{release.version}-{launch.id}"
    folder.mkdir(parents=True, exist_ok=True)
    log = trial.folder / "start-1" / "server.log"
    (folder / f"{name}.log").write_text(_neutral(trial, log.read_text(encoding="utf-8", errors="replace")), encoding="utf-8")
    label = label_of(release, launch, served=outcome.served, command=_neutral(trial, as_typed(launch, trial.put(launch.command))), name=name)
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(label, sort_keys=False, allow_unicode=True, width=1000), encoding="utf-8")


def label_of(release: Release, launch: Launch, *, served: bool, command: str, name: str) -> dict[str, Any]:
    """What must come out of a log of the launch; of one that is served all the same, nothing."""
    causes, fixes = ((), ()) if served else (launch.causes, launch.fix)
    return {
        "id": name, "source": f"captured: vllm {release.version} cpu", "vllm_version": release.version, "command": command,
        "expect": {"primary": causes[0] if causes else None, "also_ok": list(causes[1:]),
                   "facts": {} if served else dict(launch.facts), "fix_any_of": list(fixes)},
        "note": launch.world,
    }


def _neutral(trial: Trial, text: str) -> str:
    for own, neutral in ((trial.models, "/models"), (trial.folder, "/srv/app"), (trial.prefix, "/opt/venv"), (Path.home(), "/home/user")):
        text = text.replace(str(own), neutral)
    text = re.sub(rf"\b{trial.port}\b", "8000", text)
    return _ADDRESS.sub(r"\g<1>192.0.2.2", text)
