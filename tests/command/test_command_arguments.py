"""Putting a command together from the arguments vLLM prints."""

from __future__ import annotations

import pytest

from vllm_doctor.command.arguments import call_from_arguments, from_arguments
from vllm_doctor.command.change_flags import change
from vllm_doctor.command.known_parts import rebuild
from vllm_doctor.command.render import render
from vllm_doctor.facts.python_literals import Repr, read_value


def rendered(text: str, version: str | None, *, non_default_only: bool) -> str:
    value = read_value(text).value
    arguments = value.as_dict() if isinstance(value, Repr) else value
    assert isinstance(arguments, dict)
    return render(from_arguments(arguments, version, non_default_only=non_default_only))


@pytest.mark.parametrize(
    ("text", "version", "command"),
    [
        ("{'model_tag': 'org/m', 'model': 'org/m', 'max_model_len': 8192}", "0.11.0", "vllm serve org/m --max-model-len 8192"),
        ("{'model': 'org/m', 'port': 1, 'brand_new_flag': 'x'}", "0.33.0", "vllm serve org/m --port 1 --brand-new-flag x"),
        ("{'model': 'm', 'enforce_eager': True, 'enable_prefix_caching': False}", "0.9.0", "vllm serve m --enforce-eager --no-enable-prefix-caching"),
        ("{'model': 'm', 'enable_prefix_caching': False}", "0.7.0", "vllm serve m --no-enable-prefix-caching"),
        ("{'model': 'm', 'enable_chunked_prefill': False}", "0.7.0", "vllm serve m --enable-chunked-prefill=False"),
        ("{'model': 'm', 'enable_prefix_caching': False}", "0.6.5", "vllm serve m --no-enable-prefix-caching"),
        ("{'model': 'm', 'disable_chunked_mm_input': False}", "0.8.4", "vllm serve m --disable-chunked-mm-input=False"),
        ("{'model': 'm', 'enforce_eager': False}", "0.8.5", "vllm serve m"),
        ("{'model': 'm', 'of_a_later_release': False}", "0.33.0", "vllm serve m --no-of-a-later-release"),
        ("{'model': 'm', 'limit_mm_per_prompt': {'image': 3, 'video': 1}}", "0.6.4", "vllm serve m --limit-mm-per-prompt image=3,video=1"),
        ("{'model': 'm', 'compilation_config': {'level': 3, 'cudagraph_mode': <CUDAGraphMode.FULL_DECODE_ONLY: (2, 0)>}}", "0.11.0",
         "vllm serve m --compilation-config '{\"level\":3,\"cudagraph_mode\":\"FULL_DECODE_ONLY\"}'"),
        ("{'model': 'm', 'use_v2_block_manager': False}", "0.7.0", "vllm serve m"),
        ("{'model': 'm', 'limit_mm_per_prompt': {'video': 0}}", "0.11.0", "vllm serve m --limit-mm-per-prompt '{\"video\":0}'"),
        ("{'model': 'm', 'allowed_origins': ['a', 'b c']}", "0.11.0", "vllm serve m --allowed-origins '[\"a\",\"b c\"]'"),
        ("{'model': 'm', 'served_model_name': ['a', 'b c']}", "0.11.0", "vllm serve m --served-model-name a 'b c'"),
        ("{'model': 'm', 'served_model_name': ['m']}", "0.11.0", "vllm serve m"),
        ("{'model': 'm', 'lora_modules': [LoRAModulePath(name='s', path='/p', base_model_name=None)]}", "0.11.0", "vllm serve m --lora-modules s=/p"),
        (("{'model': 'm', 'kv_transfer_config': KVTransferConfig(kv_connector='NixlConnector', engine_id='e1380728-c210-43d7-8015-33efc66d9a31', "
         "kv_buffer_device='cpu', kv_buffer_size=1000000000.0, kv_role='kv_both', kv_rank=None, kv_parallel_size=2, kv_ip='127.0.0.1', "
         "kv_port=14579, kv_connector_extra_config={}, enable_permute_local_kv=False)}"), "0.16.0",
         "vllm serve m --kv-transfer-config '{\"kv_connector\":\"NixlConnector\",\"kv_buffer_device\":\"cpu\",\"kv_role\":\"kv_both\",\"kv_parallel_size\":2}'"),
        ("{'model': 'm', 'kv_transfer_config': KVTransferConfig(engine_id='prefill-1')}", "0.16.0", "vllm serve m --kv-transfer-config '{\"engine_id\":\"prefill-1\"}'"),
        ("{'model': 'm', 'eplb_config': EPLBConfig(window_size=1000, step_interval=3000, log_balancedness=True)}", "0.16.0",
         "vllm serve m --eplb-config '{\"log_balancedness\":true}'"),
        ("{'model': 'm', 'compilation_config': CompilationConfig(mode=<CompilationMode.NONE: 0>, ops=[], cache_dir=None)}", "0.12.0", "vllm serve m --compilation-config '{\"mode\":0}'"),
        ("{'model': 'm', 'gpu_memory_utilization': 1.0, 'max_model_len': -1}", "0.16.0", "vllm serve m --gpu-memory-utilization 1 --max-model-len -1"),
        ("{'model': 'm', 'api_server_count': 1, 'port': 1}", "0.16.0", "vllm serve m --port 1"),
        ("{'model': 'm', 'api_server_count': 2, 'data_parallel_size': 2}", "0.25.1", "vllm serve m --data-parallel-size 2"),
        ("{'model': 'm', 'api_server_count': 2, 'data_parallel_size': 2}", "0.11.0", "vllm serve m --api-server-count 2 --data-parallel-size 2"),
        ("{'model': 'm', 'api_server_count': 1, 'data_parallel_size': 2}", "0.25.1", "vllm serve m --api-server-count 1 --data-parallel-size 2"),
        ("{'model': 'm', 'api_server_count': 1, 'data_parallel_size': 2, 'data_parallel_rank': 1}", "0.25.1", "vllm serve m --data-parallel-size 2 --data-parallel-rank 1"),
        ("{'model': 'm', 'api_server_count': 0, 'headless': True}", "0.25.1", "vllm serve m --headless"),
        ("{'model': 'm', 'api_server_count': 0}", "0.25.1", "vllm serve m --api-server-count 0"),
        ("{'model': 'm m'}", "0.1.dev1+g00", "vllm serve 'm m'"),
        ("{'port': 1}", "0.11.0", "vllm serve --port 1"),
        ("{'model': 'm', 'port': 1}", "0.5.3", "python -m vllm.entrypoints.openai.api_server --model m --port 1"),
    ],
)  # fmt: skip
def test_from_non_default_arguments(text: str, version: str, command: str) -> None:
    assert rendered(text, version, non_default_only=True) == command


NAMESPACE = (
    "Namespace(subparser='serve', model_tag='org/m', config='', host=None, port=8000, allowed_origins=['*'], "
    "api_key=None, model='org/m', dtype='auto', config_format=<ConfigFormat.AUTO: 'auto'>, max_model_len=4096, "
    "tensor_parallel_size=2, swap_space=4.0, max_num_seqs=256, gpu_memory_utilization=0.9, enforce_eager=False, "
    "trust_remote_code=True, use_v2_block_manager=True, enable_prefix_caching=None, served_model_name=None, "
    "unknown_to_the_table='x', dispatch_function=<function serve at 0x7f00>)"
)


def test_from_a_namespace_the_defaults_are_left_out() -> None:
    expected = "vllm serve org/m --max-model-len 4096 --tensor-parallel-size 2 --trust-remote-code"
    assert rendered(NAMESPACE, "0.6.3", non_default_only=False) == expected
    assert rendered(NAMESPACE, None, non_default_only=False) == expected


def test_the_module_form_where_serve_may_not_be_there() -> None:
    text = "Namespace(host=None, port=1, model='m', enforce_eager=True)"
    module = "python -m vllm.entrypoints.openai.api_server --model m --port 1 --enforce-eager"
    assert rendered(text, "0.4.2", non_default_only=False) == module
    assert rendered(text, None, non_default_only=False) == module
    assert rendered(text, "0.5.3.post1", non_default_only=False) == "vllm serve m --port 1 --enforce-eager"


def test_a_command_made_of_arguments_can_be_changed() -> None:
    found = from_arguments({"model": "m"}, "0.9.0", non_default_only=True)
    assert found.model == "m"
    assert render(change(found, {"--port": "1"})) == "vllm serve m --port 1"


@pytest.mark.parametrize(("callee", "printed", "call"), [
    ("LLM", "{'max_model_len': 64, 'disable_log_stats': True, 'model': '/models/m'}", "LLM(model='/models/m', max_model_len=64)"),
    ("AsyncEngineArgs", "{'disable_log_stats': True, 'model': 'm'}", "AsyncEngineArgs(model='m', disable_log_stats=True)"),
    ("LLM", "{'compilation_config': CompilationConfig(level=3, cudagraph_capture_sizes=[1, 2])}",
     "LLM(compilation_config={'level': 3, 'cudagraph_capture_sizes': [1, 2]})"),
    ("LLM", """{'model': "m'); import os; os.system('id')  # ", 'a b': 1}""", """LLM(model="m'); import os; os.system('id')  # ")"""),
])
def test_a_script_gets_a_python_call(callee: str, printed: str, call: str) -> None:
    command = call_from_arguments(callee, read_value(printed).value, "0.20.2")
    assert render(rebuild(command)[0]) == call


def test_a_script_without_settings_gets_no_call() -> None:
    assert call_from_arguments("LLM", {}, None) is None
