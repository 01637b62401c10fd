"""The `vllm-doctor diagnose LOG…` command: report on one log or several."""

from __future__ import annotations

import sys
from typing import Any

import click

from vllm_doctor.cli.diagnose_logs import diagnose
from vllm_doctor.cli.options import of_diagnose, shared


@click.command("diagnose")
@click.argument("logs", nargs=-1, metavar="LOG…", type=click.Path(allow_dash=True, readable=False))
@of_diagnose
@shared
def command(*, logs: tuple[str, ...], notes: tuple[str, ...], **values: Any) -> None:
    """Diagnose logs: files (also .gz .xz .bz2 .zst), or standard input (`-`, or nothing with a pipe).

    For several logs a summary of the causes comes first, then one report per log.
    """
    sys.exit(diagnose(logs, values, notes))
