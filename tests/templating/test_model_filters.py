"""Which parsers a model family needs in a release."""

from __future__ import annotations

import re

import pytest

from vllm_doctor.catalog import flags
from vllm_doctor.catalog.releases import Releases
from vllm_doctor.catalog.yaml_catalog import read_catalog
from vllm_doctor.rulebase.regex_check import slow_code
from vllm_doctor.templating.model_filters import (
    address_target,
    architecture_meant,
    are_of_a_missing_file,
    is_base_model,
    model_type_meant,
    reasoning_parser_for,
    release_with_architecture,
    release_with_model_type,
    tool_parser_for,
)


@pytest.mark.parametrize(("model", "release", "wanted"), [
    ("Qwen/Qwen2.5-14B-Instruct-AWQ", "0.9.2", "hermes"),
    ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "0.10.0", "qwen3_coder"),
    ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "0.9.2", "hermes"),
    ("/models/qwen38-27b-w4a16", "0.32.0", "qwen3_coder"),
    ("Qwen/Qwen3-8B", "0.32.0", "hermes"),
    ("x/qwen38b", "0.32.0", "hermes"),
    ("meta-llama/Llama-3.1-8B-Instruct", "0.9.2", "llama3_json"),
    ("mistralai/Mistral-Small-3.2-24B-Instruct-2506", "0.9.2", "mistral"),
    ("openai/gpt-oss-20b", "0.10.2", "openai"),
    ("openai/gpt-oss-20b", "0.9.2", None),
    ("org/unheard-of", "0.9.2", None),
])
def test_tool_parser(model: str, release: str, wanted: str | None) -> None:
    assert tool_parser_for(model, Releases.of(release)) == wanted


@pytest.mark.parametrize(("model", "wanted"), [
    ("https://huggingface.co/org/model-8b", "org/model-8b"),
    ("https://huggingface.co/org/model-8b/tree/main", "org/model-8b"),
    ("http://hub.example:8080/org/model-8b.git", "org/model-8b"),
    ("https://www.modelscope.cn/models/org/model-8b/summary", "org/model-8b"),
    ("file:///models/a", "/models/a"),
    ("https://example.org/a/b/c/d", None),
    ("s3://bucket/model", None),
    ("org/model-8b", None),
    ("/models/a", None),
])
def test_address_target(model: str, wanted: str | None) -> None:
    assert address_target(model) == wanted


def test_reasoning_parser() -> None:
    assert reasoning_parser_for("Qwen/Qwen3-8B", Releases.of("0.8.5")) == "deepseek_r1"
    assert reasoning_parser_for("Qwen/Qwen3-8B", Releases.of("0.9.2")) == "qwen3"


@pytest.mark.parametrize(("model", "wanted"), [
    ("Qwen/Qwen2.5-7B", True), ("Qwen/Qwen2.5-7B-Instruct", False), ("google/gemma-3-4b-it", False),
    ("google/gemma-3-4b-pt", True), ("meta-llama/Llama-2-7b-hf", True), ("/models/mine", False),
    ("bigcode/starcoder2-15b", True), ("deepseek-ai/deepseek-coder-6.7b-base", True), ("x/chat-7b-base", True),
])
def test_base_models(model: str, wanted: bool) -> None:
    assert is_base_model(model) is wanted


def test_the_first_release_with_an_architecture() -> None:
    assert release_with_architecture("Qwen3NextForCausalLM", Releases.of("0.10.1")) == "0.10.2"
    assert release_with_architecture("Qwen3NextForCausalLM", Releases.of("0.10.2")) is None
    assert release_with_architecture("Qwen3NextForCausalLM", Releases.every()) is None  # one of them has it
    assert release_with_architecture("OurForCausalLM", Releases.of("0.10.1")) is None


def test_the_first_release_that_reads_a_model_type() -> None:
    assert release_with_model_type("qwen3_next", Releases.of("0.8.5")) == "0.10.2"
    assert release_with_model_type("llama", Releases.of("0.8.5")) is None


@pytest.mark.parametrize(("architecture", "meant"), [
    ("LlamaForCasualLM", "LlamaForCausalLM"), ("MistralForCausalLMM", "MistralForCausalLM"),
    ("Qwn2ForCausalLM", "Qwen2ForCausalLM"),
    ("LlamaForCausalLM", None), ("Qwen4ForCausalLM", None), ("SupportBotForCausalLM", None), ("x" * 10_000, None),
])
def test_a_misspelled_architecture(architecture: str, meant: str | None) -> None:
    assert architecture_meant(architecture) == meant


def test_a_misspelled_model_type() -> None:
    assert model_type_meant("lama") == "llama"
    assert model_type_meant("qwen2_5") is None  # another model than qwen2


@pytest.mark.parametrize(("tensors", "is_missing"), [
    ("'model.layers.1.mlp.up.weight', 'model.layers.2.mlp.up.weight'", False),
    ("'model.layers.1.mlp.up.weight', 'model.layers.2.mlp.up.weight', 'model.layers.2.norm.weight'", True),
    ("'transformer.h.7.attn.weight'", False),
    ("'lm_head.weight'", False),
    ("'model.layers.2.norm.weight', 'model.norm.weight', 'model.layers.1.norm.weight'", True),
])
def test_missing_tensors_show_a_missing_file(tensors: str, is_missing: bool) -> None:
    assert are_of_a_missing_file(tensors) is is_missing
    assert are_of_a_missing_file("'model.layers.1.mlp.up.weight'", ", 'model.layers.2.norm.weight'")


def test_the_parsers_of_families_exist_in_some_release() -> None:
    for kind, flag in (("tool", "--tool-call-parser"), ("reasoning", "--reasoning-parser")):
        known = flags.lookup(flag)
        assert known is not None
        choices = {choice for release in flags.releases() for choice in known.choices(release)}
        rows = read_catalog("parsers.yaml")[kind]
        assert {parser for row in rows for parser in row["parsers"]} <= choices
        assert all(slow_code(re.compile(row["family"], re.IGNORECASE).search, row["family"], re.IGNORECASE) is None for row in rows)
