"""The message that a paste breaks off in."""

from __future__ import annotations

import pytest

from vllm_doctor import diagnose
from vllm_doctor.diagnosis.second_reading import COMPLETED

DEVICE = "RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG`"


@pytest.mark.parametrize("end", ["", "…", " ...", "\n```\n"])
def test_a_message_that_breaks_off_is_known(end: str) -> None:
    report = diagnose((DEVICE[:35] + end).encode())
    assert report.primary == "no-gpu-visible"
    assert COMPLETED in report.notes
    assert [(one.line, one.text) for one in report.findings[0].evidence] == [(1, DEVICE[:35])]


def test_nothing_is_added_where_the_whole_message_is_known() -> None:
    report = diagnose(DEVICE.encode())
    assert (report.primary, report.notes) == ("no-gpu-visible", ())


@pytest.mark.parametrize("text", [
    DEVICE[:24],  # fewer than three words of the message
    f"{DEVICE[:35]}\nINFO 04-29 01:29:22 [core.py:1138] bolts are tight",  # the log goes on
    "RuntimeError: Failed to inform the widgets of the device ty",
    "ImportError: vllm is not installe",  # the middle of other messages
    "ValueError: The model does not s",  # goes on in many ways
    "RuntimeError: Unable to determi",
    "NUMA binding was requested, but vLLM could not d",  # the rule quotes what is missing
    DEVICE[:36].rstrip(),  # whole words, which may be all of another message
])
def test_other_texts_are_not_completed(text: str) -> None:
    assert diagnose(text.encode()).primary is None


def test_the_failure_shows_what_the_log_has() -> None:
    log = ("Traceback (most recent call last):\n"
           '  File "/opt/venv/lib/python3.12/site-packages/vllm/config/device.py", line 56, in __post_init__\n'
           f"    raise RuntimeError(\n{DEVICE[:35]}")
    report = diagnose(log.encode())
    assert report.failure is not None
    assert (report.failure.exception, report.failure.message) == ("RuntimeError", DEVICE[14:35])
    assert report.failure.text.endswith(DEVICE[:35])
