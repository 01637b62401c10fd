"""Fixes in the settings of the program that runs vLLM."""

from __future__ import annotations

import pytest

from vllm_doctor import diagnose
from vllm_doctor.catalog.frontends import Frontend, frontends
from vllm_doctor.command.frontend_finder import FrontendFinder, Seen, parse_frontend
from vllm_doctor.command.frontend_settings import translate
from vllm_doctor.options import Options
from vllm_doctor.reports.model import Fix, Report

_SHORTER = {"--max-model-len": "4096"}
_SITE = "/opt/venv/lib/python3.10/site-packages"
_ERROR = ("ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored "
          "in KV cache (4512). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing "
          "the engine.")


def _log(*calls: tuple[str, str], head: str = "") -> bytes:
    """Return a log that ends in a traceback through these calls (path, function) into vLLM."""
    frames = [*calls, (f"{_SITE}/vllm/engine/async_llm_engine.py", "from_engine_args"),
              (f"{_SITE}/vllm/worker/worker.py", "raise_if_cache_size_invalid")]
    lines = [head] if head else []
    lines.append("Traceback (most recent call last):")
    for path, function in frames:
        lines += [f'  File "{path}", line 20, in {function}', "    return run()"]
    return "\n".join([*lines, _ERROR, ""]).encode()


def _shorten(report: Report) -> Fix:
    assert report.cause is not None
    return next(fix for fix in report.cause.fixes if fix.id == "shorten-context")


def _seen(name: str, release: str = "") -> Seen:
    return Seen(next(each for each in frontends() if each.id == name), release)


@pytest.mark.parametrize(("command", "corrected"), [
    ("$ swift deploy --model q --infer_backend vllm --max_model_len 32768",
     "swift deploy --model q --infer_backend vllm --max_model_len 4096"),
    ("swift rollout --model q --vllm_max_model_len 32768", "swift rollout --model q --vllm_max_model_len 4096"),
    ("API_PORT=8000 llamafactory-cli api --model_name_or_path q --infer_backend vllm",
     "llamafactory-cli api --model_name_or_path q --infer_backend vllm --vllm_maxlen 4096"),
    ("xinference launch --model-engine vLLM -n qwen -s 7 -f pytorch",
     "xinference launch --model-engine vLLM -n qwen -s 7 -f pytorch --max_model_len 4096"),
    ("python3 -m verl.trainer.main_ppo trainer.nnodes=1 actor_rollout_ref.rollout.max_model_len=9000",
     "python3 -m verl.trainer.main_ppo trainer.nnodes=1 actor_rollout_ref.rollout.max_model_len=4096"),
    ("python -m openrlhf.cli.train_ppo_ray --max_len 9000", "python -m openrlhf.cli.train_ppo_ray --max_len 4096"),
    ("python -m fastchat.serve.vllm_worker --model-path q",
     "python -m fastchat.serve.vllm_worker --model-path q --max-model-len 4096"),
    ("trl vllm-serve --model q", "trl vllm-serve --model q --max_model_len 4096"),
    ("python -m dynamo.vllm --model q", "python -m dynamo.vllm --model q --max-model-len 4096"),
    ("python api/server.py", None),
])
def test_a_typed_command_is_corrected_in_its_own_words(command: str, corrected: str | None) -> None:
    typed = parse_frontend(command)
    if corrected is None:  # nothing says that it is this program and not another one's api/server.py
        corrected = "CONTEXT_LEN=4096 python api/server.py"
    assert typed is not None
    assert translate(Seen(typed.frontend, "", typed.command), _SHORTER).command == corrected


@pytest.mark.parametrize("text", [
    "use swift deploy to start the server", "the llamafactory-cli api is slow", "swift deploy --help",
    "pip install xinference", "vllm serve q --max-model-len 4096",
])
def test_prose_and_other_commands_are_none_of_a_program(text: str) -> None:
    assert parse_frontend(text) is None


def test_a_command_is_rebuilt_without_what_else_its_line_does() -> None:
    typed = parse_frontend("$ cd /x && LD_PRELOAD=/tmp/a.so swift deploy --model q $(touch /tmp/y) | tee log; rm -rf /z")
    assert typed is not None
    assert translate(Seen(typed.frontend, "", typed.command), _SHORTER).command == (
        "swift deploy --model q --vllm_max_model_len 4096")


def test_the_variables_of_a_program_go_in_front_of_it() -> None:
    change = translate(_seen("api-for-open-llm"), {"--max-model-len": "4512", "--gpu-memory-utilization": "0.95"})
    assert change.command == "CONTEXT_LEN=4512 GPU_MEMORY_UTILIZATION=0.95 python server.py"


def test_a_setting_that_is_not_passed_on_is_named_with_the_way_that_remains() -> None:
    change = translate(_seen("api-for-open-llm"), {"--kv-cache-dtype": "fp8"})
    assert (change.missing, change.command) == (("--kv-cache-dtype",), None)
    assert " ".join(change.notes) == (
        "api-for-open-llm does not pass --kv-cache-dtype on: add it to `AsyncEngineArgs(…)` in api/models.py, or start "
        "vLLM's own server with it.")


@pytest.mark.parametrize(("release", "name"), [
    ("3.6.4", "--max_model_len"), ("3.7.0", "--vllm_max_model_len"), ("", "--vllm_max_model_len"),
])
def test_the_release_decides_the_name(release: str, name: str) -> None:
    assert translate(_seen("swift", release), _SHORTER).settings == ((name, "4096"),)


def test_the_names_in_the_command_imply_the_release_of_the_others() -> None:
    typed = parse_frontend("python -m openrlhf.cli.train_ppo_ray --vllm_gpu_memory_utilization 0.5")
    assert typed is not None
    assert translate(Seen(typed.frontend, "", typed.command), _SHORTER).command == (
        "python -m openrlhf.cli.train_ppo_ray --vllm_gpu_memory_utilization 0.5 --max_len 4096")


def test_other_settings_are_merged_into_the_users_json() -> None:
    typed = parse_frontend("""swift deploy --model q --vllm_engine_kwargs '{"seed": 1}'""")
    assert typed is not None
    assert translate(Seen(typed.frontend, "3.12.0", typed.command), {"--kv-cache-dtype": "fp8"}).command == (
        """swift deploy --model q --vllm_engine_kwargs '{"seed": 1, "kv_cache_dtype": "fp8"}'""")


@pytest.mark.parametrize(("name", "text"), [
    ("llama-factory", "vllm_maxlen: 4096"),
    ("ray-serve-llm", "llm_configs:\n  - engine_kwargs:\n      max_model_len: 4096"),
    ("kserve", 'spec:\n  predictor:\n    model:\n      args:\n        - "--max-model-len=4096"'),
    ("production-stack", "servingEngineSpec:\n  modelSpec:\n    - vllmConfig:\n        maxModelLen: 4096"),
    ("llm-d", 'decode:\n  containers:\n    - args:\n        - "--max-model-len=4096"'),
    ("trl", "GRPOConfig(vllm_max_model_length=4096)"),
    ("python", "LLM(max_model_len=4096)"),
])
def test_a_document_holds_the_keys(name: str, text: str) -> None:
    patch = translate(_seen(name), _SHORTER).patch
    assert patch is not None
    assert patch["text"] == text


@pytest.mark.parametrize(("name", "note"), [
    ("gpustack", "In GPUStack: --max-model-len=4096 (Edit Model, Advanced, Backend Parameters)."),
    ("nim", "In NVIDIA NIM: NIM_MAX_MODEL_LEN=4096 (the container's environment: `docker run -e NAME=VALUE …`)."),
    ("verl", "In verl: actor_rollout_ref.rollout.max_model_len=4096."),
])
def test_without_a_command_the_settings_are_named(name: str, note: str) -> None:
    change = translate(_seen(name), _SHORTER)
    assert (change.command, change.patch) == (None, None)
    assert note in change.notes


@pytest.mark.parametrize(("call", "program"), [
    (("/app/api/models.py", "create_vllm_engine"), "api-for-open-llm"),
    ((f"{_SITE}/xinference/model/llm/vllm/core.py", "load"), "Xinference"),
    (("/opt/FastChat/fastchat/serve/vllm_worker.py", "<module>"), "FastChat"),
    (("/app/src/llamafactory/chat/vllm_engine.py", "__init__"), "LLaMA-Factory"),
    ((f"{_SITE}/swift/llm/infer/infer_engine/vllm_engine.py", "__init__"), "ms-swift"),
    (("/huggingfaceserver/huggingfaceserver/vllm/vllm_model.py", "start_engine"), "KServe"),
    (("/data/verl/verl/workers/rollout/vllm_rollout/vllm_rollout_spmd.py", "__init__"), "verl"),
    ((f"{_SITE}/trl/trainer/grpo_trainer.py", "__init__"), "TRL"),
])
def test_the_traceback_shows_the_program(call: tuple[str, str], program: str) -> None:
    fix = _shorten(diagnose(_log(call)))
    assert fix.program is not None
    assert fix.program.program == program
    assert fix.flags == {"--max-model-len": "4512"}


def test_the_fix_of_api_for_open_llm_is_its_variable() -> None:
    assert _shorten(diagnose(_log(("/app/api/models.py", "create_vllm_engine")))).command == (
        "CONTEXT_LEN=4512 python server.py")


def test_an_environment_named_like_a_program_is_none() -> None:
    log = _log(head="$ vllm serve q").replace(b"/opt/venv/", b"/root/miniconda3/envs/verl/")
    assert _shorten(diagnose(log)).command == "vllm serve q --max-model-len 4512"


def test_a_command_of_vllms_own_is_what_the_user_typed() -> None:
    fix = _shorten(diagnose(_log((f"{_SITE}/trl/trainer/grpo_trainer.py", "__init__"), head="$ vllm serve q")))
    assert (fix.program, fix.command) == (None, "vllm serve q --max-model-len 4512")


def test_a_program_that_starts_vllm_by_a_command_keeps_its_settings() -> None:
    head = "2025-06-12T08:11:02+00:00 - gpustack.worker.backends.vllm - INFO - Starting vLLM server\n$ vllm serve q"
    fix = _shorten(diagnose(_log(head=head)))
    assert fix.program is not None
    assert fix.program.settings == {"--max-model-len": "4512"}
    assert fix.command is None


def test_a_prompt_shows_no_program() -> None:
    head = ("INFO 10-08 20:33:48 logger.py:39] Received request cmpl-1: prompt: '[INFO:swift] swift deploy --model x', "
            "params: SamplingParams(n=1), prompt_token_ids: [1]")
    assert _shorten(diagnose(_log(head=head))).program is None


def test_a_secret_in_the_command_is_masked() -> None:
    head = "$ swift deploy --model q --api_key sk-abcdefghijklmnopqrstuvwx1234"
    command = _shorten(diagnose(_log(head=head))).command
    assert command is not None
    assert "sk-abcdef" not in command


def test_the_command_may_be_given() -> None:
    options = Options(command="llamafactory-cli api --model_name_or_path q")
    assert _shorten(diagnose(_log(), options)).command == (
        "llamafactory-cli api --model_name_or_path q --vllm_maxlen 4512")


def test_a_command_of_several_lines_is_read() -> None:
    finder = FrontendFinder()
    for number, line in enumerate(["$ llamafactory-cli api --model_name_or_path q \\ ", "    --template qwen"], 1):
        finder.feed(number, line)
    assert finder.typed is not None
    assert finder.typed.command.to_shell() == "llamafactory-cli api --model_name_or_path q --template qwen"


@pytest.mark.parametrize("frontend", frontends(), ids=lambda each: each.id)
@pytest.mark.parametrize("release", ["", "0.0.1"])
def test_every_text_of_the_catalog_is_said_as_it_is(frontend: Frontend, release: str) -> None:
    wanted = dict.fromkeys((*frontend.absent, "--max-cudagraph-capture-size"), "1")
    change = translate(Seen(frontend, release), wanted, (), {"HF_HOME": "/x"})
    notes = " ".join(change.notes)
    assert all(reason in notes for reason in frontend.absent.values())
    assert "[" in frontend.variables or frontend.variables in notes
    assert frontend.otherwise in notes or "--max-cudagraph-capture-size" not in change.missing


def test_what_is_removed_has_the_name_of_the_release() -> None:
    assert translate(_seen("swift", "3.6.4"), {}, ["--max-num-seqs"]).shown == ()
    assert translate(_seen("swift", "3.6.4"), {}, ["--max-num-seqs"]).notes == (
        "Remove --max_num_seqs where ms-swift sets it.",)


def test_a_key_of_a_mapping_is_set_in_the_mapping() -> None:
    typed = parse_frontend("""xinference launch --model-engine vllm --compilation_config '{"mode": 3}'""")
    assert typed is not None
    keys = {"--compilation-config.cudagraph_mode": "NONE", "--compilation-config.cudagraph_num_of_warmups": "1",
            "--speculative-config.num_speculative_tokens": "3"}
    assert translate(Seen(typed.frontend, "", typed.command), keys).command == (
        "xinference launch --model-engine vllm "
        """--compilation_config '{"mode":3,"cudagraph_mode":"NONE","cudagraph_num_of_warmups":1}' """
        """--speculative_config '{"num_speculative_tokens":3}'""")
    patch = translate(_seen("python"), keys).patch
    assert patch is not None
    assert patch["text"] == (
        "LLM(compilation_config={'cudagraph_mode': 'NONE', 'cudagraph_num_of_warmups': 1}, "
        "speculative_config={'num_speculative_tokens': 3})")
