"""The parts of vLLM that a failure may belong to, by its calls or by the rule that explains it."""

from __future__ import annotations

from collections import Counter

import pytest

from vllm_doctor.catalog.features import feature_of_path, feature_of_rule, features
from vllm_doctor.diagnosis.engine import diagnose
from vllm_doctor.rulebase.loader import builtin


@pytest.mark.parametrize(("place", "feature"), [
    ("vllm/v1/attention/backends/flash_attn.py:forward", "attention"),
    ("vllm/v1/sample/sampler.py:forward", "sampling"),
    ("vllm/v1/core/kv_cache_utils.py:hash_block_tokens", "prefix-caching"),
    ("vllm/models/deepseek/attention/mla.py:forward", "attention"),
    ("widget/app.py:main", None),
])
def test_the_longest_path_that_matches_decides(place: str, feature: str | None) -> None:
    assert feature_of_path(place) == feature


def test_each_rule_explains_failures_of_one_feature_at_most() -> None:
    named = Counter(rule for one in features() for rule in one.rules)
    assert [rule for rule, times in named.items() if times > 1 or rule not in builtin().rules] == []
    assert feature_of_rule("no-gpu-visible") == "platform"
    assert feature_of_rule("nothing") is None


def test_the_rule_names_the_feature_of_a_failure_that_shows_none() -> None:
    report = diagnose(b"RuntimeError: Found Tesla P40 which is too old to be supported by the triton GPU compiler, which is used as the backend. "
                      b"Triton only supports devices of CUDA Capability >= 7.0, but your device is of CUDA capability 6.1\n")
    assert report.failure is not None
    assert (report.primary, report.failure.feature) == ("gpu-arch-unsupported", "compilation")
    report = diagnose(b"$ vllm serve m --device cpu\nIllegal instruction\n")
    assert report.failure is not None
    assert (report.primary, report.failure.feature) == ("cpu-isa-unsupported", "platform")
