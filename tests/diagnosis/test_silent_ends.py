"""Logs that end without a failure: of scripts that are done, and of processes that were ended from outside."""

from __future__ import annotations

import pytest

from vllm_doctor import diagnose

START = (
    "INFO 12-03 10:00:00 [core.py:123] Initializing a V1 LLM engine (v0.29.0) with config: model='/models/a'\n"
    "(Worker pid=7) INFO 12-03 10:00:09 [cpu_model_runner.py:131] Starting to load model /models/a...\n"
)
READY = START + "(EngineCore pid=5) INFO 12-03 10:00:30 [core.py:368] init engine (profile, create kv cache) took 19.10 s\n"
CLOSED = "INFO 12-03 10:01:02 [core_client.py:696] [shutdown] MPClient: complete\n"
FAULT = (
    "Traceback (most recent call last):\n"
    '  File "/srv/app/report.py", line 8, in <module>\n'
    "    print(totals)\n"
    "NameError: name 'totals' is not defined\n"
)


@pytest.mark.parametrize(("log", "status"), [
    (READY + CLOSED, "stopped"),
    (READY, "starting"),
    (READY + FAULT + CLOSED, "failed"),
    (CLOSED, "unknown"),
])
def test_an_engine_closed_by_its_script_has_stopped(log: str, status: str) -> None:
    assert diagnose(log.encode()).status == status


def test_a_log_that_ends_during_the_start_names_what_shows_the_reason() -> None:
    assert any("137" in note for note in diagnose(START.encode()).notes)
    assert not diagnose((READY + CLOSED).encode()).notes
