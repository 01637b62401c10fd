"""The options that `diagnose`, `watch` and `run` share."""

from __future__ import annotations

import functools
from collections.abc import Callable

import click
from click.core import ParameterSource

from vllm_doctor.cli.values import DEFAULTS, fill_in
from vllm_doctor.errors import DoctorError
from vllm_doctor.typed import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

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
        click.option("--command", "command_text", default=DEFAULTS["command_text"], metavar="TEXT",
                     help="What you ran, if the log does not show it."),
        click.option("--config", "config_file", default=DEFAULTS["config_file"], metavar="FILE",
                     help="The YAML file you gave to vllm serve --config."),
        click.option("--gpu-memory", type=click.FloatRange(min=0, min_open=True), metavar="GIB",
                     help="The card's size."),
        click.option("--vllm-version", default=DEFAULTS["vllm_version"], metavar="V", help="The vLLM release."),
        click.option("--max-fixes", type=click.IntRange(min=1), default=DEFAULTS["max_fixes"], show_default=True,
                     metavar="N"),
        click.option("--show-secrets", is_flag=True, help="Do not mask API keys and tokens."),
        click.option("--fail-on", type=click.Choice(SEVERITIES), default=DEFAULTS["fail_on"], show_default=True,
                     help="Exit with status 1 from this severity on."),
        click.option("--color", type=click.Choice(("auto", "always", "never")), default=DEFAULTS["color"],
                     show_default=True),
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
        name = str(context.command.name)
        notes = fill_in(name, values, lambda key: context.get_parameter_source(key) is not ParameterSource.DEFAULT)
        if name == "diagnose":  # the others' reports come late, if ever
            return function(**values, notes=notes)
        for note in notes:
            click.echo(f"vllm-doctor: {note}", err=True)
        return function(**values)

    return filled
