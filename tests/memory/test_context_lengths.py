"""What shorter contexts need."""

from __future__ import annotations

from vllm_doctor.memory import CacheNeed, context_lengths

_FACTS = {"max_model_len": 40960, "kv_cache_needed_gib": 5.62, "kv_cache_available_gib": 2.10,
          "estimated_max_model_len": 15296, "gpu_total_gib": 23.5, "gpu_memory_utilization": 0.85,
          "vllm_version": "0.11.0"}


def test_rows_with_a_known_total() -> None:
    rows = context_lengths(_FACTS)
    assert [row.tokens for row in rows] == [40960, 30720, 20480, 8192]
    assert rows[0].sixteen_bits == CacheNeed(5.62, 0.37, None, suffices=False)
    assert rows[1].sixteen_bits == CacheNeed(4.22, 0.5, 0.95, suffices=True)
    assert rows[2].sixteen_bits == CacheNeed(2.81, 0.75, 0.89, suffices=True)
    assert rows[3].fp8 == CacheNeed(0.56, 3.74, None, suffices=True)


def test_no_utilization_without_the_total() -> None:
    facts = {name: value for name, value in _FACTS.items() if name != "gpu_total_gib"}
    assert context_lengths(facts)[1].sixteen_bits == CacheNeed(4.22, 0.5, None, suffices=True)


def test_no_rows_for_a_model_whose_cache_does_not_grow_with_the_length() -> None:
    assert context_lengths({**_FACTS, "estimated_max_model_len": 30000}) == ()


def test_no_rows_without_the_need() -> None:
    assert context_lengths({"max_model_len": 40960, "kv_cache_tokens": 4512}) == ()


def test_an_eight_bit_cache_is_the_narrow_column() -> None:
    row = context_lengths({**_FACTS, "kv_cache_dtype": "fp8"})[0]
    assert (row.sixteen_bits.gib, row.fp8 and row.fp8.gib) == (11.24, 5.62)


def test_a_short_model_has_each_length_once() -> None:
    facts = {**_FACTS, "max_model_len": 8192, "estimated_max_model_len": 3061}
    assert [row.tokens for row in context_lengths(facts)] == [8192, 6144, 4096]
