"""The options that `diagnose`, `watch` and `run` share."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from vllm_doctor.errors import DoctorError, InputError
from vllm_doctor.exit_status import ExitStatus
from vllm_doctor.options import Options

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

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


class RuleId(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic only from click 8.4
    """A rule's id. A shell completes it; whether it exists is checked when the rules are known."""

    name = "ID"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The ids that begin so: of the built-in rules, of `--rules` and of the settings' folders."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only a shell asks

        from vllm_doctor import settings  # noqa: PLC0415
        from vllm_doctor.own_rules import load  # noqa: PLC0415

        del param
        try:
            found = settings.find()
            rules = load((*(found.rules if found else ()), *(ctx.params.get("rules") or ()))).rules
        except DoctorError:  # a broken file of the user's is told by the command, not while typing
            rules = load(()).rules
        return [CompletionItem(rule_id, help=rule.phase) for rule_id, rule in sorted(rules.items())
                if rule_id.startswith(incomplete)]


def shared(function: F) -> F:
    """Add the options every reading command has, and what the project's settings say where nothing was typed."""
    options = [
        click.option("--rules", multiple=True, metavar="DIR", help="A folder of rules of your own; repeatable."),
        click.option("--only", multiple=True, type=RuleId(), metavar="ID", help="Look for this rule only; repeatable."),
        click.option("--ignore", multiple=True, type=RuleId(), metavar="ID", help="Leave this rule out; repeatable."),
        click.option("--command", "command_text", default="", metavar="TEXT",
                     help="What you ran, if the log does not show it."),
        click.option("--config", "config_file", default="", metavar="FILE",
                     help="The YAML file you gave to vllm serve --config."),
        click.option("--gpu-memory", type=click.FloatRange(min=0, min_open=True), metavar="GIB",
                     help="The card's size."),
        click.option("--vllm-version", default="", metavar="V", help="The vLLM release."),
        click.option("--max-fixes", type=click.IntRange(min=1), default=5, show_default=True, metavar="N"),
        click.option("--show-secrets", is_flag=True, help="Do not mask API keys and tokens."),
        click.option("--fail-on", type=click.Choice(SEVERITIES), default="error", show_default=True,
                     help="Exit with status 1 from this severity on."),
        click.option("--color", type=click.Choice(("auto", "always", "never")), default="auto", show_default=True),
        click.option("--width", type=click.IntRange(min=40), metavar="N", help="Columns of the text report."),
        click.option("--settings", "settings_file", type=click.Path(), metavar="FILE",
                     help="Read this instead of the pyproject.toml or vllm-doctor.toml found upward from here."),
        click.option("--isolated", is_flag=True, help="Read no settings file."),
        click.option("-v", "--verbose", is_flag=True, help="Every finding, proof and link."),
        click.option("-q", "--quiet", is_flag=True, help="Say nothing when nothing was found."),
    ]
    made: Callable[..., Any] = _with_settings(function)
    for option in reversed(options):
        made = option(made)
    return cast("F", made)


def _with_settings(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def filled(**values: Any) -> Any:
        context = click.get_current_context()
        notes = _fill_in(values, context)
        if context.command.name == "diagnose":  # the others' reports come late, if ever
            return function(**values, notes=notes)
        for note in notes:
            click.echo(f"vllm-doctor: {note}", err=True)
        return function(**values)

    return filled


def _fill_in(values: dict[str, Any], context: click.Context) -> tuple[str, ...]:
    """Put the settings where nothing was typed; returns what the user should know. Raises InputError."""
    from vllm_doctor import settings  # noqa: PLC0415 - it looks at the disk, so not before a command reads

    named, isolated = values.pop("settings_file"), values.pop("isolated")
    if named and isolated:
        raise InputError("--settings and --isolated contradict each other")
    found = settings.read(named) if named else None if isolated else settings.find()
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
    if context.command.name == "diagnose":
        defaults["format_"] = found.format
    values.update({name: value for name, value in defaults.items() if value is not None
                   and context.get_parameter_source(name) is ParameterSource.DEFAULT})
    return found.notes()


def gather(values: dict[str, Any], run: int | None = None) -> Options:
    """The engine's options from click's values. Raises InputError."""
    config = ""
    if values["config_file"]:
        try:
            with open(values["config_file"], encoding="utf-8", errors="replace") as file:
                config = file.read()
        except OSError as error:
            raise InputError(f"{values['config_file']}: {(error.strerror or str(error)).lower()}") from error
    version = values["vllm_version"]
    if version and not version.lstrip("vV")[:1].isdigit():
        raise InputError(f"--vllm-version {version}: not a version such as 0.8.5")
    return Options(
        rules=tuple(values["rules"]), only=tuple(values["only"]), ignore=tuple(values["ignore"]),
        command=values["command_text"], config=config, gpu_memory_gib=values["gpu_memory"],
        vllm_version=version.lstrip("vV"), run=run, max_fixes=values["max_fixes"], show_secrets=values["show_secrets"])


def check_ids(options: Options, *more: str) -> None:
    """Raise InputError for a rule id nobody knows, with the nearest."""
    from vllm_doctor.errors import did_you_mean  # noqa: PLC0415
    from vllm_doctor.own_rules import load  # noqa: PLC0415 - only when an id is named

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
    if not (sys.stdout.isatty() or sys.stderr.isatty()):
        return 100
    import shutil  # noqa: PLC0415 - it loads the archive modules

    return min(120, shutil.get_terminal_size((100, 24)).columns)
