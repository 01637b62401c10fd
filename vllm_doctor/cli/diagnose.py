"""`vllm-doctor diagnose LOG…`: the report on one log or several."""

from __future__ import annotations

import sys
from typing import Any

import click

from vllm_doctor.cli.diagnose_logs import diagnose
from vllm_doctor.cli.option_table import DIAGNOSE
from vllm_doctor.cli.options import of_table, shared


@click.command("diagnose")
@click.argument("logs", nargs=-1, metavar="LOG…", type=click.Path(allow_dash=True, readable=False))
@of_table(DIAGNOSE)
@shared
def command(*, logs: tuple[str, ...], notes: tuple[str, ...], **values: Any) -> None:
    """Diagnose logs: files (also .gz .xz .bz2 .zst), or standard input (`-`, or nothing with a pipe).

    Of several logs a summary comes first, which causes and how often, then the report on each.
    """
    sys.exit(diagnose(logs, values, notes))
