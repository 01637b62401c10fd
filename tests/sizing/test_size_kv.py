"""The KV arithmetic: against answers of vLLM 0.32.0's own code (tests/real makes and checks them), and by release."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_configs import CONFIGS

from vllm_doctor.errors import InputError
from vllm_doctor.sizing.kv_layout import KvLayout, layout_of, layout_of_tokens
from vllm_doctor.sizing.kv_pages import KvSettings, stages
from vllm_doctor.sizing.model_config import model_of

GIB = 2**30
ANSWERS = [json.loads(line) for line in
           (Path(__file__).resolve().parents[1] / "kv_answers.jsonl").read_text().splitlines()]


def layout(name: str, version: tuple[int, int, int] = (0, 32, 0), tokens: int = 8192, **settings: Any) -> KvLayout:
    return layout_of(model_of(CONFIGS[name]), KvSettings(**settings), version, tokens)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: " ".join(
    str(answer[key]) for key in ("name", "tp", "pp", "kv_cache_dtype", "device", "mamba_ssm_cache_dtype")))
def test_equal_to_vllm(answer: dict[str, Any]) -> None:
    own = layout(answer["name"], tensor_parallel_size=answer["tp"], pipeline_parallel_size=answer["pp"],
                 kv_cache_dtype=answer["kv_cache_dtype"], block_size=answer["block_size"], device=answer["device"],
                 mamba_ssm_cache_dtype=answer["mamba_ssm_cache_dtype"])
    own = dataclasses.replace(own, tokens_in_flight=answer["in_flight"])
    length = answer["max_model_len"]
    found = {
        "block_bytes": own.block_bytes, "need": own.need(length), "need_half": own.need(length // 2),
        "need_one": own.need(1), "estimate": own.longest(answer["available"], length), "blocks": own.blocks(1 << 44),
        "tokens": own.tokens(1 << 44, length)}
    assert found == {key: answer[key] for key in found}
    if own.linear:
        assert own.bytes_per_token == answer["per_token"]


def test_worked_examples_of_real_threads() -> None:
    coder = {**CONFIGS["qwen3-30b-a3b"], "num_hidden_layers": 62, "num_key_value_heads": 8, "num_attention_heads": 96,
             "hidden_size": 6144, "max_position_embeddings": 262144}
    own = layout_of(model_of(coder), KvSettings(), (0, 10, 1), 8192)
    assert (own.bytes_per_token, own.need(262144) / GIB) == (253952, 62.0)
    assert own.longest(int(48.66 * GIB), 262144) == 205728
    cpu = layout("qwen3-0.6b", (0, 11, 1), device="cpu")
    assert round(cpu.need(40960) / GIB, 2) == 4.38
    assert cpu.longest(4 * GIB, 40960) == 37376
    minimax = layout_of_tokens(126976, 16, (0, 29, 1))
    # The message's 22.5 GiB are without the block held back, and stand for 22.495 to 22.505.
    assert minimax.longest(int(22.501 * GIB) + minimax.block_bytes, 196608) == 190272
    r1 = layout_of_tokens(98304, 16, (0, 7, 2))
    assert r1.longest(int(7.465 * GIB), 131072) == 81536


def test_the_null_block_from_029() -> None:
    before, after = layout("llama-3.1-8b", (0, 28, 0)), layout("llama-3.1-8b", (0, 29, 0))
    assert before.longest(GIB, 131072) == 8192
    assert after.longest(GIB, 131072) == 8192 - 16
    assert before.tokens(GIB, 8192) == after.tokens(GIB, 8192) == 8192
    assert before.longest(0, 131072) == 0


def test_windows_are_kept_whole_before_091() -> None:
    old, new = layout("gemma-3-27b-text", (0, 9, 0)), layout("gemma-3-27b-text", (0, 9, 1))
    assert old.linear
    assert old.need(131072) == 62 * 131072 * 2 * 16 * 128 * 2
    assert new.need(131072) < old.need(131072) / 3


def test_v0_keeps_every_token() -> None:
    assert layout("mistral-7b-v0.1", (0, 7, 0)).need(32768) == 4 * GIB


def test_windows_hold_what_is_under_way() -> None:
    one = layout("mistral-7b-v0.1", (0, 25, 0), tokens=2048)
    two = layout("mistral-7b-v0.1", (0, 26, 0), tokens=2048)
    assert one.need(32768) == (383 + 2) * one.block_bytes == one.need(10_000_000)  # ceil((4095 + 2048) / 16) + 1
    assert two.need(32768) - one.need(32768) == 128 * one.block_bytes


def test_the_need_of_a_stage() -> None:
    old = layout("llama-3.1-8b", (0, 16, 0), pipeline_parallel_size=2)
    new = layout("llama-3.1-8b", (0, 17, 0), pipeline_parallel_size=2)
    assert old.need(131072) == new.need(131072) == 8 * GIB
    assert (old.printed_need(131072), new.printed_need(131072)) == (16 * GIB, 8 * GIB)
    assert (old.longest(8 * GIB, 131072), new.longest(8 * GIB, 131072)) == (65536, 131072)


@pytest.mark.parametrize(("layers", "ranks", "expected"), [
    (61, 2, [31, 30]), (62, 4, [15, 16, 16, 15]), (63, 4, [16, 16, 16, 15]), (4, 4, [1, 1, 1, 1])])
def test_stages_of_layers(layers: int, ranks: int, expected: list[int]) -> None:
    assert [len(part) for part in stages(layers, ranks)] == expected


def test_more_stages_than_layers() -> None:
    with pytest.raises(InputError, match="5 pipeline stages"):
        stages(4, 5)


def test_eight_bits_and_replicated_heads() -> None:
    assert layout("llama-3.1-8b").bytes_per_token == 2 * layout("llama-3.1-8b", kv_cache_dtype="fp8").bytes_per_token
    assert layout("qwen2.5-7b", tensor_parallel_size=7).bytes_per_token == 28 * 2 * 128 * 2  # 4 heads, one a rank
    assert layout("deepseek-v3", tensor_parallel_size=8).bytes_per_token == 61 * 576 * 2  # every rank has the latent
    assert layout("deepseek-v3.2").bytes_per_token == 61 * (576 * 2 + 132)
    with pytest.raises(InputError, match="turboquant"):
        layout("llama-3.1-8b", kv_cache_dtype="turboquant_4bit_nc")


@given(name=st.sampled_from(sorted(CONFIGS)), available=st.integers(0, 1 << 38), ranks=st.sampled_from([1, 2, 4]),
       minor=st.integers(7, 33), dtype=st.sampled_from(["auto", "fp8"]))
def test_the_longest_fits_and_one_token_more_does_not(
    name: str, available: int, ranks: int, minor: int, dtype: str,
) -> None:
    if (minor < 10 and model_of(CONFIGS[name]).has_states) or (minor < 8 and model_of(CONFIGS[name]).latent):
        with pytest.raises(InputError, match="unknown here"):
            layout(name, (0, 7, 0) if minor < 8 else (0, minor, 0))
        return
    own = layout(name, (0, minor, 0), tensor_parallel_size=ranks, kv_cache_dtype=dtype)
    longest = own.longest(available, 1 << 20)
    assert longest == 0 or own.fits(longest, available)
    assert longest == 1 << 20 or not own.fits(longest + 1, available)
    assert own.need(1000) <= own.need(2000)
    assert own.tokens(available, 4096) <= own.tokens(available + GIB, 4096)
