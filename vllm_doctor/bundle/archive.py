"""Write the archive. Nothing is sent anywhere: the user reads it, then attaches it."""

from __future__ import annotations

import io
import os
import platform
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from vllm_doctor.errors import InputError, reason
from vllm_doctor.redact import Redactor, redact
from vllm_doctor.reports import texts, to_json, to_markdown
from vllm_doctor.reports.escape import code_block, markdown, one_line
from vllm_doctor.reports.model import Report
from vllm_doctor.reports.output import finish
from vllm_doctor.version import __version__

FIRST_BYTES, LAST_BYTES = 4 << 20, 16 << 20
"""Of a longer log, so much of its beginning and its end is in the archive."""
_LONGEST_TITLE = 200
_PIECE = 2000  # lines that are masked together: a secret may be wrapped over several
_DATE = (1980, 1, 1, 0, 0, 0)  # the same log gives the same archive


class Bundle(NamedTuple):
    """The report, and the log's text as bytes, decompressed."""

    report: Report
    log: bytes


def write_bundle(path: str | os.PathLike[str], bundle: Bundle) -> tuple[str, ...]:
    """Write the archive; return the names of the files in it. Raises InputError if it cannot be written."""
    files = dict(_files(bundle))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(f"vllm-doctor-bundle/{name}", _DATE), text.encode("utf-8", "replace"),
                             zipfile.ZIP_DEFLATED)
    try:
        with open(path, "xb") as file:
            file.write(buffer.getvalue())
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: {reason(error)}") from error
    return tuple(files)


def _files(bundle: Bundle) -> Iterator[tuple[str, str]]:
    report = bundle.report
    redactor = report.redactor or Redactor()
    yield "ISSUE.md", redactor.redact(_issue(report, redactor))
    yield "report.md", finish(to_markdown.render(report), "markdown", [report])
    yield "report.json", finish(to_json.render(report), "json", [report])
    yield "server.log", "".join(_masked(_shortened(bundle.log), redactor))
    yield "versions.txt", (f"vllm-doctor {__version__}\nPython {platform.python_version()}\n"
                           f"{platform.system()} {platform.machine()}\n")


def _shortened(log: bytes) -> str:
    """Return the log as text, without the middle of a long one."""
    if len(log) > FIRST_BYTES + LAST_BYTES:
        left_out = len(log) - FIRST_BYTES - LAST_BYTES
        log = log[:FIRST_BYTES] + f"\n[vllm-doctor left out {left_out:,} bytes here]\n".encode() + log[-LAST_BYTES:]
    encoding = "utf-16" if log[:2] in {b"\xff\xfe", b"\xfe\xff"} else "utf-8"
    return log.decode(encoding, "replace")


def _masked(text: str, redactor: Redactor) -> Iterator[str]:
    """Yield the text with its secrets masked, some thousand lines at a time."""
    lines = text.splitlines(keepends=True)
    for piece in _pieces(lines):
        yield redactor.redact(redact(piece))


def _pieces(lines: list[str]) -> Iterable[str]:
    return ("".join(lines[at:at + _PIECE]) for at in range(0, len(lines), _PIECE))


def _issue(report: Report, redactor: Redactor) -> str:
    failure = report.failure
    title = redactor.redact(redact(texts.headline(report)))
    return _environment().get_template("issue.md").render(
        report=report, headline=title, failure=failure, title=quote(one_line(title)[:_LONGEST_TITLE], safe=""),
        excerpt=code_block(failure.text or failure.message) if failure is not None else "",
        command=code_block(report.command) if report.command else "")


@cache
def _environment() -> Environment:
    folder = Path(__file__).parent
    environment = Environment(loader=FileSystemLoader(folder), autoescape=False, trim_blocks=True,  # noqa: S701 - Markdown
                              lstrip_blocks=True, undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters["markdown"] = lambda value: markdown(str(value))
    return environment
