"""What the options of a command say, with the project's settings, and the engine's options.

Nothing here needs click: a `diagnose` starts without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vllm_doctor.cli import project_settings
from vllm_doctor.cli.settings_location import places
from vllm_doctor.errors import InputError, did_you_mean
from vllm_doctor.exit_status import ExitStatus
from vllm_doctor.options import Options
from vllm_doctor.reports.model import Report
from vllm_doctor.rulebase.loader import load
from vllm_doctor.severity import RANK
from vllm_doctor.text_files import is_too_deep, read_bytes


def fill_in(command: str, values: dict[str, Any], is_typed: Callable[[str], bool]) -> tuple[str, ...]:
    """Put the settings where nothing was typed; returns what the user should know. Raises InputError."""
    named, isolated = values.pop("settings_file"), values.pop("isolated")
    if named and isolated:
        raise InputError("--settings and --isolated contradict each other")
    if not named and (isolated or not any(places())):
        return ()

    found = project_settings.read(named) if named else project_settings.find()
    if found is None:
        return ()
    values["rules"] = (*found.rules, *values["rules"])
    ignored = tuple(item for item in found.ignored() if item not in values["only"])  # asked for by name, so looked for
    try:
        check_ids(Options(rules=values["rules"], only=found.only, ignore=ignored))
    except InputError as error:
        raise InputError(f"{found.path}: {error}") from error
    values["ignore"] = (*ignored, *values["ignore"])
    values["only"] = values["only"] or found.only
    defaults = {"fail_on": found.fail_on, "max_fixes": found.max_fixes}
    if command == "diagnose":
        defaults["format_"] = found.format
    values.update({name: value for name, value in defaults.items() if value is not None and not is_typed(name)})
    told = "" if named else found.told()  # a file that the user did not name
    return (*((told,) if told else ()), *found.notes())


def gather(values: dict[str, Any], run: int | None = None) -> Options:
    """The engine's options from click's values. Raises InputError."""
    config = ""
    if values["config_file"]:
        config = read_bytes(values["config_file"]).decode("utf-8", "replace")
    for name, text in ((values["config_file"], config), ("--command", values["command_text"])):
        if is_too_deep(text):
            raise InputError(f"{name}: nested too deeply")
    version = values["vllm_version"]
    if version and not version.lstrip("vV")[:1].isdigit():
        raise InputError(f"--vllm-version {version}: not a version such as 0.8.5")
    return Options(
        rules=tuple(values["rules"]), only=tuple(values["only"]), ignore=tuple(values["ignore"]),
        command=values["command_text"], config=config, gpu_memory_gib=values["gpu_memory"],
        vllm_version=version.lstrip("vV"), run=run, max_fixes=values["max_fixes"], show_secrets=values["show_secrets"],
        shortcuts=not values.get("no_shortcuts", False))


def check_ids(options: Options, *more: str) -> None:
    """Raise InputError for a rule id nobody knows, with the nearest."""
    ids = (*options.only, *options.ignore, *more)
    if ids:
        known = load(options.rules).rules
        for rule_id in ids:
            if rule_id not in known:
                raise InputError(f"no rule has the id `{rule_id}`{did_you_mean(rule_id, list(known))}")


def exit_status(reports: list[Report], fail_on: str) -> ExitStatus:
    """1 when a report holds something at or above the threshold."""
    if fail_on == "never":
        return ExitStatus.OK
    worst = [report.worst() for report in reports]
    return ExitStatus.FOUND if any(w is not None and RANK[w] <= RANK[fail_on] for w in worst) else ExitStatus.OK
