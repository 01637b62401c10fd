"""What a test does for the action of a fix, which no command can do: the id of `rules/actions.yaml` -> the deed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import models

if TYPE_CHECKING:
    from trial import Trial


def _whole_files(trial: Trial) -> None:
    models.mend(trial.sound, trial.models)


def _right_files(trial: Trial) -> None:
    trial.write(trial.launch.right_files)


def _lift_the_limit(trial: Trial) -> None:
    trial.before = ""


def _free_the_port(trial: Trial) -> None:
    trial.free_the_port()


def _put_the_model_there(trial: Trial) -> None:
    for name in models.named_in(trial.launch.command):
        sound = trial.sound / name
        shutil.copytree(sound if sound.exists() else trial.sound / "tiny", trial.models / name, dirs_exist_ok=True)


def _fill_the_hub_cache(trial: Trial) -> None:
    name = trial.launch.command.split()[2]
    folder = Path(trial.environment["HF_HOME"]) / "hub" / f"models--{name.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0" * 40)
    shutil.copytree(trial.sound / name.partition("/")[2], folder / "snapshots" / ("0" * 40))


def _put_the_tokenizer_there(trial: Trial) -> None:
    _whole_files(trial)
    for name in models.named_in(trial.launch.command):
        for file in trial.sound.joinpath("tiny").glob("*token*.json"):
            shutil.copy(file, trial.models / name / file.name)


def _put_the_adapter_there(trial: Trial) -> None:
    for name in models.named_in(trial.launch.command):
        folder = trial.models / name
        if not (folder / "adapter_config.json").exists() and name != trial.launch.command.split()[2].rpartition("/")[2]:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(trial.sound / "adapter", folder)


def _without_the_variables(trial: Trial) -> None:
    for name in trial.launch.environment:
        trial.environment.pop(name, None)


def _nothing(trial: Trial) -> None:
    """The advice asks a person to look; what ended the server does not come again."""


ACTIONS: dict[str, Callable[[Trial], None]] = {
    "redownload-weights": _whole_files,
    "install-git-lfs": _whole_files,
    "add-tokenizer-files": _put_the_tokenizer_there,
    "correct-model-config": _whole_files,
    "correct-generation-config": _whole_files,
    "correct-chat-template": _whole_files,
    "edit-tokenizer-config": _whole_files,
    "resave-checkpoint": _whole_files,
    "complete-rope-settings": _whole_files,
    "use-other-checkpoint": _whole_files,
    "name-whole-class": _whole_files,
    "read-client-response-body": _whole_files,  # it says that the checkpoint has no chat template
    "fix-yaml-config": _right_files,
    "add-host-ram": _lift_the_limit,
    "raise-ulimit-nofile": _lift_the_limit,
    "unset-variable": _without_the_variables,
    "free-port": _free_the_port,
    "check-model-path": _put_the_model_there,
    "download-model-first": _fill_the_hub_cache,
    "fix-adapter-path": _put_the_adapter_there,
    "check-kernel-log": _nothing,
    "wait-for-start": _nothing,  # nobody interrupts it again
}
