"""The first release with an architecture or model type, and the name that a misspelled one stands for."""

from __future__ import annotations

from packaging.version import Version

from vllm_doctor.catalog import flags
from vllm_doctor.catalog.model_names import first_release, nearest


def test_known_names() -> None:
    assert first_release("architectures", "Mistral3ForConditionalGeneration") == "0.8.3"
    assert first_release("model_types", "gemma3n") == "0.10.0"


def test_unknown_names() -> None:
    assert first_release("architectures", "OurForCausalLM") is None
    assert first_release("model_types", "LlamaForCausalLM") is None


def test_a_name_of_another_generation_is_no_misspelling() -> None:
    assert nearest("architectures", "Gemma5ForCausalLM") is None
    assert nearest("model_types", "gemma5") is None


def test_the_ending_says_nothing_about_the_model() -> None:
    assert nearest("architectures", "OurVeryOwnForConditionalGeneration") is None


def test_every_release_of_the_table_exists() -> None:
    known = {Version(release) for release in flags.releases()}
    assert Version(first_release("architectures", "KimiK3ForConditionalGeneration") or "0") in known
