"""The `vllm-doctor web` command: a local page to paste a log into."""

from __future__ import annotations

import click

from vllm_doctor.cli import project_settings
from vllm_doctor.cli.effective_options import check_ids
from vllm_doctor.cli.error_output import print_error_line
from vllm_doctor.cli.options import in_language
from vllm_doctor.errors import InputError, failed
from vllm_doctor.options import Options
from vllm_doctor.reports.escape import one_line
from vllm_doctor.rulebase.loader import load
from vllm_doctor.web.server import Server


@click.command("web")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1 (default: a free one).")
@click.option("--max-size", type=click.IntRange(1, 1024), default=32, show_default=True, metavar="MIB",
              help="Maximum size of a log.")
@click.option("--rules", multiple=True, metavar="DIR", help="Directory with your own rules; repeatable.")
@in_language
def command(port: int, max_size: int, rules: tuple[str, ...], language: str) -> None:
    """Serve a local page that diagnoses a pasted or dropped log. Ctrl-C stops it.

    The address printed holds a random token; without it the server answers nothing. From another machine:
    ssh -L 8765:127.0.0.1:8765 HOST, and vllm-doctor web --port 8765 there.
    """
    settings = project_settings.find()
    options = Options(rules=rules, language=language)
    if settings is not None:
        options = Options(rules=(*settings.rules, *rules), only=settings.only, ignore=settings.ignored(),
                          language=language, max_fixes=settings.max_fixes or options.max_fixes)
        for note in settings.notes():
            print_error_line(f"vllm-doctor: {one_line(note)}")
    check_ids(options)
    load(options.rules)  # report an invalid rule now, not with the first log
    try:
        server = Server(options, port, max_size << 20)
    except OSError as error:
        raise InputError(failed(f"--port {port}", error)) from error
    click.echo(f"Open {server.url}\nCtrl-C ends it.")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print_error_line("")
    finally:
        server.server_close()
