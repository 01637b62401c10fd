"""The options shared by `diagnose`, `watch` and `run`, and click parameter types."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from vllm_doctor.cli import project_settings
from vllm_doctor.cli.effective_options import apply_project_settings
from vllm_doctor.cli.error_output import print_error_line
from vllm_doctor.cli.formats import WRITERS
from vllm_doctor.errors import DoctorError, InputError
from vllm_doctor.language import LANGUAGES, wanted_language
from vllm_doctor.messages import message
from vllm_doctor.reports.escape import one_line
from vllm_doctor.rulebase.loader import load
from vllm_doctor.severity import FAIL_ON

F = TypeVar("F", bound=Callable[..., Any])


class RuleId(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic only from click 8.4
    """A rule id with shell completion. Its existence is checked when the rules are loaded."""

    name = "ID"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the matching ids of the built-in rules, of `--rules` and of the project settings."""
        del param
        try:
            settings = project_settings.find()
            rules = load((*(settings.rules if settings else ()), *(ctx.params.get("rules") or ()))).rules
        except DoctorError:  # the command itself reports a broken file, not the completion
            rules = load(()).rules
        return [CompletionItem(rule_id, help=rule.phase) for rule_id, rule in sorted(rules.items())
                if rule_id.startswith(incomplete)]


class RunNumber(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic only from click 8.4
    """The number of a server start, `last` or `all`."""

    name = "N|last|all"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the value as text. Fails if it is invalid."""
        text = str(value)
        if text not in {"last", "all"} and not re.fullmatch(r"0{0,9}[1-9]\d{0,8}", text, re.ASCII):
            self.fail(f"{text!r} is not a number from 1, `last` or `all`", param, ctx)
        return text


class Release(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic only from click 8.4
    """A release of vLLM: `0.8.5` or `v0.8.5`."""

    name = "V"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the release without `v`. Raises InputError if it is no version."""
        del param, ctx
        text = str(value).lstrip("vV")
        if value and not text[:1].isdigit():
            raise InputError(message("--vllm-version {version}: not a version such as 0.8.5", version=value))
        return text


class ReportFile(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic only from click 8.4
    """A report format and a file to write: `FORMAT=FILE`."""

    name = "FORMAT=FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Return the format and the file. Fails for an unknown format or an empty name."""
        format_, _, path = str(value).partition("=")
        if format_ not in WRITERS or not path:
            self.fail(f"{value!r} is not FORMAT=FILE with one of {', '.join(WRITERS)}", param, ctx)
        return format_, path


def _language(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    """Return the language as typed, on the command or before it, else the one of the environment."""
    del parameter
    root = context.find_root()
    code = value or root.obj or wanted_language(os.environ)
    root.obj = code  # for messages about errors
    return str(code)


def in_language(function: F) -> F:
    """Add the option `--lang`, which passes `language`, a code."""
    return click.option("--lang", "language", type=click.Choice(LANGUAGES), callback=_language, is_eager=True,
                        help="Language of texts (default: VLLM_DOCTOR_LANG, LC_ALL, LC_MESSAGES, LANG).")(function)


_ENGINE = (
    click.option("--rules", multiple=True, metavar="DIR", help="Directory with your own rules; repeatable."),
    click.option("--only", multiple=True, type=RuleId(), metavar="ID", help="Use only this rule; repeatable."),
    click.option("--ignore", multiple=True, type=RuleId(), metavar="ID", help="Skip this rule; repeatable."),
    click.option("--command", "command_text", default="", metavar="TEXT",
                 help="Command that started the server, if the log does not show it."),
    click.option("--config", "config_file", default="", metavar="FILE",
                 help="YAML file passed to vllm serve --config."),
    click.option("--gpu-memory", type=click.FloatRange(min=0, min_open=True), metavar="GIB",
                 help="Total memory of the GPU, if the log does not show it."),
    click.option("--gpu-used", type=click.FloatRange(min=0), metavar="GIB",
                 help="GPU memory in use while the server runs, if the log does not show it."),
    click.option("--gpu-status", "gpu_status_file", default="", metavar="FILE",
                 help="Output of nvidia-smi, rocm-smi, amd-smi, npu-smi, xpu-smi or hl-smi, saved to a file."),
    click.option("--model-config", default="", metavar="DIR",
                 help="Directory or config.json of the model, to compute the size of its KV cache."),
    click.option("--vllm-version", type=Release(), default="", help="vLLM release, if the log does not show it."),
    click.option("--max-fixes", type=click.IntRange(min=1), default=5, show_default=True, metavar="N",
                 help="Maximum number of fixes for each cause."),
    click.option("--show-secrets", is_flag=True, help="Do not mask API keys and tokens."),
    click.option("--settings", "settings_file", type=click.Path(), metavar="FILE",
                 help="Settings file to read instead of the nearest pyproject.toml or vllm-doctor.toml."),
    click.option("--isolated", is_flag=True, help="Read no settings file."),
    in_language,
)
_DISPLAY = (
    click.option("--fail-on", type=click.Choice(FAIL_ON), default="error", show_default=True,
                 help="Lowest severity that gives exit status 1."),
    click.option("--color", type=click.Choice(("auto", "always", "never")), default="auto", show_default=True,
                 help="Color the text report."),
    click.option("--width", type=click.IntRange(min=40), metavar="N",
                 help="Width of the text report in columns (default: the terminal's, at most 120)."),
    click.option("-v", "--verbose", is_flag=True, help="Show all findings with their evidence and links."),
    click.option("-q", "--quiet", is_flag=True, help="Print nothing if there are no findings."),
)
_DIAGNOSE = (
    click.option("--format", "format_", type=click.Choice(tuple(WRITERS)), default="text", show_default=True,
                 help="Format of the report."),
    click.option("--output", metavar="FILE", help="Write the report to this file instead of stdout."),
    click.option("--report", "also", multiple=True, type=ReportFile(),
                 help="Also write the report in this format to this file; repeatable."),
    click.option("--run", "run_number", type=RunNumber(), default="last", show_default=True,
                 help="Server start to report on, in a log with several."),
    click.option("--no-shortcuts", is_flag=True, help="Analyse every line in full: slower, same report."),
    click.option("--requests", "requests_file", metavar="FILE",
                 help="JSON Lines file of requests: compare the settings with the lengths they need."),
    click.option("--tokenizer", metavar="FILE",
                 help="tokenizer.json that counts the tokens of --requests (default: 4 characters per token)."),
    click.option("--against", metavar="GOOD", help="Log of a start that worked: show what changed since."),
    click.option("--together", is_flag=True, help="Treat the logs as one incident with one cause."),
    click.option("--timeline", is_flag=True, help="Show the duration of each start-up phase."),
    click.option("--why", type=RuleId(), metavar="ID", help="Explain why this rule matched or did not match."),
)


def of_engine(function: F) -> F:
    """Add the options of the analysis; project settings replace options that were not typed."""
    return add_options(_ENGINE, cast("F", _with_settings(function)))


def of_engine_and_display(function: F) -> F:
    """Add the options of the analysis, and those of a text report and the exit status."""
    return add_options((*_ENGINE, *_DISPLAY), cast("F", _with_settings(function)))


def of_diagnose(function: F) -> F:
    """Add the options that only `diagnose` has."""
    return add_options(_DIAGNOSE, function)


def add_options(options: tuple[Callable[[F], F], ...], function: F) -> F:
    """Add options in their order."""
    for option in reversed(options):
        function = option(function)
    return function


def _with_settings(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def filled(**values: Any) -> Any:
        context = click.get_current_context()
        name = str(context.command.name)

        def is_typed(option: str) -> bool:
            return context.get_parameter_source(option) is not ParameterSource.DEFAULT

        notes = apply_project_settings(name, values, is_typed)
        if name == "diagnose":  # the other commands print their report late or never
            return function(**values, notes=notes)
        for note in notes:
            print_error_line(f"vllm-doctor: {one_line(note)}")
        return function(**values)

    return filled
