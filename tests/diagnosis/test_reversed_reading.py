"""A log whose newest lines come first is read from its last line to its first."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_doctor.diagnosis.engine import diagnose
from vllm_doctor.diagnosis.reversed_reading import REVERSED, TOO_LONG
from vllm_doctor.logs.newest_first import is_newest_first
from vllm_doctor.logs.pasted_text import LONGEST

LOGS = sorted((Path(__file__).resolve().parents[2] / "fixtures" / "logs").rglob("*.log"))


def lines_of(data: bytes) -> list[bytes]:
    return data.removesuffix(b"\n").split(b"\n")


def turned(data: bytes) -> bytes:
    return b"".join(line + b"\n" for line in reversed(lines_of(data)))


def named(name: str) -> bytes:
    return next(path for path in LOGS if path.name == name).read_bytes()


@pytest.mark.parametrize(("name", "cause"), [
    ("arg-utilization-1.5.log", "flag-value-invalid"),
    ("run-engine-killed-busy.log", "process-killed-no-traceback"),
    ("tiny-load.log", "http-4xx-client-errors"),
    ("real-0.20.2-config-dtype-unknown.log", "model-config-refused"),
])
def test_the_cause_and_its_line_are_those_of_the_log(name: str, cause: str) -> None:
    data = named(name)
    straight, back = diagnose(data), diagnose(turned(data))
    assert straight.cause is not None
    assert back.cause is not None
    assert (straight.primary, back.primary) == (cause, cause)
    last = len(lines_of(data)) + 1
    assert [one.line for one in back.cause.evidence] == [last - one.line for one in straight.cause.evidence]
    assert back.source.lines == straight.source.lines
    assert REVERSED in back.notes
    assert REVERSED not in straight.notes


def test_no_log_in_the_usual_order_is_turned() -> None:
    assert [path.name for path in LOGS if is_newest_first(path.read_text("utf-8", "replace").splitlines())] == []


def test_nearly_every_log_is_recognized_when_turned() -> None:
    """Those that are not hold a few lines of argparse."""
    found = [is_newest_first(path.read_text("utf-8", "replace").splitlines()[::-1]) for path in LOGS]
    assert sum(found) > 0.85 * len(found)


@pytest.mark.parametrize("lines", [
    [], ["x"], ["INFO 05-06 10:00:02 [a.py:1] x", "INFO 05-06 10:00:01 [a.py:1] y"],
    ["Traceback (most recent call last):", '  File "<string>", line 1, in <module>', "ValueError: x"],
    ["    x()", '  File "<string>", line 1, in y', "ValueError: x"],
])
def test_little_proves_nothing(lines: list[str]) -> None:
    assert not is_newest_first(lines)


def test_a_log_that_is_too_long_is_only_told_of() -> None:
    line = "INFO 05-06 {:02}:{:02}:{:02} [loggers.py:116] Engine 000: Avg prompt throughput: 1.0 tokens/s\n"
    lines = [line.format(second // 3600 % 24, second // 60 % 60, second % 60) for second in range(5000)]
    assert len("".join(lines)) > LONGEST
    assert TOO_LONG in diagnose("".join(reversed(lines)).encode()).notes
    assert TOO_LONG not in diagnose("".join(lines).encode()).notes


def test_a_planted_traceback_does_not_turn_a_log() -> None:
    planted = b'    x()\n  File "/a.py", line 1, in x\nTraceback (most recent call last):\n' * 3
    times = b"".join(b"2025-01-01 00:00:%02d x\n" % second for second in range(59, 0, -1))
    log = named("real-0.20.2-config-dtype-unknown.log")
    report = diagnose(log + planted + times)
    assert report.primary == "model-config-refused"
    assert REVERSED not in report.notes


def test_the_notes_name_the_lines_of_the_input() -> None:
    lines = ["INFO 07-01 10:00:00 [api_server.py:1234] vLLM API server version 0.9.1",
             "INFO 07-01 10:00:00 [api_server.py:1235] args: Namespace(model='widget')",
             "... 20 lines omitted ...",
             *(f"INFO 07-01 10:03:0{second} [bolts.py:1595] bolt" for second in range(9)),
             "ERROR 07-01 10:04:00 [core.py:700] ValueError: the bolt is loose"]
    report = diagnose(turned("\n".join(lines).encode()))
    assert report.notes[0] == REVERSED
    assert "Lines are omitted from the log (at line 11)." in report.notes
    assert "vLLM 0.9.1, from line 13." in report.input_notes
