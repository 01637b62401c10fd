"""Bytes of KV cache per token, by the shape of a model."""

from __future__ import annotations

import pytest

from vllm_doctor.memory.model_kv_bytes import model_kv_bytes

_SHAPE = (32, 8, 256, False)  # layers, KV heads, elements of a head, latent


@pytest.mark.parametrize(("dtype", "expected"), [
    ("auto", 131072), ("bfloat16", 131072), ("float16", 131072), ("fp8", 65536), ("fp8_e4m3", 65536),
    ("int8_per_token_head", 65536), ("float32", 262144),
    ("nvfp4", None), ("int4_per_token_head", None), ("turboquant_k3v4_nc", None), ("octave_k3v3", None), ("ultraquant_4bit", None),
])
def test_the_elements_have_the_bytes_of_the_caches_type(dtype: str, expected: int | None) -> None:
    assert model_kv_bytes(_SHAPE, {"kv_cache_dtype": dtype, "dtype": "torch.bfloat16"}) == expected
