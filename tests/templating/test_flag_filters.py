"""What to write instead of a flag that the release does not know."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_doctor.catalog.releases import Releases
from vllm_doctor.command.flag_remedies import (
    remedies,
    split_arguments,
)
from vllm_doctor.templating.advice_filters import (
    advised_flag,
    advised_removal,
    advised_value,
    advised_variable,
    advised_words,
    as_flag,
    flag_meant,
    flag_of_config,
    gives_bound,
    holds_only_settings,
    names_setting,
)
from vllm_doctor.templating.flag_filters import (
    flags_with_dashes,
    later_flags,
    later_release,
    meant_parameter,
    replacement_flag,
    replacement_value,
    replacement_words,
    spelling_words,
    unknown_flag_notes,
    unknown_flags,
)


def _set(arguments: str, release: str) -> dict[str, str | bool]:
    releases = Releases.of(release)
    pairs = {replacement_flag(arguments, releases, n): replacement_value(arguments, releases, n) for n in range(1, 5)}
    return {name: value for name, value in pairs.items() if value is not False}


def test_argparse_joins_words_by_blanks() -> None:
    assert split_arguments('--swap-space 4 --foo=1 --bar {"a": 1}') == [
        ("--swap-space", "4"), ("--foo", "1"), ("--bar", '{"a": 1}')]
    assert split_arguments("/models/a --seed -1") == [("--seed", "-1")]
    assert unknown_flags("--a 4 --b --a") == "--a --b"
    assert unknown_flags("serve /models/a") is None


@pytest.mark.parametrize(("arguments", "release", "wanted"), [
    ("--max-modle-len 8192", "0.32.0", {"--max-model-len": "8192"}),
    ("--task embed", "0.20.0", {"--runner": "pooling", "--convert": "embed"}),
    ("--guided-decoding-backend outlines", "0.12.0", {"--structured-outputs-config": '{"backend": "outlines"}'}),
    ("--speculative-model a/b --num-speculative-tokens 5", "0.9.0",
     {"--speculative-config": '{"model": "a/b", "num_speculative_tokens": 5}'}),
    ("--speculative-model [ngram] --ngram-prompt-lookup-max 4", "0.9.0",
     {"--speculative-config": '{"method": "ngram", "prompt_lookup_max": 4}'}),
    ('--rope-scaling {"rope_type": "yarn"}', "0.12.0", {"--hf-overrides": '{"rope_parameters": {"rope_type": "yarn"}}'}),
    ("--worker-use-ray", "0.8.5", {"--distributed-executor-backend": "ray"}),
    ("--context-length 4096 --tp 2", "0.10.0", {"--max-model-len": "4096", "--tensor-parallel-size": "2"}),
    ("--batch-size 64", "0.20.0", {"--max-num-seqs": "64"}),
    ("--enable-metrics", "0.20.0", {}),
    ("--swap-space 4", "0.20.0", {}),
    ("--max-modle-len /models/a", "0.32.0", {}),
])
def test_successors(arguments: str, release: str, wanted: dict[str, str]) -> None:
    assert _set(arguments, release) == wanted


def test_words_of_a_replacement_name_what_is_dropped() -> None:
    words = replacement_words("--task embed --swap-space 4", Releases.of("0.20.0"))
    assert words == "Write --runner pooling --convert embed instead of --task embed and drop --swap-space"
    assert replacement_words("--swap-space 4", Releases.of("0.20.0")) is None
    assert replacement_words("--gpu-mem-util 0.5", Releases.of("0.32.0")) == (
        "Write --gpu-memory-utilization 0.5 instead of --gpu-mem-util 0.5")
    assert replacement_words("--m-m-l 5", Releases.of("0.32.0")) is None
    assert spelling_words("--max-model-length", Releases.of("0.32.0")) == "Write --max-model-len instead of --max-model-length"


def test_a_misspelt_parameter_is_written_as_python_does() -> None:
    assert meant_parameter("--max-seq-len", Releases.of("0.32.0")) == "max_model_len"
    assert meant_parameter("--swap-space", Releases.of("0.32.0")) is None


def test_a_flag_of_later_releases_is_no_removed_one() -> None:
    old = Releases.of("0.8.5")
    assert later_flags("--runner pooling --swap-spac", old) == "--runner"
    assert later_release("--runner pooling", old) == "0.10.1"
    assert later_release("--swap-space 4", Releases.of("0.20.0")) is None
    assert [remedy.kind for remedy in remedies("--runner x --nonsense-xyz", old)] == ["later", "unknown"]


@pytest.mark.parametrize(("arguments", "release", "since"), [
    ("--no-enable-chunked-prefill", "0.8.4", "0.8.5"),
    ("--no-enable-prefix-caching", "0.6.3", "0.6.5"),
    ("-dp 2", "0.8.0", "0.8.3"),
    ("-O 3", "0.6.4", "0.6.5"),
    ("-O.level 3", "0.6.5", "0.9.2"),
    ("--compilation-config.level 3", "0.6.3", "0.9.2"),
])
def test_a_spelling_of_later_releases(arguments: str, release: str, since: str) -> None:
    spelling = arguments.split(maxsplit=1)[0]
    assert (later_flags(arguments, Releases.of(release)), later_release(arguments, Releases.of(release))) == (spelling, since)
    assert unknown_flag_notes(arguments, Releases.of(release)) == f"{spelling} exists from vLLM {since} on; this release is older."


def test_a_key_of_a_flag_is_written_as_json_before() -> None:
    assert _set("--compilation-config.level 3", "0.9.1") == {"--compilation-config": '{"level": 3}'}
    assert _set("-O.level 3", "0.6.5") == {"--compilation-config": '{"level": 3}'}
    assert _set("--max-model-len.level 3", "0.9.1") == {}


def test_a_flag_of_later_releases_that_this_one_calls_otherwise() -> None:
    assert _set('--structured-outputs-config {"backend": "xgrammar"}', "0.10.2") == {"--guided-decoding-backend": "xgrammar"}
    both = '--structured-outputs-config {"backend": "guidance", "disable_any_whitespace": true}'
    assert _set(both, "0.10.2") == {"--guided-decoding-backend": "guidance", "--guided-decoding-disable-any-whitespace": True}
    assert _set("--cudagraph-capture-sizes 1 2 4", "0.10.0") == {"--cuda-graph-sizes": "1 2 4"}
    assert later_release("--cudagraph-capture-sizes 1 2 4", Releases.of("0.10.0")) == "0.11.1"


@pytest.mark.parametrize("arguments", [
    '--structured-outputs-config {"backend": "xgrammar", "reasoning_parser": "qwen3"}',  # a key that nothing says
    '--structured-outputs-config {"backend": "of_ours"}',  # a value that the old flag does not take
    "--structured-outputs-config {",
    "--cudagraph-capture-sizes",
    "--performance-mode throughput",
])
def test_a_flag_of_later_releases_that_this_one_has_under_no_name(arguments: str) -> None:
    assert _set(arguments, "0.10.2") == {}


def test_what_messages_call_a_setting() -> None:
    assert as_flag("kv cache dtype") == as_flag("kv_cache_dtype") == "--kv-cache-dtype"


def test_notes_say_when_a_flag_lived() -> None:
    assert unknown_flag_notes("--enable-reasoning", Releases.every()) == (
        "--enable-reasoning existed from 0.7.1 to 0.9.2. "
        "Keep --reasoning-parser; it alone switches reasoning output on.")


def test_an_option_of_docker_behind_the_image() -> None:
    assert unknown_flag_notes("--ipc=host", Releases.every()) == (
        "--ipc is an option of docker run and goes before the image.")


def test_a_flag_that_another_subcommand_has() -> None:
    assert unknown_flag_notes("--request-rate 4", Releases.every()) == "--request-rate is a flag of `vllm bench serve`."
    assert unknown_flag_notes("--endpoint-type openai", Releases.every()) == (
        "--endpoint-type was a flag of `vllm bench serve` up to 0.11.0.")
    assert spelling_words("--request-rates 4", Releases.every()) == "Write --request-rate instead of --request-rates"


@given(st.text(alphabet='-=abc.{}" 1', max_size=60))
def test_any_text_is_survived(text: str) -> None:
    releases = Releases.every()
    for filter_of in (replacement_words, later_flags, later_release, unknown_flag_notes, spelling_words):
        filter_of(text, releases)
    assert replacement_flag(text, releases, 1).startswith("-")


@pytest.mark.parametrize(("message", "given", "flag"), [
    ("spec decode is not supported.", "model port speculative_config", "--speculative-config"),
    ("Unexpected extra config keys for load format auto: {'x'}", "model_loader_extra_config load_format", "--model-loader-extra-config"),
    ("Jamba currently does not support prefix caching", "model enable_prefix_caching", "--enable-prefix-caching"),
    ("pipeline parallelism is not supported", "pipeline_parallel_size tensor_parallel_size", "--pipeline-parallel-size"),
    ("LoRA does not work with speculative decoding", "enable_lora speculative_config", None),  # either may be meant
    ("the model on this port does not fit", "model port", None),
    ("prefix caching is not supported", "", None),
])
def test_the_setting_that_a_message_speaks_of(message: str, given: str, flag: str | None) -> None:
    assert flag_meant(message, given) == flag


@pytest.mark.parametrize(("message", "given", "named"), [
    ("Jamba currently does not support prefix caching", "model enable_prefix_caching", True),
    ("FP8 KV cache is unsupported in CPU_ATTN", "kv_cache_dtype", True),
    ("current platform cpu does not support ray.", "distributed_executor_backend", True),
    ("Jamba currently does not support prefix caching", "enable_lora", False),
    ("All kv cache tensors must have the same size", "", False),
    ("Block_size(16) must be divisible by cp_kv_cache_interleave_size (24)", "", True),
    ("the max_model_len must be positive", "max_model_len", False),
])  # fmt: skip
def test_a_message_names_a_setting(message: str, given: str, named: bool) -> None:
    assert names_setting(message, given) is named


@pytest.mark.parametrize(("name", "settings", "flag"), [
    ("KVTransferConfig", "", "--kv-transfer-config"),
    ("CompilationConfig", "max_model_len compilation_config", "--compilation-config"),
    ("PassConfig", "compilation_config", "--compilation-config"),
    ("EPLBConfig", None, "--eplb-config"),
    ("PoolerConfig", "override_pooler_config", "--override-pooler-config"),
    ("CompilationConfig", "max_model_len", None),
    ("SchedulerConfig", "", None),
    ("", "", None),
])
def test_the_flag_that_a_class_of_settings_is_read_from(name: str, settings: str | None, flag: str | None) -> None:
    """Return it only where the user set it, or where the settings are not known."""
    assert flag_of_config(name, settings) == flag


_RELEASES = Releases.of("0.25.1")


@pytest.mark.parametrize(("refusal", "flag", "value"), [
    ("data_parallel_size_local (4) must be <= data_parallel_size (2)", "--data-parallel-size-local", 2),
    ("long_prefill_token_threshold (9000) cannot be greater than the max_model_len (4096).", "--long-prefill-token-threshold", 4096),
    ("max_cpu_loras (1) must be >= max_loras (4).", "--max-cpu-loras", 4),
    ("long_prefill_token_threshold (64) must be less than max_model_len (64).", "--long-prefill-token-threshold", 63),
    ("max_num_seqs (8) must be greater than max_loras (8).", "--max-num-seqs", 9),
    ("max_num_seqs=8 must not be smaller than max_loras=9", "--max-num-seqs", 9),
    ("node_rank=2 must be less than nnodes=2.", None, 1),
    ("prompt_lookup_min=5 must be <= prompt_lookup_max=2", None, 2),
    ("max_num_seqs (0) must be greater than 0", None, None),
    ("no bound", None, None),
])  # fmt: skip
def test_a_setting_and_its_bound(refusal: str, flag: str | None, value: int | None) -> None:
    """Return the flag only where the user set it and any value inside the bound will do."""
    given = "data_parallel_size_local long_prefill_token_threshold max_cpu_loras max_num_seqs node_rank prompt_lookup_min"
    assert gives_bound(refusal) is (value is not None)
    if flag is not None:
        assert (advised_flag(refusal, given, _RELEASES), advised_value(refusal, given, _RELEASES)) == (flag, value)
    elif value is not None:
        assert advised_flag(refusal, given, _RELEASES) is None


@pytest.mark.parametrize(("message", "change"), [
    ("Please set `--mamba-backend flashinfer`.", ("--mamba-backend", "flashinfer", "--mamba-backend flashinfer", None, None)),
    ("enable_eplb must be True", ("--enable-eplb", True, "--enable-eplb", None, None)),
    ("set VLLM_USE_V1=0", (None, 0, "VLLM_USE_V1=0", "VLLM_USE_V1", None)),
    ("--enable-lora is not supported", (None, None, None, None, "--enable-lora")),
    ("the model is not multimodal", (None, None, None, None, None)),
])
def test_the_change_that_a_message_asks_for(message: str, change: tuple[object, ...]) -> None:
    found = (advised_flag(message, "enable_lora", _RELEASES), advised_value(message, "enable_lora", _RELEASES),
             advised_words(message, "enable_lora", _RELEASES), advised_variable(message, "enable_lora", _RELEASES),
             advised_removal(message, "enable_lora", _RELEASES))
    assert found == change


def test_classes_that_hold_only_settings() -> None:
    assert [name for name in ("ParallelConfig", "ModelConfig", "VllmConfig", "EPLBConfig") if holds_only_settings(name)] == [
        "ParallelConfig", "EPLBConfig"]


@pytest.mark.parametrize(("arguments", "release", "found", "written"), [
    ("\u2014enforce-eager", "0.17.0", "\u2014enforce-eager", {"--enforce-eager": True}),
    ("\u2013tp 2 --foo", "0.17.0", "\u2013tp", {"-tp": "2"}),
    ("\u2014disable-log-requests", "0.17.0", None, {}),  # plain dashes would not help here
    ("\u2014max-model-len", "0.17.0", "\u2014max-model-len", {}),
    ("--enforce-eager", "0.17.0", None, {}),
])
def test_typographic_dashes_are_written_plainly(arguments: str, release: str, found: str | None,
                                                written: dict[str, str | bool]) -> None:
    assert flags_with_dashes(arguments, Releases.of(release)) == found
    assert _set(arguments, release) == written
