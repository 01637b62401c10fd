from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_doctor.diagnosis.capacity import linear_token_bytes, pressure, sentences
from vllm_doctor.memory import derived, ledger

# Qwen3-0.6B on a 24 GB card: the numbers of a healthy start.
HEALTHY: dict[str, Any] = {
    "vllm_version": "0.10.0", "engine": "V1", "gpu_total_gib": 23.52, "gpu_memory_utilization": 0.15, "max_model_len": 40960,
    "max_num_seqs": 256, "model_weights_gib": 1.12, "kv_cache_available_gib": 1.75, "kv_cache_tokens": 16384,
    "max_concurrency": 0.4}


def told(facts: dict[str, Any]) -> str:
    return " ".join(sentences(facts, derived(facts), ledger(facts)))


def test_where_the_rest_of_nvidia_smi_is() -> None:
    text = told(HEALTHY)
    assert "The weights take 1.12 GiB of the GPU's 23.52. vLLM fills its share (15%) at startup, so nvidia-smi shows about 3.5 GiB" in text
    assert "1.75 GiB of KV cache, and 0.66 GiB of activations" in text


def test_tokens_concurrency_and_one_more_gib() -> None:
    assert derived(HEALTHY)["kv_bytes_per_token"] == 114688  # 28 layers * 8 heads * 128 * 2 * 2
    text = told(HEALTHY)
    assert "The KV cache holds 16,384 tokens, enough for 8 requests of 2,048, 2 of 8,192, 0.5 of 32,768, 0.4 of 40,960 tokens at once." in text
    assert "One more GiB on the GPU (--gpu-memory-utilization +0.043) holds 9,362 more tokens: 1.1 requests of 8,192." in text
    assert "; --max-num-seqs allows 4." in told({**HEALTHY, "max_num_seqs": 4})
    assert "One more GiB on each GPU" in told({**HEALTHY, "tensor_parallel_size": 2})


def test_a_model_with_windows_promises_less() -> None:
    assert linear_token_bytes({"kv_bytes_per_token": 15796}) is None
    text = " ".join(sentences({"max_model_len": 32768}, {"kv_cache_capacity_tokens": 65536, "kv_bytes_per_token": 15796}, None))
    assert "enough for 2 requests of 32,768 tokens at once, at most 32 of 2,048, 8 of 8,192 (fewer if layers" in text
    assert "One more GiB" not in text


@pytest.mark.parametrize(("facts", "words"), [
    ({"waiting_requests": 26, "kv_cache_usage_percent": 97.0}, "26 requests waited with 97 % of the KV cache"),
    ({"saturated_lines": 5, "saturation_periods": 1, "pinned_lines": 1}, "the KV cache was full"),
    ({"pinned_lines": 4, "peak_running": 8}, "a fixed number of 8 ran: --max-num-seqs"),
    ({"pinned_lines": 4, "peak_running": 2, "running_requests": 2, "prompt_tokens_per_s": 0.0, "generation_tokens_per_s": 0.1},
     "the steps are slow"),
    ({"pinned_lines": 4, "peak_running": 2, "running_requests": 2, "prompt_tokens_per_s": 0.0, "generation_tokens_per_s": 9.1},
     "a fixed number of 2 ran"),
    ({"pinned_lines": 60, "queued_lines": 900, "peak_running": 40}, ""),
    ({"pinned_lines": 4, "peak_running": 8, "max_num_seqs": 256}, ""),
    ({"waiting_requests": 2, "kv_cache_usage_percent": 3.0, "running_requests": 1, "max_num_seqs": 1}, "behind --max-num-seqs, 1"),
    ({"stalled_at_end": 6, "waiting_requests": 3, "kv_cache_usage_percent": 99.0}, "the engine has stalled"),
    ({"waiting_requests": 0, "kv_cache_usage_percent": 99.0}, ""),
    ({"waiting_requests": 3, "kv_cache_usage_percent": 85.0}, ""),
    ({"saturated_lines": 1}, ""),
    ({"pinned_lines": 6, "queued_lines": 6, "peak_running": 1, "requests_that_fit": 1.16, "waiting_requests": 14,
      "kv_cache_usage_percent": 77.8, "running_requests": 1}, "78 % full with 1 running"),
    ({"pinned_lines": 6, "queued_lines": 6, "peak_running": 1, "requests_that_fit": 1.16, "waiting_requests": 14,
      "kv_cache_usage_percent": 77.8, "running_requests": 1, "max_num_seqs": 1}, "a fixed number of 1 ran"),
    ({"saturated_lines": 5, "saturation_periods": 1, "kv_cache_usage_percent": 99.3, "stalled_usage_percent": 99.3,
      "running_requests": 36, "prompt_tokens_per_s": 0.0, "generation_tokens_per_s": 0.0}, ""),
    ({"saturated_lines": 5, "saturation_periods": 1, "kv_cache_usage_percent": 99.3, "stalled_usage_percent": 99.3,
      "running_requests": 36, "prompt_tokens_per_s": 0.0, "generation_tokens_per_s": 31.0}, "the KV cache was full"),
    ({}, ""),
])
def test_what_limits_the_requests_that_wait(facts: dict[str, Any], words: str) -> None:
    found = pressure(facts, {})
    assert words in found
    assert bool(words) == bool(found)


def test_nothing_is_said_of_nothing() -> None:
    assert sentences({}, {}, None) == ()
    assert told({"device": "cpu", "kv_cache_tokens": 524288, "max_model_len": 8192}).startswith("The KV cache holds 524,288")


def test_a_gpu_of_almost_no_memory_has_no_share() -> None:
    facts = {"model_weights_gib": 0, "gpu_total_gib": 0.0039, "gpu_memory_utilization": 0, "kv_cache_available_gib": 1}
    assert sentences(facts, derived(facts), ledger(facts)) == ()


@given(st.dictionaries(st.sampled_from([*HEALTHY, "waiting_requests", "kv_cache_usage_percent"]),
                       st.integers(-5, 1 << 40) | st.floats(-1, 1e12) | st.none() | st.text(max_size=3)))
def test_any_facts_are_told_or_left(facts: dict[str, Any]) -> None:
    assert all(sentence.endswith((".", ")")) for sentence in sentences(facts, derived(facts), ledger(facts)))
