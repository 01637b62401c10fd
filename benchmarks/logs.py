#!/usr/bin/env python3
"""Generate the logs for the benchmarks, reproducibly.

usage: logs.py KIND SIZE

A log is a real start (a fixture), a body of serving and the end of a server that failed. By messages the body is 90 %
access lines, 3 % statistics, 6 % requests and the like, 1 % what a rule may look at, of which a tenth are tracebacks. It
repeats after `_BLOCK` bytes.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from vllm_doctor.rulebase.loader import load
from vllm_doctor.rulebase.model import Pattern

MB = 10**6
_BLOCK = 32 * MB
_START = Path(__file__).resolve().parent.parent / "fixtures" / "logs" / "healthy" / "tiny-load.log"
_END = """\
(EngineCore pid=8696) ERROR 11-20 18:40:07 [core.py:1108] EngineCore encountered a fatal error.
(EngineCore pid=8696) ERROR 11-20 18:40:07 [core.py:1108] Traceback (most recent call last):
(EngineCore pid=8696) ERROR 11-20 18:40:07 [core.py:1108]   File "/opt/venv/lib/python3.11/site-packages/vllm/v1/engine/core.py", line 1099, in run_engine_core
(EngineCore pid=8696) ERROR 11-20 18:40:07 [core.py:1108]     engine_core.run_busy_loop()
(EngineCore pid=8696) ERROR 11-20 18:40:07 [core.py:1108] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.05 GiB is free. Process 19 has 78.09 GiB memory in use. Of the allocated memory 76.20 GiB is allocated by PyTorch, and 612.01 MiB is reserved by PyTorch but unallocated.
"""
_PROMPTS = ("Summarise the following article in three sentences: ", "Translate to French: ", "Write a function that ",
            "Why does my server say 'CUDA out of memory'? ", "You are a helpful assistant. ")
_OTHER = (
    "[async_llm.py:261] Added request chatcmpl-{id}.",
    ("[logger.py:43] Received request chatcmpl-{id}: prompt: '{prompt}', params: SamplingParams(n=1, presence_penalty=0.0, "
     "frequency_penalty=0.0, temperature=0.7, top_p=0.95, top_k=-1, seed=None, stop=[], max_tokens={number}, logprobs=None, "
     "prompt_logprobs=None), prompt_token_ids: None, lora_request: None."),
    "[metrics.py:486] Finished request chatcmpl-{id}, {number} tokens in 3.2 s",
)
_CALLS = "".join(f'  File "/opt/venv/lib/python3.11/site-packages/starlette/{module}.py", line {line}, in __call__\n'
                 "    await self.app(scope, receive, send)\n"
                 for line, module in enumerate(("applications", "errors", "cors", "exceptions", "routing") * 4, 100))
_TRACEBACK = ("ERROR:    Exception in ASGI application\nTraceback (most recent call last):\n" + _CALLS +
              "ValueError: This model's maximum context length is 8192 tokens. However, you requested {number} tokens.")
_INTERESTING = (
    "INFO {time} [async_llm.py:348] Aborted request(s) chatcmpl-{id}.",
    ("WARNING {time} [scheduler.py:1526] Sequence group chatcmpl-{id} is preempted by PreemptionMode.RECOMPUTE mode because there is "
     "not enough KV cache space. This can affect the end-to-end performance. total_num_cumulative_preemption={number}"),
    "ERROR {time} [serving_chat.py:200] Error in preprocessing prompt inputs",
    "ERROR {time} [serving_chat.py:201] ValueError: This model's maximum context length is 8192 tokens. However, you requested {number} tokens.",
    "{traceback}",
    "WARNING {time} [protocol.py:71] The following fields were present in the request but ignored: {{'store'}}",
    "WARNING {time} [api_server.py:967] CUDA graphs were captured for {number} sizes only",
    "INFO {time} [chat_utils.py:434] Detected the chat template content format to be 'string'.",
    ("ERROR {time} [serving_chat.py:257] Error with model object='error' message='The model `gpt-{number}` does not exist.' "
     "type='NotFoundError' param=None code=404"),
    "WARNING {time} [interface.py:511] Sampling parameter min_p of request {id} is ignored",
)


def anchors() -> list[str]:
    """Return all anchors of the rules and facts."""
    return list(dict.fromkeys(pattern.anchor for pattern in _patterns()))


def _patterns() -> list[Pattern]:
    base = load()
    of_rules = [pattern for rule in base.rules.values() for pattern in (*rule.any, *rule.also, *rule.absent)]
    return [*(marker.pattern for marker in base.markers), *base.facts, *of_rules]


def _body_line(chance: random.Random, second: int, *, access: bool) -> str:
    time = f"11-20 {second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}"
    kind = chance.random() if access else 0.9 + chance.random() / 10
    if kind < 0.9:
        path = chance.choice(("/v1/chat/completions", "/v1/chat/completions", "/v1/completions", "/health", "/metrics"))
        return (f'(APIServer pid=8684) INFO:     10.0.{chance.randrange(256)}.{chance.randrange(256)}:{chance.randrange(1024, 65536)} '
                f'- "{"GET" if path in {"/health", "/metrics"} else "POST"} {path} HTTP/1.1" 200 OK')
    if kind < 0.93:
        return (f"(APIServer pid=8684) INFO {time} [loggers.py:280] Engine 000: Avg prompt throughput: {chance.uniform(0, 9000):.1f} tokens/s, "
                f"Avg generation throughput: {chance.uniform(0, 4000):.1f} tokens/s, Running: {chance.randrange(64)} reqs, "
                f"Waiting: 0 reqs, GPU KV cache usage: {chance.uniform(0, 80):.1f}%, Prefix cache hit rate: {chance.uniform(0, 60):.1f}%")
    values = {"id": f"{chance.getrandbits(128):032x}", "number": chance.randrange(1, 9000), "time": time,
              "prompt": chance.choice(_PROMPTS) + "lorem ipsum dolor sit amet " * chance.randrange(8)}
    if kind < 0.99:
        return f"(APIServer pid=8684) INFO {time} " + chance.choice(_OTHER).format(**values)
    values["traceback"] = _TRACEBACK.format(**values)
    return "(APIServer pid=8684) " + chance.choice(_INTERESTING).format(**values).replace("\n", "\n(APIServer pid=8684) ")


def _lines(size: int, *, access: bool) -> Iterator[str]:
    """Return lines with a total of about `size` bytes."""
    chance = random.Random(8100)  # noqa: S311 - the same log each time
    number = 0
    while size > 0:
        line = _body_line(chance, number // 400, access=access)
        yield line
        size -= len(line) + 1
        number += 1


Wrap = Callable[[str], str]


def _plain(line: str) -> str:
    return line


def _docker(line: str) -> str:
    return json.dumps({"log": line + "\n", "stream": "stdout", "time": "2025-11-20T11:42:48.123456789Z"}, separators=(",", ":"))


def _kubectl(line: str) -> str:
    return f"2025-11-20T11:42:48.123456789Z {line}"


def _compose(line: str) -> str:
    return f"vllm-1  | {line}"


def _journald(line: str) -> str:
    return f"Nov 20 11:42:48 gpu1 vllm[8684]: {line}"


def _coloured(line: str) -> str:
    """Return the process prefix with colors, as vLLM 0.10.2 to 0.12 writes it to files too."""
    return re.sub(r"^\(\w+ pid=\d+\)", "\x1b[1;36m\\g<0>\x1b[0;0m", line)


def _wrapped(lines: Iterable[str], wrap: Wrap) -> bytes:
    return "".join(wrap(line) + "\n" for message in lines for line in message.split("\n")).encode()


def log(size: int, *, wrap: Wrap = _plain, access: bool = True) -> Iterator[bytes]:
    """Yield a log of at least `size` bytes, in chunks."""
    start = _wrapped(_START.read_text(encoding="utf-8").partition("Application startup complete.")[0].splitlines(), wrap)
    start += _wrapped(["(APIServer pid=8684) INFO:     Application startup complete."], wrap)
    end = _wrapped(_END.splitlines(), wrap)
    size -= len(start) + len(end)
    yield start
    block = _wrapped(_lines(min(size, _BLOCK), access=access), wrap) if size > 0 else b""
    while size > 0:
        piece = block if size >= len(block) else block[:block.index(b"\n", size - 1) + 1]
        yield piece
        size -= len(piece)
    yield end


def tracebacks(size: int) -> Iterator[bytes]:
    """Yield a log in which every fiftieth request fails with a traceback."""
    start = _START.read_text(encoding="utf-8").partition("Application startup complete.")[0]
    yield f"{start}\n(APIServer pid=8684) INFO:     Application startup complete.\n".encode()
    chance = random.Random(8102)  # noqa: S311 - the same log each time
    answered = [line for line in _lines(MB, access=True) if line.endswith("200 OK")]
    while size > 0:
        piece = "".join(f"{line}\n" for line in chance.sample(answered, 50))
        piece += "".join(f"(APIServer pid=8684) {line}\n" for line in _TRACEBACK.format(number=chance.randrange(8193, 99999)).splitlines())
        yield piece.encode()
        size -= len(piece)


def restarts(size: int) -> Iterator[bytes]:
    """Yield the log of a server that restarts repeatedly; the last start fails."""
    start = _START.read_text(encoding="utf-8")
    for _ in range(-(-size // len(start))):
        yield start.encode()
    yield f"{start.partition('Application startup complete.')[0]}Application startup complete.\n{_END}".encode()


def fillers(size: int) -> Iterator[bytes]:
    """Yield a log mostly of lines that match neither a rule nor a healthy pattern."""
    start = _START.read_text(encoding="utf-8").partition("Application startup complete.")[0]
    yield f"{start}Application startup complete.\n".encode()
    chance = random.Random(8103)  # noqa: S311 - the same log each time
    answered = [line for line in _lines(MB, access=True) if line.endswith("200 OK")]
    number = 0
    while size > 0:
        number += 1
        piece = f"{chance.choice(answered)}\n" + "".join(
            f"(APIServer pid=8684) INFO 11-20 {number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02} [middleware.py:{line}] "
            f"step {number} of tenant {chance.randrange(90)} took {chance.random() * 90:.2f} ms\n" for line in range(31, 40))
        yield piece.encode()
        size -= len(piece)
    yield _END.encode()


def one_line(size: int) -> Iterator[bytes]:
    """Yield a single line without a line feed."""
    words = b"a quick brown fox jumps over the lazy dog 123456789 " * (MB // 50)
    for begin in range(0, size, MB):
        yield words[:min(MB, size - begin)]


def noise(size: int) -> Iterator[bytes]:
    """Yield random bytes."""
    chance = random.Random(8101)  # noqa: S311 - the same bytes each time
    for begin in range(0, size, MB):
        yield chance.randbytes(min(MB, size - begin))


def near_misses(count: int) -> Iterator[bytes]:
    """Yield `size` lines that contain an anchor but match no pattern."""
    patterns = _patterns()
    messages = [f"{anchor}, and nothing of what is expected" for anchor in anchors()]
    lines = [f"(EngineCore pid=8696) INFO 11-20 11:42:48 [core.py:1] {text}" for text in messages
             if not any(pattern.anchor in text and re.search(pattern.regex, text) for pattern in patterns)]
    all_once = "".join(line + "\n" for line in lines).encode()
    for _ in range(count // len(lines)):
        yield all_once
    yield "".join(line + "\n" for line in lines[:count % len(lines)]).encode()


_MAKERS: dict[str, Callable[[int], Iterator[bytes]]] = {
    "plain": log,
    "docker": lambda size: log(size, wrap=_docker),
    "kubectl": lambda size: log(size, wrap=_kubectl),
    "compose": lambda size: log(size, wrap=_compose),
    "journald": lambda size: log(size, wrap=_journald),
    "coloured": lambda size: log(size, wrap=_coloured),
    "no-access": lambda size: log(size, access=False),
    "tracebacks": tracebacks,
    "restarts": restarts,
    "fillers": fillers,
    "one-line": one_line,
    "noise": noise,
    "near-misses": near_misses,
    "anchors": lambda _: iter(["".join(anchor + "\n" for anchor in anchors()).encode()]),
}


if __name__ == "__main__":
    for piece in _MAKERS[sys.argv[1]](int(sys.argv[2])):
        sys.stdout.buffer.write(piece)
