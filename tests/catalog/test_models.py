"""The KV cache shapes of models, by their names."""

from __future__ import annotations

import pytest

from vllm_doctor.catalog.models import KvShape, kv_shape


@pytest.mark.parametrize("name", ["microsoft/Phi-4-mini-instruct", "microsoft/Phi-4-multimodal-instruct"])
def test_a_smaller_model_of_a_family_has_not_its_shape(name: str) -> None:
    assert kv_shape("microsoft/phi-4") == kv_shape("org/Phi-4-AWQ") == KvShape(40, 10, 256)
    assert kv_shape(name) is None
