"""Logs and rules that would end in a traceback or hang: found by fuzzing."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_schema import GOOD

from vllm_doctor.diagnosis.engine import diagnose
from vllm_doctor.options import Options

START = "INFO 05-06 10:00:03 [api_server.py:1043] vLLM API server version 0.8.5\n"


@pytest.mark.parametrize("line", [
    "INFO 05-06 10:00:09 [kv_cache_utils.py:634] GPU KV cache size: " + "9" * 400 + " tokens",
    "INFO 05-06 10:00:03 [api_server.py:1044] args: Namespace(model='x', max_model_len=1e999)",
    "INFO 05-06 10:00:03 [api_server.py:1044] args: Namespace(model='x', gpu_memory_utilization=" + "9" * 400 + ")",
])
def test_a_number_beyond_all_bounds_is_no_fact(line: str) -> None:
    report = diagnose((START + line + "\n").encode())
    assert not {"kv_cache_tokens", "max_model_len", "gpu_memory_utilization"} & set(report.facts)


def test_a_setting_without_a_name_is_none() -> None:
    log = START + "INFO 05-06 10:00:03 [api_server.py:1044] non-default args: {1: 'x', None: 'y', 'model': 'z'}\nValueError: an error\n"
    assert diagnose(log.encode()).facts["model"] == "z"


@pytest.mark.parametrize("key", ["frames", "not_frames"])
def test_a_catastrophic_pattern_of_calls_is_stopped_and_named(key: str, tmp_path: Path) -> None:
    (tmp_path / "my-rule.yaml").write_text(
        GOOD.replace("pattern: something is wrong", f"pattern: something is wrong\n      {key}: (a|aa)+$"), encoding="utf-8")
    name = "a" * 60
    log = f'Traceback (most recent call last):\n  File "/x/{name}.py", line 1, in {name}!\n    raise X\nRuntimeError: something is wrong\n'
    report = diagnose(log.encode(), Options(rules=(str(tmp_path),)))
    assert report.notes[-1] == "Patterns skipped because they took too long: my-rule: message."
