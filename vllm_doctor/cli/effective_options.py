"""Combine the command line's options with the project settings, and convert them to the engine's options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vllm_doctor.cli import project_settings
from vllm_doctor.cli.settings_location import places
from vllm_doctor.errors import InputError, did_you_mean
from vllm_doctor.gpu_status import cards_in
from vllm_doctor.messages import message
from vllm_doctor.options import Options
from vllm_doctor.rulebase.loader import load
from vllm_doctor.sizing.model_config import kv_shape_of
from vllm_doctor.text_files import is_too_deep, read_bytes


def apply_project_settings(command: str, values: dict[str, Any], is_typed: Callable[[str], bool]) -> tuple[str, ...]:
    """Replace options that were not typed by project settings; return notes for the user. Raises InputError."""
    named, isolated = values.pop("settings_file"), values.pop("isolated")
    if named and isolated:
        raise InputError(message("--settings and --isolated contradict each other"))
    if not named and (isolated or not any(places())):
        return ()

    settings = project_settings.read(named) if named else project_settings.find()
    if settings is None:
        return ()
    values["rules"] = (*settings.rules, *values["rules"])
    # An explicit --only overrides an ignore.
    ignored = tuple(item for item in settings.ignored() if item not in values["only"])
    try:
        check_ids(Options(rules=values["rules"], only=settings.only, ignore=ignored))
    except InputError as error:
        raise InputError(f"{settings.path}: {error}") from error
    values["ignore"] = (*ignored, *values["ignore"])
    values["only"] = values["only"] or settings.only
    defaults = {"fail_on": settings.fail_on, "max_fixes": settings.max_fixes}
    if command == "diagnose":
        defaults["format_"] = settings.format
    values.update({name: value for name, value in defaults.items() if value is not None and not is_typed(name)})
    description = "" if named else settings.describe()  # a file that the user did not name
    return (*((description,) if description else ()), *settings.notes())


def engine_options(values: dict[str, Any], run: int | None = None) -> Options:
    """Return the engine's options from click's values. Raises InputError."""
    config = ""
    if values["config_file"]:
        config = read_bytes(values["config_file"]).decode("utf-8", "replace")
    for name, text in ((values["config_file"], config), ("--command", values["command_text"])):
        if is_too_deep(text):
            raise InputError(f"{name}: nested too deeply")
    status = read_bytes(values["gpu_status_file"]).decode("utf-8", "replace") if values["gpu_status_file"] else ""
    if values["gpu_status_file"] and not cards_in(status):
        raise InputError(message("{name}: shows no GPU as nvidia-smi or another such tool prints it",
                                 name=values["gpu_status_file"]))
    return Options(
        rules=tuple(values["rules"]), only=tuple(values["only"]), ignore=tuple(values["ignore"]),
        command=values["command_text"], config=config, gpu_memory_gib=values["gpu_memory"],
        gpu_used_gib=values["gpu_used"], gpu_status=status,
        kv_shape=kv_shape_of(values["model_config"]) if values["model_config"] else None,
        vllm_version=values["vllm_version"], run=run, max_fixes=values["max_fixes"],
        show_secrets=values["show_secrets"], shortcuts=not values.get("no_shortcuts", False),
        language=values["language"])


def check_ids(options: Options, *more: str) -> None:
    """Raise InputError for an unknown rule id, with the most similar one."""
    ids = (*options.only, *options.ignore, *more)
    if ids:
        known = load(options.rules).rules
        for rule_id in ids:
            if rule_id not in known:
                raise InputError(message("no rule has the id `{rule}`{meant}", rule=rule_id,
                                         meant=did_you_mean(rule_id, list(known))))
