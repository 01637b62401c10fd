"""The `vllm-doctor fleet …` commands: many logs, few causes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from vllm_doctor.cli.effective_options import check_ids
from vllm_doctor.cli.error_output import print_error_line
from vllm_doctor.cli.exit_status import ExitStatus
from vllm_doctor.cli.options import Release, RuleId, add_options, in_language
from vllm_doctor.cli.streams import write
from vllm_doctor.cli.terminal import columns
from vllm_doctor.fleet import engines, render
from vllm_doctor.fleet.model import StartRow
from vllm_doctor.fleet.read_fleet import Shard, fleet, merge
from vllm_doctor.fleet.summary import Summary
from vllm_doctor.fleet.tables import encode, has_parquet
from vllm_doctor.language import language
from vllm_doctor.options import Options
from vllm_doctor.reports.escape import inert_json
from vllm_doctor.severity import FAIL_ON, reaches
from vllm_doctor.text_files import write_text

_FORMATS = ("text", "jsonl", "html", "markdown")


class ShardNumber(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic only from click 8.4
    """One part of several: `2/8`."""

    name = "I/N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Shard:
        """Return the shard. Fails if it is none."""
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", str(value))
        if match is None or not int(match[2]) or int(match[1]) > int(match[2]):
            self.fail(f"{value!r} is not I/N, such as 2/8", param, ctx)
        return Shard(int(match[1]), int(match[2]))


class _Fleet(click.Group):
    """A group whose first word is a subcommand or a log."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in self.commands:
            args = ["read", *args]
        return super().parse_args(ctx, args)


_SUMMARY = (
    click.option("--out", type=click.Path(path_type=Path), metavar="DIR",
                 help="Directory for the tables and summary.html; the next run reads only new logs."),
    click.option("--baseline", type=click.Path(path_type=Path), metavar="DIR",
                 help="Compare with the tables in this directory: causes that are new, that remain, that are gone."),
    click.option("--format", "format_", type=click.Choice(_FORMATS), default="text", show_default=True,
                 help="Format of the summary on stdout; jsonl: one line per server start."),
    click.option("--fail-on", type=click.Choice(FAIL_ON), default="error", show_default=True,
                 help="Lowest severity that gives exit status 1."),
    in_language,
    click.option("--width", type=click.IntRange(min=40), metavar="N", help="Width of the text summary in columns."),
    click.option("-v", "--verbose", is_flag=True, help="List all causes and notes."),
)


def _with_summary(function: Callable[..., Any]) -> Callable[..., Any]:
    return add_options(_SUMMARY, function)


@click.group("fleet", short_help="Summarize the causes of many logs.", cls=_Fleet,
             subcommand_metavar="PATH|URL|GLOB… | merge DIR…")
def command() -> None:
    """Summarize many logs: their causes, where and since when, and what is new."""


@command.command("read", hidden=True)
@click.argument("targets", nargs=-1, required=True, metavar="PATH|URL|GLOB…")
@_with_summary
@click.option("--engine", type=click.Choice(("local", "ray")), default="local", show_default=True,
              help="Read the logs in local processes or in Ray tasks.")
@click.option("--ray-address", metavar="ADDR", help="Address of the Ray cluster (default: start Ray locally).")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Number of processes (default: one per CPU).")
@click.option("--shard", type=ShardNumber(), help="Read only this part of the logs; `fleet merge` joins the parts.")
@click.option("--label", default="", metavar="REGEX",
              help="Regular expression whose groups host, service and job are read from the path.")
@click.option("--rules", multiple=True, metavar="DIR", help="Directory with your own rules; repeatable.")
@click.option("--only", multiple=True, type=RuleId(), metavar="ID", help="Use only this rule; repeatable.")
@click.option("--ignore", multiple=True, type=RuleId(), metavar="ID", help="Skip this rule; repeatable.")
@click.option("--vllm-version", type=Release(), default="", help="vLLM release, if the logs do not show it.")
def read_logs(*, targets: tuple[str, ...], engine: str, ray_address: str | None, jobs: int | None,
              shard: Shard | None, label: str, rules: tuple[str, ...], only: tuple[str, ...], ignore: tuple[str, ...],
              vllm_version: str, **values: Any) -> None:
    """Summarize many logs: their causes, where and since when, and what is new.

    The logs are files, directories, globs and URLs (s3://, gs://, https://). One that cannot be read is a row of the
    tables, and does not end the run. The last line of the summary has the totals. `vllm-doctor fleet merge DIR…` joins
    the tables of shards.
    """
    options = Options(rules=rules, only=only, ignore=ignore, vllm_version=vllm_version,
                      language=values["language"])
    check_ids(options)
    chosen = engines.ray(ray_address, jobs) if engine == "ray" else engines.local(jobs)
    with _progress() as progress:
        summary = fleet(targets, options, out=values["out"], engine=chosen, label=label, shard=shard,
                        baseline=values["baseline"], progress=progress, each=_each(values["format_"]))
    _print(summary, values)


@command.command("merge")
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR…")
@_with_summary
def merge_tables(folders: tuple[Path, ...], **values: Any) -> None:
    """Join the tables of several directories, as those of shards, and print the summary."""
    summary = merge(folders, out=values["out"], baseline=values["baseline"], each=_each(values["format_"]))
    _print(summary, values)


def _each(format_: str) -> Callable[[StartRow], None]:
    """Return what is done with each row: with `--format jsonl` it is printed."""
    return (lambda row: write(inert_json(encode(row)))) if format_ == "jsonl" else lambda _: None


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on stderr if it is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    with click.progressbar(length=1, label="Reading logs", file=sys.stderr, show_pos=True) as bar:

        def show(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield show


def _print(summary: Summary, values: dict[str, Any]) -> None:
    out, format_, spoken = values["out"], values["format_"], language(values["language"])
    if out is not None:
        write_text(out / "summary.html", render.html(summary, spoken))
        if not has_parquet():
            print_error_line("vllm-doctor: no Parquet tables without the extra: pip install 'vllm-log-doctor[fleet]'")
    if format_ == "text":
        write(render.text(summary, width=columns(values["width"]), every=values["verbose"], language=spoken))
    elif format_ != "jsonl":
        write(render.html(summary, spoken) if format_ == "html" else render.markdown(summary, spoken))
    is_found = any(reaches(group.severity, values["fail_on"]) for group in summary.groups)
    is_unreadable = summary.logs > 0 and summary.starts == 0
    sys.exit(ExitStatus.FOUND if is_found else ExitStatus.USAGE if is_unreadable else ExitStatus.OK)
