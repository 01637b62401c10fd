"""The `vllm-doctor diagnose LOG…` command: report on one log or several."""

from __future__ import annotations

import sys
from typing import Any

import click

from vllm_doctor.cli.diagnose_logs import diagnose
from vllm_doctor.cli.host_options import from_hosts, host_logs
from vllm_doctor.cli.options import of_diagnose, of_engine_and_display


@click.command("diagnose", short_help="Diagnose log files or standard input.")
@click.argument("logs", nargs=-1, metavar="LOG…", type=click.Path(allow_dash=True, readable=False))
@from_hosts
@of_diagnose
@of_engine_and_display
def command(*, logs: tuple[str, ...], notes: tuple[str, ...], **values: Any) -> None:
    """Diagnose log files (also .gz .xz .bz2 .zst .zip .tar) or standard input (`-`, or nothing in a pipe).

    --pod, --docker, --journal and --slurm read the logs that a host keeps, with the installed client.

    For several logs a summary of the causes comes first, then one report per log.
    """
    sys.exit(diagnose((*logs, *host_logs(values)), values, notes))
