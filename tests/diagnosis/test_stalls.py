"""A start that prints nothing for too long, and one that has failed, which is no stall."""

from __future__ import annotations

from vllm_doctor import Diagnosis
from vllm_doctor.diagnosis.stalls import stall_report

START = (b"INFO 07-01 10:00:00 [api_server.py:1234] vLLM API server version 0.9.1\n"
         b"INFO 07-01 10:00:00 [api_server.py:1235] args: Namespace(model='widget')\n")
CRASH = (b"Traceback (most recent call last):\n"
         b'  File "/opt/vllm/v1/core/kv_cache_utils.py", line 9, in check_enough_kv_cache_memory\n'
         b"    raise ValueError(\n"
         b"ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.\n")


def stall_of(log: bytes) -> tuple[str, int, str | None] | None:
    diagnosis = Diagnosis(live=True)
    diagnosis.feed(log)
    report = stall_report(diagnosis.reading, 9999.0)
    return report and (report.status, report.source.run, report.primary)


def test_a_stall_is_of_the_last_start() -> None:
    assert stall_of(START) == ("stalled", 1, None)
    assert stall_of(START + CRASH + START) == ("stalled", 2, None)


def test_a_start_that_has_failed_is_not_stalled() -> None:
    assert stall_of(START + CRASH) is None
