"""A launch's log as a whole-log test: `fixtures/logs/NAME.log` with what must come out in `NAME.yaml`, nothing private in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from launches import Release
from trial import Outcome, Trial, as_typed

FOLDER = Path(__file__).resolve().parent.parent.parent / "fixtures" / "logs"


def wanted(release: Release, cause: str | None) -> bool:
    """Whether no log of that release has that cause yet."""
    labels = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in FOLDER.rglob("*.yaml")]
    return (release.version, cause) not in {(str(label.get("vllm_version")), label["expect"]["primary"]) for label in labels}


def write(release: Release, trial: Trial, outcome: Outcome) -> None:
    """Write log and label."""
    name = f"real-{release.version}-{outcome.launch.id}"
    command = as_typed(outcome.launch, trial.put(outcome.launch.command))
    text = f"$ {command}\n{outcome.log.read_text(encoding='utf-8', errors='replace')}"
    (FOLDER / f"{name}.log").write_text(_neutral(trial, text), encoding="utf-8")
    label = {
        "id": name, "source": f"captured: vllm {release.version} cpu", "vllm_version": release.version,
        "expect": {"primary": outcome.cause, "facts": outcome.launch.facts, "fix_any_of": [_expected(fix) for fix in outcome.fixes[:1]]},
    }
    (FOLDER / f"{name}.yaml").write_text(yaml.safe_dump(label, sort_keys=False, allow_unicode=True), encoding="utf-8")


def _expected(fix: dict[str, Any]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"flag": name, "value": value} for name, value in fix["flags"].items()]
    parts += [{"flag": name, "remove": True} for name in fix["unset"]]
    parts += [{"env": name, "value": value} for name, value in fix["env"].items()]
    parts = parts or [{"action": fix["action"]}]
    return parts[0] if len(parts) == 1 else {"all": parts}


def _neutral(trial: Trial, text: str) -> str:
    for own, neutral in ((trial.models, "/models"), (trial.folder, "/srv/vllm"), (trial.prefix, "/opt/venv"), (Path.home(), "/home/user")):
        text = text.replace(str(own), neutral)
    text = re.sub(rf"\b{trial.port}\b", "8000", text)
    return re.sub(r"(mq_connect_ip=|tcp://)(?!127\.|0\.)\d+\.\d+\.\d+\.\d+", r"\g<1>192.0.2.2", text)
