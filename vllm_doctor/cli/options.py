"""The options that `diagnose`, `watch` and `run` share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from vllm_doctor.cli import option_table
from vllm_doctor.cli.option_table import SHARED, Choice, File, Option, Own, Quantity, Text, Whole
from vllm_doctor.cli.values import fill_in
from vllm_doctor.errors import DoctorError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])


class OwnKind(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic only from click 8.4
    """A kind of value of ours."""

    def __init__(self, kind: Own) -> None:
        self.name = kind.name
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value, if it is one."""
        try:
            return self._kind.read(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class RuleId(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic only from click 8.4
    """A rule's id, which a shell completes."""

    name = "ID"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The ids that begin so: of the built-in rules, of `--rules` and of the settings' folders."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only a shell asks

        from vllm_doctor.cli import project_settings  # noqa: PLC0415
        from vllm_doctor.rulebase.loader import load  # noqa: PLC0415

        del param
        try:
            found = project_settings.find()
            rules = load((*(found.rules if found else ()), *(ctx.params.get("rules") or ()))).rules
        except DoctorError:  # a broken file of the user's is told by the command, not while typing
            rules = load(()).rules
        return [CompletionItem(rule_id, help=rule.phase) for rule_id, rule in sorted(rules.items())
                if rule_id.startswith(incomplete)]


def _kind(kind: Text | None) -> Any:
    """Click's type for a kind of value; None for a text."""
    if isinstance(kind, Choice):
        return click.Choice(kind.words)
    if isinstance(kind, Whole):
        return click.IntRange(min=kind.least)
    if isinstance(kind, Quantity):
        return click.FloatRange(min=0, min_open=True)
    if isinstance(kind, File):
        return click.Path()
    if isinstance(kind, option_table.RuleId):
        return RuleId()
    return OwnKind(kind) if isinstance(kind, Own) else None


def of_table(table: Sequence[Option]) -> Callable[[F], F]:
    """Add the options of a table."""
    def added(function: F) -> F:
        made: Callable[..., Any] = function
        for option in reversed(table):
            given = {"is_flag": True} if option.kind is None else {"type": _kind(option.kind), "multiple": option.many}
            if not option.many:
                given.update(default=option.default, show_default=bool(option.default))
            made = click.option(*option.names, option.key, metavar=option.metavar, help=option.help, **given)(made)
        return cast("F", made)

    return added


def shared(function: F) -> F:
    """Add the options every reading command has, and what the project's settings say where nothing was typed."""
    return of_table(SHARED)(cast("F", _with_settings(function)))


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
