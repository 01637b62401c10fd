from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_doctor import diagnose
from vllm_doctor.diagnosis.engine import Diagnosis
from vllm_doctor.facts.store import FactStore, convert, read_settings
from vllm_doctor.rulebase.loader import builtin


@pytest.mark.parametrize(("kind", "text", "value"), [
    ("gib", "768.00 MiB", 0.75), ("gib", "44.00 KiB", 44 / 2**20), ("gib", "15.27 GB", 15.27), ("gib", "15.27", 15.27),
    ("gib", "4294967296 B", 4.0), ("gib", "-1.05 GiB", -1.05), ("gib", "1,024 MiB", 1.0), ("gib", "none", None),
    ("int", "4,061,215", 4061215), ("int", "8k", 8000), ("int", "1,2", None), ("int", "12,345,67", None),
    ("int", "-1,024", -1024), ("int", "8192,", 8192), ("int", "1_000", 1000), ("int", "1,024.0", 1024), ("int", "8K", 8192), ("int", "x", None), ("int", "12x", None),
    ("float", "0.90", 0.9), ("bool", "True", True), ("bool", "false", False), ("bool", "maybe", None),
    ("version", "v0.8.5.post1", "0.8.5.post1"), ("version", "0.11.2.dev0+g439.d20260115", "0.11.2"),
    ("version", "0.10.0rc2.dev110+g61b8", "0.10.0rc2"), ("version", "0.1.dev1+gfc67", None), ("version", "0-10-0", "0.10.0"),
    ("capability", "75", 7.5), ("capability", "7.5", 7.5), ("capability", "121", 12.1), ("word", " fp8 ", "fp8"),
    ("platform", "cuda:7", "cuda"), ("platform", "npu", "npu"), ("platform", ":", None),
])
def test_convert(kind: str, text: Any, value: Any) -> None:
    assert convert(kind, text) == value


@given(st.sampled_from(["gib", "int", "float", "bool", "version", "capability", "word", "platform"]), st.text(max_size=30))
def test_any_text_is_converted_or_refused(kind: str, text: str) -> None:
    convert(kind, text)


def test_of_several_values_the_one_counts_that_the_contract_says() -> None:
    store = FactStore(builtin().names)
    for name, values in {"model_weights_gib": (7.5, 8.1), "kv_cache_available_gib": (8.69, 7.47), "running_requests": (9, 3)}.items():
        for line, value in enumerate(values, 1):
            store.add(name, value, line, rank=line)
    assert store.values() == {"model_weights_gib": 8.1, "kv_cache_available_gib": 7.47, "running_requests": 3}
    assert [(fact.line, fact.value) for fact in store.observations("model_weights_gib")] == [(1, 7.5), (2, 8.1)]


def test_a_fact_keeps_few_of_its_many_observations() -> None:
    store = FactStore(builtin().names)
    for line in range(10_000):
        store.add("running_requests", line % 7, line)
    assert len(store.observations("running_requests")) <= 16
    assert store.observations("running_requests")[-1].line == 9999


def test_what_says_nothing_is_no_fact() -> None:
    store = FactStore(builtin().names)
    assert store.add("dtype", "auto", 1) is None
    assert store.add("quantization", None, 1) is None
    assert store.add("no_such_fact", 1, 1) is None
    assert store.values() == {}


@pytest.mark.parametrize(("text", "kind", "key", "value"), [
    ("args: Namespace(host=None, port=8000, model='org/m', tensor_parallel_size=2)", "arguments", "port", 8000),
    ("non-default args: {'model': 'org/m', 'max_model_len': 4096, 'x': <E.A: 1>}", "non-default", "max_model_len", 4096),
    ("Engine args: AsyncEngineArgs(model='org/m', tokenizer=None, max_model_len=8192)", "engine-args", "max_model_len", 8192),
    ("Initializing a V1 LLM engine (v0.8.5) with config: model='org/m', dtype=torch.bfloat16, max_seq_len=8", "config", "max_seq_len", 8),
    ("Initializing an LLM engine with config: model='org/m', max_seq_len=8", "config", "model", "org/m"),
    ("Initializing a V0 LLM engine (v0.7.2) with config: model='org/m', chunked_prefill_enabled=True", "config", "enable_chunked_prefill", True),
    ("Dumping input data for V1 LLM engine (v0.20.0) with config: model='/m', max_seq_len=8, ", "config", "max_seq_len", 8),
])
def test_lines_of_many_settings(text: str, kind: str, key: str, value: Any) -> None:
    settings = read_settings(text)
    assert settings is not None
    assert (settings.kind, settings.values[key]) == (kind, value)


@pytest.mark.parametrize(("printed", "value"), [("LoadFormat.BITSANDBYTES", "bitsandbytes"), ("LoadFormat.AUTO", None), ("gguf", "gguf")])
def test_a_load_format_that_is_printed_as_a_member(printed: str, value: str | None) -> None:
    store = FactStore(builtin().names)
    fact = store.add("load_format", printed, 1)
    assert (None if fact is None else fact.value) == value


def test_a_cut_line_of_settings_gives_what_was_there() -> None:
    settings = read_settings("args: Namespace(host=None, port=8000, model='org/m', tensor_par")
    assert settings is not None
    assert not settings.complete
    assert settings.values["port"] == 8000


def test_the_engine_arguments_that_another_program_prints_are_facts() -> None:
    log = "engine.py :27 2026-02-03 09:46:57,179 Engine args: AsyncEngineArgs(model='org/m', dtype='half', max_model_len=8192)\n"
    report = diagnose(log.encode())
    assert (report.facts["model"], report.facts["dtype"], report.facts["max_model_len"]) == ("org/m", "half", 8192)


@pytest.mark.parametrize("end", ["ValueError: x\n", ""])
@pytest.mark.parametrize(("call", "engine"), [
    ('vllm/v1/engine/core.py", line 1, in f', "V1"),
    ('vllm/worker/worker.py", line 1, in f', "V0"),
    ('vllm/engine/async_llm_engine.py", line 1, in engine_step', "V0"),
    ('vllm/engine/async_llm_engine.py", line 1, in <module>', None),
])
def test_the_folders_of_a_traceback_tell_the_engine(call: str, engine: str | None, end: str) -> None:
    log = f'Traceback (most recent call last):\n  File "/opt/venv/{call}\n    g()\n{end}'
    assert diagnose(log.encode()).facts.get("engine") == engine


@pytest.mark.parametrize(("folder", "release", "device"), [
    ("vllm-0.5.3.post1+cpu-py3.10-linux-x86_64.egg", "0.5.3.post1", "cpu"),
    ("vllm-0.10.3.dev0+g01efc7ef7.d20251104.xpu-py3.12-linux-x86_64.egg", "0.10.3", "xpu"),
    ("vllm-0.6.3.dev588+g1033c3eb.gaudi000-py3.10.egg", "0.6.3", "hpu"),
    ("vllm-0.1.dev1+g1033c3eb-py3.10.egg", None, None),
])
def test_the_folder_of_a_build_tells_its_release(folder: str, release: str | None, device: str | None) -> None:
    log = f'Traceback (most recent call last):\n  File "/opt/venv/{folder}/vllm/v1/engine/core.py", line 1, in f\n    g()\nValueError: x\n'
    facts = diagnose(log.encode()).facts
    assert (facts.get("vllm_version"), facts.get("device")) == (release, device)


@pytest.mark.parametrize(("prefix", "engine"), [
    ("INFO 04-01 14:56:17 [kv_cache_utils.py:578] ", "V1"), ("INFO 02-01 14:56:17 kv_cache_utils.py:395] ", "V1"),
    ("INFO 04-01 14:56:17 [cache.py:578] ", None), ("", None),
])
def test_the_file_that_prints_a_fact_tells_the_engine(prefix: str, engine: str | None) -> None:
    diagnosis = Diagnosis()
    diagnosis.feed(f"{prefix}Using max model len 8192\n".encode())
    diagnosis.finish()
    facts = diagnosis.runs[-1].facts
    assert facts.get("max_model_len") is not None
    assert facts.get("engine") == engine
