"""The options that `diagnose`, `watch` and `run` share."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from vllm_doctor.errors import InputError
from vllm_doctor.exit_status import ExitStatus
from vllm_doctor.options import Options

if TYPE_CHECKING:
    from vllm_doctor.report.model import Report

F = TypeVar("F", bound=Callable[..., Any])
SEVERITIES = ("error", "warning", "info", "never")


class RunNumber(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic only from click 8.4
    """`last`, `all`, or a run's number."""

    name = "N|last|all"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text, if it is one of these."""
        text = str(value)
        if text not in {"last", "all"} and not (text.isdigit() and int(text) > 0):
            self.fail(f"{text!r} is not a number from 1, `last` or `all`", param, ctx)
        return text


def shared(function: F) -> F:
    """Add the options every reading command has."""
    options = [
        click.option("--rules", multiple=True, metavar="DIR", help="A folder of rules of your own; repeatable."),
        click.option("--only", multiple=True, metavar="ID", help="Look for this rule only; repeatable."),
        click.option("--ignore", multiple=True, metavar="ID", help="Leave this rule out; repeatable."),
        click.option("--command", "command_text", default="", metavar="TEXT", help="What you ran, if the log does not show it."),
        click.option("--config", "config_file", default="", metavar="FILE", help="The YAML file you gave to vllm serve --config."),
        click.option("--gpu-memory", type=click.FloatRange(min=0, min_open=True), metavar="GIB", help="The card's size."),
        click.option("--vllm-version", default="", metavar="V", help="The vLLM release."),
        click.option("--max-fixes", type=click.IntRange(min=1), default=5, show_default=True, metavar="N"),
        click.option("--show-secrets", is_flag=True, help="Do not mask API keys and tokens."),
        click.option("--fail-on", type=click.Choice(SEVERITIES), default="error", show_default=True,
                     help="Exit with status 1 from this severity on."),
        click.option("--color", type=click.Choice(("auto", "always", "never")), default="auto", show_default=True),
        click.option("--width", type=click.IntRange(min=40), metavar="N", help="Columns of the text report."),
        click.option("-v", "--verbose", is_flag=True, help="Every finding, proof and link."),
        click.option("-q", "--quiet", is_flag=True, help="Say nothing when nothing was found."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def gather(values: dict[str, Any], run: int | None = None) -> Options:
    """The engine's options from click's values. Raises InputError."""
    config = ""
    if values["config_file"]:
        try:
            config = Path(values["config_file"]).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise InputError(f"{values['config_file']}: {(error.strerror or str(error)).lower()}") from error
    version = values["vllm_version"]
    if version and not version.lstrip("vV")[:1].isdigit():
        raise InputError(f"--vllm-version {version}: not a version such as 0.8.5")
    return Options(
        rules=tuple(values["rules"]), only=tuple(values["only"]), ignore=tuple(values["ignore"]),
        command=values["command_text"], config=config, gpu_memory_gib=values["gpu_memory"],
        vllm_version=version.lstrip("vV"), run=run, max_fixes=values["max_fixes"], show_secrets=values["show_secrets"])


def check_ids(options: Options) -> None:
    """Raise InputError for a rule id nobody knows, with the nearest."""
    from vllm_doctor.errors import did_you_mean  # noqa: PLC0415
    from vllm_doctor.rules import load  # noqa: PLC0415 - only when an id is named

    if options.only or options.ignore:
        known = load(options.rules).rules
        for rule_id in (*options.only, *options.ignore):
            if rule_id not in known:
                raise InputError(f"no rule has the id `{rule_id}`{did_you_mean(rule_id, list(known))}")


def exit_status(reports: list[Report], fail_on: str) -> ExitStatus:
    """1 when a report holds something at or above the threshold."""
    if fail_on == "never":
        return ExitStatus.OK
    order = ("error", "warning", "info")
    bound = order.index(fail_on)
    worst = [report.worst() for report in reports]
    return ExitStatus.FOUND if any(w is not None and order.index(w) <= bound for w in worst) else ExitStatus.OK


def colored(choice: str, stream: Any) -> bool:
    """Whether to colour: only on a terminal, and NO_COLOR counts (https://no-color.org)."""
    if choice != "auto":
        return choice == "always"
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def columns(width: int | None) -> int:
    """The width of the report: as told, the terminal's, at most 120; 100 in a pipe."""
    if width:
        return width
    return min(120, shutil.get_terminal_size((100, 24)).columns) if sys.stdout.isatty() or sys.stderr.isatty() else 100
