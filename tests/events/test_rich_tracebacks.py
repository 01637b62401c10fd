"""Tracebacks in a box, as the library Rich draws them: `rich.traceback.install(width=72)`, captured with Rich 15."""

from __future__ import annotations

import pytest
from read_events import read

from vllm_doctor import diagnose
from vllm_doctor.diagnosis.engine import Diagnosis
from vllm_doctor.failures import Place
from vllm_doctor.fastpath import line_skipper
from vllm_doctor.options import Options
from vllm_doctor.reports.to_json import render

BOX = """\
╭───────────────── Traceback (most recent call last) ──────────────────╮
│ /srv/app/run.py:9 in <module>                                        │
│                                                                      │
│    6 from lighteval.models.vllm.vllm_model import loglikelihood_toke │
│    7 def main():                                                     │
│    8 │   loglikelihood_tokens([None])                                │
│ ❱  9 main()                                                          │
│   10                                                                 │
│                                                                      │
│ ╭──────────── locals ─────────────╮                                  │
│ │  os = <module 'os' (frozen)>    │                                  │
│ ╰─────────────────────────────────╯                                  │
│                                                                      │
│ /opt/venv/lib/python3.11/site-packages/lighteval/models/vllm/        │
│ vllm_model.py:7 in loglikelihood_tokens                              │
│                                                                      │
│   4 │   │   try:                                                     │
│   6 │   │   except TypeError as error:                               │
│ ❱ 7 │   │   │   raise ValueError("The engine returned no log probabi │
│   9                                                                  │
╰──────────────────────────────────────────────────────────────────────╯
ValueError: The engine returned no log probabilities
"""
PLAIN = BOX.translate(str.maketrans("╭╮╰╯─│", "++++-|")).replace("❱", "\\u2771")
"""The same where the output's encoding has no such characters."""
LOGGED = [f"(APIServer pid=7) {line}" for line in BOX.splitlines()]


@pytest.mark.parametrize("lines", [BOX.splitlines(), PLAIN.splitlines(), LOGGED, BOX.splitlines()[1:]],
                         ids=["box", "ascii", "of-a-process", "without-its-head"])
def test_the_exception_has_the_calls_of_the_box(lines: list[str]) -> None:
    *rows, last = read(*lines)
    assert all(row.is_code for row in rows[1:])
    assert last.text == "ValueError: The engine returned no log probabilities"
    assert last.frames == "/srv/app/run.py:<module>\nlighteval/models/vllm/vllm_model.py:loglikelihood_tokens"


def test_the_failure_has_its_place_and_its_source_line() -> None:
    failure = diagnose(BOX.encode()).failure
    assert failure is not None
    assert (failure.line, failure.exception) == (22, "ValueError")
    assert failure.origin == Place("lighteval", "lighteval/models/vllm/vllm_model.py", "loglikelihood_tokens", 7)
    assert failure.own_frame == Place(None, "/srv/app/run.py", "<module>", 9)


@pytest.mark.parametrize("text", [
    "│ a table │", "| a | b |", "+------+", "╰──────────────────────╯", "| /srv/app/run.py:9 in the text |",
    "Traceback (most recent call last) is a heading",
])
def test_other_rows_stay_as_they_are(text: str) -> None:
    (event,) = read(text)
    assert (event.text, event.is_code, event.frames) == (text, False, "")


def test_a_box_at_the_end_of_a_long_log_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_skipper, "READ_WHOLE", 3)
    answered = 'INFO:     127.0.0.1:51414 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    data = ("INFO:     Application startup complete.\n" + answered * 40 + BOX).encode()
    reports = []
    for shortcuts in (True, False):
        diagnosis = Diagnosis(Options(shortcuts=shortcuts))
        diagnosis.feed(data)
        reports.append(render(diagnosis.finish()))
    assert reports[0] == reports[1]
    assert "vllm_model.py" in reports[0]
