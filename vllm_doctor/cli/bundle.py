"""`vllm-doctor bundle LOG`: an archive to attach to an issue, with secrets masked."""

from __future__ import annotations

import sys
from typing import Any

import click

from vllm_doctor.bundle import Bundle, write_bundle
from vllm_doctor.cli.effective_options import check_ids, engine_options
from vllm_doctor.cli.options import of_engine
from vllm_doctor.diagnosis.engine import Diagnosis
from vllm_doctor.errors import InputError
from vllm_doctor.logs.inputs import one_log
from vllm_doctor.reports.escape import one_line

_CHUNK = 1 << 18
_MOST = 1 << 30  # bytes that are kept to be shortened


@click.command("bundle", short_help="Write an archive for an issue, with secrets masked.")
@click.argument("log", metavar="LOG", type=click.Path(allow_dash=True, readable=False))
@click.option("--output", default="vllm-doctor-bundle.zip", show_default=True, metavar="FILE",
              help="Archive to write; it must not exist yet.")
@of_engine
def command(log: str, output: str, **values: Any) -> None:
    """Write an archive for an issue: the log with secrets masked, the report and an issue text to fill in.

    Nothing is sent. Read the archive before you attach it.
    """
    if values["show_secrets"]:
        raise InputError("the archive is for others: it is not made with --show-secrets")
    options = engine_options(values)
    check_ids(options)
    held = bytearray()
    with one_log(sys.stdin.buffer if log == "-" else log, "standard input") as source:
        diagnosis = Diagnosis(options, "-" if log == "-" else source.name)
        for chunk in source.chunks(_CHUNK):
            diagnosis.feed(chunk)
            if len(held) > _MOST:
                raise InputError(f"{one_line(log)}: more than {_MOST >> 30} GiB: cut it to the start that failed")
            held += chunk
        diagnosis.add_notes(*source.notes)
    names = write_bundle(output, Bundle(diagnosis.finish(), bytes(held)))
    click.echo(f"{output}: {', '.join(names)}. Secrets of known kinds are masked; read it before you attach it.")
