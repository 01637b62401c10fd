"""`vllm-doctor mcp`: a server for coding agents, over standard input and output."""

from __future__ import annotations

import os

import click

from vllm_doctor.agents.server import serve
from vllm_doctor.cli.streams import discard, error_text
from vllm_doctor.errors import InputError


@click.command("mcp", short_help="Serve `diagnose`, `explain` and `size` to coding agents.")
@click.option("--root", "roots", multiple=True, type=click.Path(), metavar="DIR",
              help="Directory whose files may be read (default: the current one); repeatable.")
def command(roots: tuple[str, ...]) -> None:
    """Serve `diagnose`, `explain` and `size` to coding agents (Model Context Protocol over stdio)."""
    try:
        serve(roots or (os.getcwd(),))
    except Exception as error:
        failed = _stream_error(error)
        if failed is None:
            raise
        discard(1)
        if not isinstance(failed, BrokenPipeError):  # a client that has gone is no error
            raise InputError(error_text(failed)) from error


def _stream_error(error: BaseException) -> OSError | None:
    """Return the failure of a stream, which the SDK raises within groups of exceptions; None for another error."""
    if isinstance(error, OSError):
        return error
    inner = (_stream_error(each) for each in getattr(error, "exceptions", ()))
    return next((found for found in inner if found is not None), None)
