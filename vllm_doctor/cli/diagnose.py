"""`vllm-doctor diagnose LOG…`: the report on one log or several."""

from __future__ import annotations

import sys

import click

from vllm_doctor.cli.options import RuleId, RunNumber, shared
from vllm_doctor.cli.reading import WRITERS, diagnose
from vllm_doctor.cli.values import DIAGNOSE_DEFAULTS
from vllm_doctor.typed import Any

_Also = tuple[str, str]  # a format and a file


class ReportFile(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic only from click 8.4
    """`FORMAT=FILE`."""

    name = "FORMAT=FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> _Also:
        """The format and the file."""
        format_, _, path = str(value).partition("=")
        if format_ not in WRITERS or not path:
            self.fail(f"{value!r} is not FORMAT=FILE with one of {', '.join(WRITERS)}", param, ctx)
        return format_, path


@click.command("diagnose")
@click.argument("logs", nargs=-1, metavar="LOG…", type=click.Path(allow_dash=True, readable=False))
@click.option("--format", "format_", type=click.Choice(tuple(WRITERS)), default=DIAGNOSE_DEFAULTS["format_"],
              show_default=True)
@click.option("--output", metavar="FILE", help="Write the report there instead of to stdout.")
@click.option("--report", "also", multiple=True, type=ReportFile(),
              help="Write the report in another format as well; repeatable, the log is read once.")
@click.option("--run", "run_number", type=RunNumber(), default=DIAGNOSE_DEFAULTS["run_number"], show_default=True,
              help="Which start of the server in the log.")
@click.option("--why", type=RuleId(), metavar="ID", help="Say why this rule fired, or why it did not.")
@shared
def command(*, logs: tuple[str, ...], notes: tuple[str, ...], **values: Any) -> None:
    """Diagnose logs: files (also .gz .xz .bz2 .zst), or standard input (`-`, or nothing with a pipe).

    Of several logs a summary comes first, which causes and how often, then the report on each.
    """
    sys.exit(diagnose(logs, values, notes))
