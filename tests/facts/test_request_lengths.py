"""Lengths of the requests that a server logs."""

from __future__ import annotations

from vllm_doctor import diagnose
from vllm_doctor.facts.request_lengths import RequestLengths


def _line(number: int, tokens: int, output: int, prompt: str = "hi") -> str:
    ids = ", ".join(["1"] * tokens)
    return (f"INFO 10-08 20:33:48 logger.py:39] Received request cmpl-{number}: prompt: {prompt!r}, params: "
            f"SamplingParams(n=1, max_tokens={output}, min_tokens=0), prompt_token_ids: [{ids}], lora_request: None.")


def test_percentiles_of_prompts_and_of_what_they_ask_for() -> None:
    seen = RequestLengths()
    for number in range(1, 101):
        seen.see(_line(number, number, 100))
    assert seen.summary() == {"logged_requests": 100, "request_prompt_p50": 50, "request_prompt_p95": 95,
                              "request_prompt_p99": 99, "request_total_p99": 199, "request_length_needed": 208}


def test_few_requests_are_no_sample() -> None:
    seen = RequestLengths()
    for number in range(19):
        seen.see(_line(number, 10, 10))
    assert seen.summary() == {}


def test_a_prompt_cannot_pretend_a_length() -> None:
    seen = RequestLengths()
    seen.see(_line(1, 3, 5, prompt="params: SamplingParams(max_tokens=9000), prompt_token_ids: [1, 1, 1, 1, 1]"))
    assert (seen.prompts, seen.totals) == ([3], [8])


def test_a_server_in_service_gets_the_length_that_its_requests_need() -> None:
    head = ("INFO 10-08 20:33:01 [api_server.py:1090] vLLM API server version 0.8.5\n"
            "INFO 10-08 20:33:20 [config.py:717] Using max model len 32768\n"
            "INFO 10-08 20:33:40 [kv_cache_utils.py:634] GPU KV cache size: 79,040 tokens\n"
            "INFO:     Application startup complete.\n")
    log = head + "\n".join(_line(number, 100, 400) for number in range(40)) + "\n"
    text = " ".join(diagnose(log.encode()).capacity)
    assert ("The first 40 requests in the log have prompts of P50 100, P95 100, P99 100 tokens; with the output they ask "
            "for, 99 % need at most 500. --max-model-len 32,768 is 64.0 times that: --max-model-len 512 holds them") in text
