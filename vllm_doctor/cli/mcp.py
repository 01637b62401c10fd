"""`vllm-doctor mcp`: a server for coding agents, over standard input and output."""

from __future__ import annotations

import os

import click

from vllm_doctor.agents.server import serve


@click.command("mcp")
@click.option("--root", "roots", multiple=True, type=click.Path(), metavar="DIR",
              help="Read files below this folder only (default: the current folder); repeatable.")
def command(roots: tuple[str, ...]) -> None:
    """Serve the tools `diagnose`, `explain` and `size` to coding agents (Model Context Protocol, stdio)."""
    serve(roots or (os.getcwd(),))
