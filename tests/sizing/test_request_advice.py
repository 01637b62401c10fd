"""`diagnose --requests`: what real requests need, beside what the server has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from vllm_doctor.cli.root import cli
from vllm_doctor.sizing.request_advice import advice
from vllm_doctor.sizing.request_lengths import read_requests


def written(tmp_path: Path, prompt: int = 1000, output: int = 200) -> Path:
    path = tmp_path / "requests.jsonl"
    path.write_text("".join(json.dumps({"prompt_tokens": prompt + at, "completion_tokens": output}) + "\n" for at in range(100)))
    return path


@pytest.mark.parametrize(("facts", "words"), [
    ({}, "They need --max-model-len 1,312."),
    ({"max_model_len": 40960}, "They need --max-model-len 1,312; 40,960 is 31.2 times that."),
    ({"max_model_len": 1024}, "--max-model-len 1,024 rejects the longest of them: they need 1,312."),
    ({"kv_cache_tokens": 125000, "max_num_seqs": 256},
     ("At their mean length of 1,250 tokens the KV cache of 125,000 tokens holds 100 at once; --max-num-seqs 256 allows more, "
     "which are preempted when the cache is full.")),
    ({"kv_cache_tokens": 125000, "max_num_seqs": 8}, "holds 100 at once; --max-num-seqs 8 is the limit."),
    ({"kv_cache_tokens": 464}, "The KV cache holds 464 tokens, less than one request of their mean length (1,250)."),
])
def test_the_advice(tmp_path: Path, facts: dict[str, int], words: str) -> None:
    text = advice(read_requests(written(tmp_path)), "requests.jsonl", facts, {})
    assert text.startswith("requests.jsonl has 100 requests: prompts of P50 1,049, P95 1,094, P99 1,098 tokens, outputs of P50 200,")
    assert words in text


def test_it_is_a_note_of_the_report(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("ValueError: The model's max seq len (8192) is larger than the maximum number of tokens that can be stored in "
                   "KV cache (4512). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`\n")
    done = CliRunner().invoke(cli, ["diagnose", str(log), "--requests", str(written(tmp_path)), "--format", "json", "--isolated"])
    assert done.exit_code == 1
    assert any("8,192 is 6.2 times that" in note for note in json.loads(done.stdout)["notes"])


def test_a_file_without_requests_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("INFO x\n")
    empty = tmp_path / "empty.jsonl"
    empty.write_text("{}\n")
    done = CliRunner().invoke(cli, ["diagnose", str(tmp_path / "server.log"), "--requests", str(empty)])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
