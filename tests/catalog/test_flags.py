from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_doctor.catalog import flags
from vllm_doctor.catalog.flag_file import table
from vllm_doctor.catalog.flags import COMPUTED

NEWEST = flags.releases()[-1]


def flag(name: str) -> flags.Flag:
    found = flags.lookup(name)
    assert found is not None, name
    return found


# -- lifetimes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("--gpu-memory-utilization", "0.2.0", NEWEST),
        ("--swap-space", "0.2.0", "0.17.1"),
        ("--max-num-seqs", "0.2.0", NEWEST),
        ("--max-num-batched-tokens", "0.2.0", NEWEST),
        ("--enforce-eager", "0.2.6", NEWEST),
        ("--kv-cache-dtype", "0.3.0", NEWEST),
        ("--num-gpu-blocks-override", "0.4.1", NEWEST),
        ("--max-context-len-to-capture", "0.2.6", "0.6.3.post1"),
        ("--max-seq-len-to-capture", "0.4.2", "0.10.2"),
        ("--cpu-offload-gb", "0.5.3", NEWEST),
        ("--limit-mm-per-prompt", "0.5.5", NEWEST),
        ("--mm-processor-kwargs", "0.6.2", NEWEST),
        ("--compilation-config", "0.6.5", NEWEST),
        ("--cuda-graph-sizes", "0.9.0", "0.12.0"),
        ("--disable-hybrid-kv-cache-manager", "0.9.1", NEWEST),
        ("--skip-mm-profiling", "0.10.1", NEWEST),
        ("--kv-cache-memory-bytes", "0.10.2", NEWEST),
        ("--max-cudagraph-capture-size", "0.11.1", NEWEST),
        ("--cudagraph-capture-sizes", "0.11.1", NEWEST),
        ("--kv-offloading-size", "0.11.1", NEWEST),
        ("--language-model-only", "0.17.0", NEWEST),
        ("--offload-backend", "0.17.0", NEWEST),
        ("--cpu-offload-params", "0.17.0", NEWEST),
        ("--enable-cumem-allocator", "0.22.0", NEWEST),
        ("--attention-backend", "0.13.0", NEWEST),
        ("--calculate-kv-scales", "0.7.0", "0.27.1"),
        ("--max-num-partial-prefills", "0.7.3", "0.26.0"),
        ("--preemption-mode", "0.5.0", "0.10.2"),
        ("--use-v2-block-manager", "0.4.1", "0.9.2"),
        ("--num-scheduler-steps", "0.5.5", "0.10.0"),
        ("--worker-use-ray", "0.2.0", "0.6.6.post1"),
        ("--device", "0.3.1", "0.9.2"),
        ("--task", "0.6.4", "0.12.0"),
        ("--runner", "0.10.1", NEWEST),
        ("--rope-scaling", "0.4.3", "0.11.0"),
        ("--rope-theta", "0.5.0", "0.11.0"),
        ("--speculative-model", "0.4.1", "0.8.2"),
        ("--speculative-config", "0.8.2", NEWEST),
        ("--guided-decoding-backend", "0.4.1", "0.11.2"),
        ("--structured-outputs-config", "0.11.0", NEWEST),
        ("--enable-reasoning", "0.7.1", "0.9.2"),
        ("--disable-log-requests", "0.2.0", "0.16.0"),
        ("--enable-log-requests", "0.10.1", NEWEST),
        ("--enable-prompt-adapter", "0.5.2", "0.10.1.1"),
        ("--disable-frontend-multiprocessing", "0.5.4", "0.18.1"),
        ("--log-error-stack", "0.10.2", NEWEST),
        ("--config", "0.6.0", NEWEST),
    ],
)
def test_lifetime(name: str, first: str, last: str) -> None:
    assert (flag(name).first, flag(name).last) == (first, last)


@pytest.mark.parametrize(
    "name",
    [
        "--host",
        "--port",
        "--api-key",
        "--chat-template",
        "--enable-auto-tool-choice",
        "--tool-call-parser",
        "--served-model-name",
        "--uvicorn-log-level",
        "--lora-modules",
        "--root-path",
        "--ssl-keyfile",
    ],
)
def test_front_end_flags_live_on_after_they_became_a_dataclass(name: str) -> None:
    assert all(flag(name).exists(version) for version in ("0.9.2", "0.10.0", "0.14.0", "0.24.0", "0.29.0", NEWEST, None))


def test_a_flag_exists_between_its_first_and_last_release_only() -> None:
    swap = flag("--swap-space")
    assert swap.exists("0.17.1")
    assert not swap.exists("0.18.0")
    assert not swap.exists(None)
    assert (swap.exists("0.17.0"), swap.exists("0.18.0")) == (True, False)
    assert not flag("--kv-cache-memory-bytes").exists("0.10.1.1")


def test_every_life_lies_within_the_releases_and_in_order() -> None:
    for name in flags.flags_of("0.10.2") + flags.flags_of():
        positions = [position for span in flag(name).life for position in span]
        assert positions == sorted(positions)
        assert 0 <= positions[0] <= positions[-1] < len(flags.releases())


# -- defaults, kinds, choices ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "version", "default"),
    [
        ("--gpu-memory-utilization", "0.2.0", 0.9),
        ("--gpu-memory-utilization", "0.19.1", 0.9),
        ("--gpu-memory-utilization", "0.20.0", 0.92),
        ("--gpu-memory-utilization", None, 0.92),
        ("--swap-space", "0.8.5", 4),
        ("--block-size", "0.6.4", 16),
        ("--block-size", "0.9.0", None),
        ("--max-num-seqs", "0.6.4", 256),
        ("--max-num-seqs", "0.8.5", None),
        ("--max-logprobs", "0.4.3", 5),
        ("--max-logprobs", "0.5.0", 20),
        ("--model", "0.9.2", "facebook/opt-125m"),
        ("--model", "0.10.0", "Qwen/Qwen3-0.6B"),
        ("--seed", "0.7.3", 0),
        ("--seed", "0.8.0", None),
        ("--seed", "0.12.0", 0),
        ("--generation-config", "0.7.3", None),
        ("--generation-config", "0.8.0", "auto"),
        ("--port", None, 8000),
        ("--enable-prefix-caching", "0.5.0", False),
        ("--enable-prefix-caching", "0.8.0", None),
        ("--async-scheduling", "0.13.0", False),
        ("--async-scheduling", "0.14.0", None),
        ("--disable-cascade-attn", "0.18.0", True),
        ("--safetensors-load-strategy", "0.18.1", "lazy"),
        ("--safetensors-load-strategy", "0.19.0", None),
        ("--lora-extra-vocab-size", "0.8.0", 256),
        ("--mm-processor-cache-gb", None, 4),
        ("--compilation-config", "0.10.0", {}),
        ("--allowed-origins", "0.10.0", ("*",)),
    ],
)
def test_default(name: str, version: str | None, default: object) -> None:
    assert flag(name).default(version) == default


def test_token_counts_become_human_readable_and_automatic() -> None:
    length = flag("--max-model-len")
    assert [length.kind_in(v) for v in ("0.8.3", "0.8.4", "0.14.0")] == [
        "int",
        "human_int",
        "human_int_or_auto",
    ]
    limits = flags.lookup("--limit-mm-per-prompt")
    assert limits is not None
    assert [limits.accepts(text, "0.6.4") for text in ("image=3", '{"image":3}')] == [True, False]
    assert not length.accepts("8k", "0.8.3")
    assert length.accepts("8k", "0.8.4")
    assert not length.accepts("auto", "0.13.0")
    assert length.accepts("auto", "0.14.0")
    assert length.accepts("-1", "0.14.0")
    assert not length.accepts("1.5K")  # binary multiples take no fraction
    assert length.accepts("1.5k")
    assert flag("--max-num-batched-tokens").kind_in("0.9.0") == "int"
    assert flag("--max-num-batched-tokens").kind_in("0.9.1") == "human_int"


def test_choices_are_what_one_types() -> None:
    assert flag("--block-size").choices("0.8.0") == ("8", "16", "32", "64", "128")
    assert flag("--optimization-level").choices() == ("0", "1", "2", "3")
    assert flag("--max-lora-rank").choices("0.12.0")[:3] == ("1", "8", "16")
    assert flag("--max-model-len").choices() == ()
    assert flag("--mamba-backend").choices("0.20.0") == ("triton", "flashinfer")
    assert "FLASH_ATTN" in flag("--attention-backend").choices("0.13.0")


@pytest.mark.parametrize(
    ("name", "value", "first", "last"),
    [
        ("--kv-cache-dtype", "fp8_e5m2", "0.3.0", NEWEST),
        ("--kv-cache-dtype", "bfloat16", "0.11.0", NEWEST),
        ("--quantization", "squeezellm", "0.2.2", "0.6.0"),
        ("--quantization", "gguf", "0.5.5", "0.23.0"),
        ("--quantization", "bitsandbytes", "0.5.0", "0.27.1"),
        ("--quantization", "mxfp4", "0.10.1", NEWEST),
        ("--tokenizer-mode", "mistral", "0.6.0", NEWEST),
        ("--load-format", "bitsandbytes", "0.5.0", None),
        ("--tool-call-parser", "llama3_json", "0.6.3", NEWEST),
        ("--tool-call-parser", "qwen3_coder", None, NEWEST),
        ("--reasoning-parser", "deepseek_r1", "0.7.1", NEWEST),
        ("--guided-decoding-backend", "xgrammar", "0.6.5", None),
        ("--convert", "reward", "0.10.1", "0.14.1"),
    ],
)
def test_a_value_is_known_from_its_first_release_to_its_last(
    name: str, value: str, first: str | None, last: str | None
) -> None:
    having = [
        release
        for release in flags.releases()
        if flag(name).exists(release) and value in flag(name).choices(release)
    ]
    assert first in (None, having[0])
    assert last in (None, having[-1])


def test_accepts_looks_at_choices_unless_plugins_may_add_some() -> None:
    assert not flag("--kv-cache-dtype").accepts("fp4", "0.9.2")
    assert flag("--kv-cache-dtype").accepts("fp8", "0.9.2")
    assert flag("--tool-call-parser").accepts("mine", "0.11.0")  # --tool-parser-plugin
    assert not flag("--tool-call-parser").accepts("mine", "0.6.0")
    assert not flag("--swap-space").accepts("4", "0.18.0")
    assert flag("--enforce-eager").accepts("")
    assert not flag("--enforce-eager").accepts("true")
    assert flag("--enable-chunked-prefill").accepts("False", "0.6.0")
    assert not flag("--enable-chunked-prefill").accepts("False", "0.9.0")
    assert flag("--limit-mm-per-prompt").kind_in("0.9.2") == "json_or_key_values"
    assert not flag("--limit-mm-per-prompt").accepts("image=4", "0.10.0")
    assert not flag("--tensor-parallel-size").accepts("two")


def test_lists_say_what_they_hold() -> None:
    assert (flag("--cudagraph-capture-sizes").kind, flag("--cudagraph-capture-sizes").items) == (
        "list",
        "int",
    )
    assert (flag("--api-key").kind_in("0.9.2"), flag("--api-key").kind_in("0.11.0")) == ("str", "list")
    assert flag("--gpu-memory-utilization").items is None


def test_deprecation_is_known() -> None:
    assert flag("--task").deprecated("0.10.1")
    assert not flag("--task").deprecated("0.9.2")
    assert flag("--disable-cascade-attn").deprecated()


# -- spellings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("--max-model-len", "--max-model-len"),
        ("--max_model_len", "--max-model-len"),
        ("--max-model-len=8192", "--max-model-len"),
        ("max_model_len", "--max-model-len"),
        ("max-model-len", "--max-model-len"),
        ("-tp", "--tensor-parallel-size"),
        ("-pp", "--pipeline-parallel-size"),
        ("-dp", "--data-parallel-size"),
        ("-q", "--quantization"),
        ("-cc", "--compilation-config"),
        ("-cc.mode", "--compilation-config"),
        ("-ac", "--attention-config"),
        ("-sc", "--speculative-config"),
        ("-O3", "--optimization-level"),
        ("--device-memory-utilization", "--gpu-memory-utilization"),
        ("--no-enable-prefix-caching", "--enable-prefix-caching"),
        ("--no_enable_prefix_caching", "--enable-prefix-caching"),
        ("--disable-prefix-caching", "--enable-prefix-caching"),
        ("--speculative-config.model", "--speculative-config"),
        ("--structured-outputs-config.backend=xgrammar", "--structured-outputs-config"),
    ],
)
def test_lookup(spelling: str, name: str) -> None:
    assert flag(spelling).name == name


def test_lookup_of_what_never_was() -> None:
    for name in ("--bogus", "--no-bogus", "-zz", "", "--", "-", "--no-max-model-len"):
        assert flags.lookup(name) is None


def test_short_o_changed_its_meaning() -> None:
    assert flags.lookup("-O", "0.8.5") is flags.lookup("--compilation-config")
    assert flags.lookup("-O3", "0.11.2") is flags.lookup("--compilation-config")
    assert flags.lookup("-O3", "0.12.0") is flags.lookup("--optimization-level")


def test_short_forms_by_release() -> None:
    assert flag("-tp").aliases == ("-tp",)
    assert flag("--speculative-config").aliases_in("0.18.1") == ()
    assert flag("--speculative-config").aliases_in("0.19.0") == ("-sc",)
    assert flag("--compilation-config").aliases_in("0.12.0") == ("-cc",)


def test_negation_by_release() -> None:
    caching = flag("--enable-prefix-caching")
    assert caching.negatable
    assert caching.negation("0.6.4.post1") is None
    assert caching.negation("0.6.5") == "--no-enable-prefix-caching"
    assert flag("--enforce-eager").negation("0.8.5") is None
    assert flag("--enforce-eager").negation("0.9.0") == "--no-enforce-eager"
    assert not flag("--max-model-len").negatable
    assert not flag("--disable-log-stats").negatable


def test_accepted_is_the_parser_of_that_release() -> None:
    def name(spelling: str, version: str | None = None) -> str | None:
        found = flags.accepted(spelling, version)
        return found.name if found else None

    assert name("--swap-space", "0.17.1") == "--swap-space"
    assert name("--swap-space", "0.18.0") is None
    assert name("--kv-cache-memory", "0.10.2") == "--kv-cache-memory-bytes"  # the log's own abbreviation
    assert name("--max-num", "0.10.2") is None  # could be several
    assert name("--no-enable-prefix-caching", "0.6.4") is None
    assert name("-cc", "0.11.2") is None
    # gone in 0.17.0; from 0.33.0 the negation of --enable-log-requests
    assert name("--disable-log-requests", "0.17.0") is None
    assert name("--disable-log-requests", "0.33.0") == "--enable-log-requests"


def test_yaml_and_python_forms() -> None:
    assert (flag("--max-model-len").yaml_key, flag("--max-model-len").keyword) == (
        "max-model-len",
        "max_model_len",
    )
    assert flag("--config").yaml_key is None
    for name in ("--host", "--port", "--api-key", "--chat-template", "--lora-modules", "--tool-call-parser",
                 "--enable-auto-tool-choice", "--config", "--uvicorn-log-level"):  # fmt: skip
        assert flag(name).keyword is None, name
    assert flag("--served-model-name").keyword == "served_model_name"
    assert flag("--reasoning-parser").keyword == "reasoning_parser"


def test_nearest_names_exist_in_that_release() -> None:
    assert flags.nearest("--gpu-memory-utilisation")[0] == "--gpu-memory-utilization"
    assert flags.nearest("--max_model_length", "0.6.0")[0] == "--max-model-len"
    assert flags.nearest("--tensor-parallel")[0] == "--tensor-parallel-size"
    assert "--swap-space" not in flags.nearest("--swap-spaces", "0.18.0")
    assert flags.nearest("--swap-spaces", "0.17.0")[0] == "--swap-space"
    assert flags.nearest("--qqqqqqqqqq") == ()
    assert len(flags.nearest("--max-num", n=2)) <= 2


# -- releases ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("0.8.5.post1", "0.8.5.post1"),
        ("0.11.1rc3.dev12+gabc", "0.11.1"),
        ("0.10.2rc1", "0.10.2"),
        ("v0.9.2", "0.9.2"),
        ("0.9.2+cu126", "0.9.2"),
        ("0.6.4.dev0", "0.6.4"),
        ("0.8.5.post9", "0.8.5.post1"),
        ("0.15.1", "0.14.1"),
        ("0.4.0.post1", "0.3.3"),
        ("0.1.7", "0.2.0"),
        ("99.0.0", NEWEST),
        ("0.1.dev1+g5d2c1f0", NEWEST),
        ("unknown", NEWEST),
        ("", NEWEST),
        (None, NEWEST),
    ],
)
def test_resolve(version: str | None, release: str) -> None:
    assert flags.resolve(version) == release


def test_releases_are_ordered_and_resolve_to_themselves() -> None:
    from packaging.version import Version

    assert list(flags.releases()) == sorted(flags.releases(), key=Version)
    assert all(flags.resolve(release) == release for release in flags.releases())
    assert {"0.2.0", "0.8.5.post1", "0.9.0.1", "0.33.0"} <= set(flags.releases())


@given(st.text(max_size=40))
def test_any_text_resolves_and_looks_up(text: str) -> None:
    assert flags.resolve(text) in flags.releases()
    found = flags.lookup(text)
    assert found is None or found.name in {*flags.flags_of(found.last)}
    assert all(name in flags.flags_of() for name in flags.nearest(text))


@given(st.sampled_from(flags.releases()), st.data())
def test_every_spelling_of_a_release_is_read_back(release: str, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(flags.flags_of(release)))
    spelling = data.draw(st.sampled_from(flag(name).spellings(release)))
    assert flags.accepted(spelling, release) is flag(name)


def test_a_flag_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        flag("--max-model-len").name = "--other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        flag("--compilation-config").default("0.10.0")["mode"] = 3


# -- what to write instead ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "instead"),
    [
        ("--enable-reasoning", "", {}),
        ("--disable-log-requests", "", {}),
        ("--swap-space", "4", {}),
        ("--task", "embed", {"--runner": "pooling", "--convert": "embed"}),
        ("--task", "generate", {"--runner": "generate"}),
        ("--task", "nonsense", {}),
        ("--guided-decoding-backend", "xgrammar", {"--structured-outputs-config.backend": "xgrammar"}),
        ("--speculative-model", "org/draft", {"--speculative-config.model": "org/draft"}),
        ("--speculative-model", "[ngram]", {"--speculative-config.method": "ngram"}),
        ("--num-speculative-tokens", "5", {"--speculative-config.num_speculative_tokens": "5"}),
        ("--cuda-graph-sizes", "64", {"--cudagraph-capture-sizes": "64"}),
        ("--max-context-len-to-capture", "4096", {"--max-seq-len-to-capture": "4096"}),
        ("--max-context-len-to-capture", None, {}),
        ("--worker-use-ray", "", {"--distributed-executor-backend": "ray"}),
        ("--rope-scaling", '{"type":"yarn"}', {"--hf-overrides": '{"rope_parameters": {"type":"yarn"}}'}),
        ("--disable-mm-preprocessor-cache", "", {"--mm-processor-cache-gb": "0"}),
    ],
)
def test_replacement(name: str, value: str | None, instead: dict[str, str]) -> None:
    replacement = flag(name).replaced_by
    assert replacement is not None
    assert replacement.for_value(value) == instead


def test_every_removed_flag_has_a_successor_and_only_those() -> None:
    names = {name for release in flags.releases() for name in flags.flags_of(release)}
    removed = {name for name in names if flag(name).last != NEWEST}
    without = sorted(name for name in removed if flag(name).replaced_by is None)
    assert without == []
    assert all(flag(name).replaced_by is None for name in names - removed)


def test_every_replacement_exists_when_it_is_needed() -> None:
    for name in {name for release in flags.releases() for name in flags.flags_of(release)}:
        replacement = flag(name).replaced_by
        if replacement is None:
            continue
        assert replacement.note
        for chosen in (replacement.set, *replacement.values.values()):
            assert all(flag(new).exists(replacement.since or flag(name).last) for new in chosen), name


# -- environment variables --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("VLLM_USE_V1", "0.6.4", "0.11.0"),
        ("VLLM_ATTENTION_BACKEND", "0.4.1", "0.14.1"),
        ("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0.5.4", NEWEST),
        ("VLLM_FLASH_ATTN_VERSION", "0.7.0", "0.14.1"),
        ("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "0.18.0", NEWEST),
        ("VLLM_CPU_KVCACHE_SPACE", "0.4.1", NEWEST),
        ("VLLM_MM_INPUT_CACHE_GIB", "0.8.0", "0.12.0"),
        ("VLLM_API_KEY", "0.3.0", NEWEST),
        ("VLLM_USE_V2_MODEL_RUNNER", "0.12.0", NEWEST),
        ("VLLM_DISABLE_LOG_LOGO", "0.16.0", NEWEST),
    ],
)
def test_variable_lifetime(name: str, first: str, last: str) -> None:
    assert flags.env_span(name) == (first, last)
    assert flags.env_exists(name, last)


def test_variable_defaults() -> None:
    def default(name: str, version: str | None = None) -> object:
        variable = flags.env(name)
        assert variable is not None
        return variable.default(version)

    assert (default("VLLM_USE_V1", "0.7.3"), default("VLLM_USE_V1", "0.8.0")) == (False, True)
    assert default("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "0.19.1") is False
    assert default("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "0.20.0") is True
    assert default("VLLM_ENGINE_READY_TIMEOUT_S") == 600
    assert default("VLLM_CACHE_ROOT") is COMPUTED
    assert repr(COMPUTED) == "COMPUTED"


def test_variables_of_other_software_always_count() -> None:
    assert flags.env_exists("HF_TOKEN", "0.2.0")
    assert flags.env_exists("NCCL_DEBUG")
    assert not flags.env_exists("VLLM_NO_SUCH_THING")
    assert not flags.env_exists("VLLM_USE_V1", "0.12.0")
    assert flags.env("VLLM_NO_SUCH_THING") is None
    with pytest.raises(KeyError):
        flags.env_span("VLLM_NO_SUCH_THING")


def test_an_entry_read_by_itself_is_the_one_among_all() -> None:
    entries = table().flags
    assert entries["--max-model-len"] == dict(entries.items())["--max-model-len"]
    assert ("--max-model-len" in entries, "--no-such-flag" in entries) == (True, False)


# -- the file ------------------------------------------------------------------------------------------------------


def test_each_row_is_found_by_its_name() -> None:
    for entries, begin in ((table().flags, "-"), (table().env, "V")):
        names = list(entries)
        assert names == sorted(names)
        assert len(names) == len(entries) > 300
        assert {name: entries[name] for name in names if name in entries} == dict(entries.items())
        assert all(name.startswith("-") is (begin == "-") for name in names)


@pytest.mark.parametrize("name", ["", "-", "--", "--model-", "--mode", "~", '--model",{"life', "--mödel", "\udcff", 7, None])
def test_no_other_name_is(name: object) -> None:
    assert name not in table().flags
    assert name not in table().env
