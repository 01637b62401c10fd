"""Signatures: what keeps failures apart, and what does not."""

from __future__ import annotations

import pytest

from vllm_doctor.failures.model import Frame
from vllm_doctor.failures.signature import signature

LIB = "/opt/venv/lib/python3.12/site-packages/"
LOADS = Frame(LIB + "vllm/lora/peft_helper.py", 9, "from_local_dir", "with open(path) as f:")
READS = Frame(LIB + "vllm/utils/argparse_utils.py", 9, "load_config_file", "with open(path) as f:")
ALLOCATES = Frame(LIB + "torch/utils/_device.py", 104, "__torch_function__", "return func(*args, **kwargs)")
RAISES = Frame(LIB + "vllm/config.py", 4, "verify", 'raise ValueError(f"too long: {length}")')
MISSING = "[Errno 2] No such file or directory: '/models/a/b.json'"
LONG = "max_model_len (8192) is greater than the derived max_model_len (4096)"
ENVELOPE = ("1 validation error for ModelConfig\n  Value error, {} [type=value_error, input_value=ArgsKwargs((), {{{}}}), input_type=ArgsKwargs]\n"
            "    For further information visit https://errors.pydantic.dev/2.{}/v/value_error")


def test_a_message_of_the_operating_system_is_told_apart_by_the_place_in_vllm() -> None:
    assert signature("FileNotFoundError", MISSING, [READS]) != signature("FileNotFoundError", MISSING, [LOADS])
    assert signature("OutOfMemoryError", "CUDA out of memory here", [LOADS, ALLOCATES]) != signature(
        "OutOfMemoryError", "CUDA out of memory here", [READS, ALLOCATES])


@pytest.mark.parametrize("calls", [[], [RAISES], [LOADS, RAISES], [RAISES._replace(code="")]])
def test_a_message_that_vllm_words_needs_no_place(calls: list[Frame]) -> None:
    assert signature("ValueError", LONG, calls) == signature("ValueError", LONG, [])


def test_the_folders_of_the_place_do_not_count() -> None:
    moved = Frame("/srv/env/lib/python3.10/site-packages/vllm/engine/lora/peft_helper.py", 70, "from_local_dir", "with open(p) as f:")
    assert signature("FileNotFoundError", MISSING, [moved]) == signature("FileNotFoundError", MISSING, [LOADS])


@pytest.mark.parametrize(("one", "other"), [
    ("[Errno 2] the call failed", "[Errno 13] the call failed"),
    ("Engine core failed to start: {}", "Engine core failed to start: {'EngineCore_DP0': -9}"),
    ("the process ended with exit code 1", "the process ended with exit code 137"),
])
def test_codes_keep_failures_apart(one: str, other: str) -> None:
    assert signature("RuntimeError", one, []) != signature("RuntimeError", other, [])


def test_what_pydantic_writes_around_a_message_does_not_count() -> None:
    assert signature("ValidationError", ENVELOPE.format(LONG, "'model': 'a'", 11), []) == signature(
        "ValidationError", ENVELOPE.format(LONG, "'task': 'b', 'seed': 0", 12), [])


@pytest.mark.parametrize(("one", "other"), [
    ("[Errno 2] No such file or directory: '/models/a/config.json'", "[Errno 2] No such file or directory: '/models/a/adapter_config.json'"),
    ("[Errno 2] No such file or directory: '/models/a/config.json'", "[Errno 2] No such file or directory: '/tmp/x1/red_fused_0.cubin'"),
    ("/bin/sh: 1: /usr/local/cuda/bin/nvcc: not found", "/bin/sh: 1: /usr/bin/ninja: not found"),
    ("404 Not Found", "/bin/sh: 1: not found"),
    ("'NoneType' object has no attribute 'cquantize_fp16_nf4'", "'NoneType' object has no attribute 'use_mxfp4_w4a16'"),
])
def test_what_all_users_name_alike_keeps_failures_apart(one: str, other: str) -> None:
    assert signature("OSError", one, []) != signature("OSError", other, [])


@pytest.mark.parametrize(("one", "other"), [
    ("[Errno 2] No such file or directory: '/models/a/config.json'", "[Errno 2] No such file or directory: '/mnt/b7/c/config.json'"),
    ("cannot open /models/llama/q4.gguf", "cannot open /srv/x/mistral.gguf"),
    ("/usr/local/cuda-12.9/bin/nvcc: not found", "/opt/cuda/bin/nvcc: not found"),
    ("The model `mistral` does not exist.", "The model `qwen-large` does not exist."),
    ("The repository m_remote contains custom code", "The repository falcon contains custom code"),
    ("The repository m_remote contains custom code", "The repository /models/falcon contains custom code"),
    ("has model type `gemma` but", "has model type `glm5_moe` but"),
    ("lost host trn-west-3 at start", "lost host atlas_b at start"),
    ("[node7:7053 :0] iface failed", "[atlas:60111 :0] iface failed"),
])
def test_what_a_user_names_does_not_count(one: str, other: str) -> None:
    assert signature("ValueError", one, []) == signature("ValueError", other, [])


def test_an_assertion_without_words_is_told_by_its_source_line() -> None:
    asserts = Frame(LIB + "vllm/v1/engine/output_processor.py", 9, "process_outputs", "assert req_state.detokenizer is not None")
    other = asserts._replace(line=70, code="assert len(new_token_ids) == 1")
    assert signature("AssertionError", "", [asserts]) != signature("AssertionError", "", [other])
    assert signature("AssertionError", "", [asserts]) == signature("AssertionError", "", [asserts._replace(line=70)])
