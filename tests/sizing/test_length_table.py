"""The table of context lengths in `size`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from vllm_doctor.cli.root import cli

QWEN3_8B = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
            "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
            "max_position_embeddings": 40960, "torch_dtype": "bfloat16"}


def sized(folder: Path, *options: str) -> list[dict[str, float | None]]:
    (folder / "config.json").write_text(json.dumps(QWEN3_8B))
    done = CliRunner().invoke(cli, ["size", str(folder), "--gpu", "24GiB", "--format", "json", *options])
    rows: list[dict[str, float | None]] = json.loads(done.stdout)["lengths"]
    return rows


def test_lengths_and_their_kv_cache(tmp_path: Path) -> None:
    rows = sized(tmp_path)
    assert [row["tokens"] for row in rows] == [40960, 30720, 20480, 8192]
    # 2 (key and value) * 36 layers * 8 heads * 128 * 2 bytes = 147,456 bytes a token
    assert [row["kv_cache_gib"] for row in rows] == pytest.approx([5.625, 4.21875, 2.8125, 1.125], abs=0.003)
    assert [row["fp8_kv_cache_gib"] for row in rows] == pytest.approx([2.8125, 2.109375, 1.40625, 0.5625], abs=0.003)


def test_more_context_needs_more_of_the_gpu(tmp_path: Path) -> None:
    shares = [row["gpu_memory_utilization"] for row in sized(tmp_path)]
    assert shares == sorted(shares, reverse=True)
    assert len(set(shares)) == 4
    counts = [row["requests"] for row in sized(tmp_path)]
    assert counts == sorted(counts)


def test_a_cache_that_is_fp8_already_has_one_column(tmp_path: Path) -> None:
    assert {row["fp8_kv_cache_gib"] for row in sized(tmp_path, "--kv-cache-dtype", "fp8")} == {None}


def test_a_cache_of_given_size_needs_no_utilization(tmp_path: Path) -> None:
    rows = sized(tmp_path, "--kv-cache-memory-bytes", "4G", "--max-model-len", "8192")
    assert [(row["tokens"], row["gpu_memory_utilization"]) for row in rows] == [(8192, None), (6144, None), (4096, None)]
