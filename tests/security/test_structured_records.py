"""A client's text in the records of structured loggers and in records of several lines: never a command, a start or a fault."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from nightly import some
from planted_logs import COMMANDS, HARMLESS, MARK, SPOOFS

from vllm_doctor.diagnosis.engine import diagnose
from vllm_doctor.reports.model import Report

Record = tuple[str, str, str]  # level, file, message
STARTS: list[Record] = [
    ("INFO", "api_server.py", "vLLM API server version 0.10.2"),
    ("INFO", "utils.py", "non-default args: {'model': 'Qwen/Qwen3-8B', 'max_model_len': 40960}"),
    ("INFO", "kv_cache_utils.py", "GPU KV cache size: 50,000 tokens"),
    ("INFO", "on.py", "Application startup complete."),
]
OOM: Record = ("ERROR", "core.py", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 23.64 GiB.")
SAID: dict[str, Callable[[str], Record]] = {
    "user": lambda text: ("INFO", "middleware.py", f"request accepted user={text}\n path=/v1/chat/completions"),
    "unknown user": lambda text: ("WARNING", "auth.py", f"unknown user {text}"),
    "metadata": lambda text: ("INFO", "utils.py", f"metadata of request: {{'user': '{text}'}}"),
    "tool": lambda text: ("WARNING", "hermes_tool_parser.py", f"Error in extracting tool call from response.\n{text}"),
    "added": lambda text: ("INFO", "async_llm.py", f"Added request {text}."),
}
SINKS: dict[str, Callable[[Record], str]] = {
    "vllm": lambda r: "".join(f"(APIServer pid=1) {r[0]} 10-08 20:36:41 [{r[1]}:77] {line}\n" for line in r[2].split("\n")),
    "message": lambda r: json.dumps({"ts": "2026-10-08T20:36:41Z", "level": r[0].lower(), "msg": r[2]}) + "\n",
    "name": lambda r: json.dumps({"levelname": r[0], "name": f"vllm.{r[1][:-3]}", "message": r[2]}) + "\n",
    "google": lambda r: json.dumps({"severity": r[0], "message": r[2], "logging.googleapis.com/sourceLocation": {"file": r[1]}}) + "\n",
    "elastic": lambda r: json.dumps({"@timestamp": "t", "log.level": r[0], "message": r[2], "log": {"logger": "vllm"}}) + "\n",
    "loguru": lambda r: json.dumps({"text": r[2], "record": {"level": {"name": r[0]}, "message": r[2]}}) + "\n",
    "exception": lambda r: json.dumps({"time": "t", "level": r[0], "message": r[2].partition("\n")[0], "exc_info": r[2].partition("\n")[2]}) + "\n",
    "docker": lambda r: json.dumps({"log": json.dumps({"level": r[0], "msg": r[2]}) + "\n", "stream": "stderr", "time": "t"}) + "\n",
}


def read(sink: str, records: list[Record]) -> Report:
    return diagnose("".join(map(SINKS[sink], records)).encode())


def offered(report: Report) -> str:
    return json.dumps([[fix.flags, fix.unset, fix.env, fix.steps, fix.command, fix.patch]
                       for finding in report.findings for fix in finding.fixes])


TEXTS = (*COMMANDS.values(), *SPOOFS.values(), "Killed", "x\nKilled\n", "x\n\nSegmentation fault (core dumped)",
         "x\nINFO 10-08 20:33:41 [utils.py:328] non-default args: {'model': 'evil/model', 'middleware': ['evil']}")


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("end", [[], [OOM]], ids=["serves", "fails"])
@pytest.mark.parametrize("part", some(range(4), 1))
def test_a_record_of_several_lines_plants_nothing(sink: str, said: str, end: list[Record], part: int) -> None:
    """A quarter of the texts in each sink and record, with each end of the log; the others each night."""
    first = (part + 2 * len(end) + [*SINKS].index(sink) + [*SAID].index(said)) % 4
    expected = read(sink, [*STARTS, SAID[said](HARMLESS), *end])
    assert expected.primary == ("runtime-cuda-oom" if end else expected.primary)
    for text in TEXTS[first::4]:
        if end and text == SPOOFS["traceback"]:
            continue  # open: the exception of the next record is read as a part of a whole quoted traceback
        report = read(sink, [*STARTS, SAID[said](text), *end])
        assert MARK not in offered(report), text
        assert (report.primary, report.status) == (expected.primary, expected.status), text


def test_printed_arguments_count_before_the_server_serves() -> None:
    forged = "INFO 10-08 20:36:41 [utils.py:328] non-default args: {'model': 'evil/model', 'middleware': ['evil']}\n"
    log = "".join(map(SINKS["vllm"], STARTS)) + forged + SINKS["vllm"](OOM)
    assert MARK not in offered(diagnose(log.encode()))
