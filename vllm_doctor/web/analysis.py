"""Report on one uploaded log, in a separate process that can be ended.

The server writes a line with the options and then the log to its standard input, and reads the answer as JSON. A log
that takes too long, or too much memory, costs that process and nothing else.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from vllm_doctor.diagnosis.engine import Diagnosis
from vllm_doctor.errors import DoctorError, InputError
from vllm_doctor.language import language
from vllm_doctor.logs.inputs import Log, logs_in
from vllm_doctor.messages import message, say
from vllm_doctor.options import Options
from vllm_doctor.reports import to_html
from vllm_doctor.reports.escape import one_line
from vllm_doctor.reports.model import Report
from vllm_doctor.reports.output import finish

SECONDS = 60.0
_MEMORY = 2 << 30  # bytes of addresses
_TIMES_UNPACKED = 4  # a compressed log may hold that many times the limit
_CHUNK = 1 << 16
_MOST_PROBLEMS = 8  # that are named


def report_page(name: str, data: bytes, options: Options, most_bytes: int) -> tuple[str, str]:
    """Return (page, policy) of the report on a log. Raises InputError if it cannot be read, or not in time."""
    head = json.dumps({"name": name, "options": options._asdict(), "most": most_bytes}).encode() + b"\n"
    with subprocess.Popen([sys.executable, "-m", __name__], bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as process:
        try:
            if process.stdin is not None:
                with suppress(BrokenPipeError):  # it died: no answer comes
                    process.stdin.write(head)
            out, _ = process.communicate(data, SECONDS)
        except subprocess.TimeoutExpired as error:
            process.kill()
            raise _ended() from error
    try:
        answer: dict[str, Any] = json.loads(out)
    except ValueError as error:
        raise _ended() from error
    if "problem" in answer:
        raise InputError(answer["problem"])
    return answer["page"], to_html.policy()


def _ended() -> InputError:
    return InputError(message("the analysis failed, or took more than {seconds:.0f} s or too much memory. The "
                              "command has no such limits: vllm-doctor diagnose FILE", seconds=SECONDS))


def main() -> None:
    """Read a line of options and a log from stdin, write the page."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    asked = json.loads(sys.stdin.buffer.readline())
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value
                            for name, value in asked["options"].items()}
    try:
        answer = {"page": _page(asked["name"], Options(**given), asked["most"])}
    except DoctorError as error:
        answer = {"problem": one_line(say(error.args[0], language(asked["options"]["language"]).gettext))}
    json.dump(answer, sys.stdout)


def _page(name: str, options: Options, most: int) -> str:
    logs = logs_in(sys.stdin.buffer, name)
    reports: list[Report] = []
    problems: list[InputError] = []
    for log in logs:
        try:
            reports.append(_report(log, options, most * _TIMES_UNPACKED))
        except InputError as error:  # noqa: PERF203 - one log per iteration
            problems.append(error)
    if problems and not reports:
        raise problems[0]
    notes = (*logs.notes, *(problem.args[0] for problem in problems[:_MOST_PROBLEMS]))
    reports = [report.with_caveats(*notes) for report in reports]
    page: str = to_html.render(reports[0], back="./") if len(reports) == 1 else to_html.render_many(reports, back="./")
    return finish(page, "html", reports)


def _report(log: Log, options: Options, most: int) -> Report:
    diagnosis = Diagnosis(options, log.name)
    for chunk in _at_most(log, most):
        diagnosis.feed(chunk)
    diagnosis.add_notes(*log.notes)
    return diagnosis.finish()


def _at_most(log: Log, most: int) -> Iterator[bytes]:
    size = 0
    for chunk in log.chunks(_CHUNK):
        size += len(chunk)
        if size > most:
            words = f"{most / 2**20:g} MiB" if most >= 2**20 else f"{most:,} bytes"
            raise InputError(message("unpacked, the log is larger than {size}", size=words))
        yield chunk


if __name__ == "__main__":
    main()
