"""Finding the command in a log."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_doctor.command import CommandFinder
from vllm_doctor.command.change_flags import change
from vllm_doctor.command.render import render

NOTEBOOK = """KeyError   Traceback (most recent call last)
---> 43 llm = LLM(
     44     model="m",
     45     dtype="float16",
     46 )

File ~/env/lib/python3.9/site-packages/vllm/entrypoints/llm.py:123, in LLM.__init__(self, model)
    103 engine_args = EngineArgs(
    104     model=model,
    122 )
--> 123 self.llm_engine = LLMEngine.from_engine_args(
"""
START = "INFO 05-06 10:00:01 [api_server.py:1043] vLLM API server version 0.8.5"


def fed(text: str) -> CommandFinder:
    finder = CommandFinder()
    for number, line in enumerate(text.splitlines(), 1):
        finder.feed(number, line)
    finder.finish()
    return finder


def rendered(text: str) -> str | None:
    found = fed(text).command
    return render(found) if found is not None else None


@pytest.mark.parametrize("indent", [0, 2, 4])
def test_a_list_in_brackets_may_be_indented_anyhow(indent: int) -> None:
    items = ('"--model", "a/b",', '"--max-model-len=4096",', '"--quantization", "fp8"')
    lines = ["- name: vllm", "  image: vllm/vllm-openai:v0.9.1", "  args: [", *(" " * indent + item for item in items), "  ]", START]
    found = fed("\n".join(lines)).command
    assert found is not None
    assert [option.flag.text for option in found.options if option.flag] == ["--model", "--max-model-len", "--quantization"]


@pytest.mark.parametrize(
    ("log", "line", "command"),
    [
        (f"hello\n$ vllm serve m --port 1\n{START}", 2, "vllm serve m --port 1"),
        (f"$ vllm serve m \\\n>   --port 1 \\\n> --dtype half\n{START}", 1, "vllm serve m --port 1 --dtype half"),
        (f"$ docker run --gpus all \\\n   vllm/vllm-openai:latest \\\n   --model m\n{START}", 1, "docker run --gpus all vllm/vllm-openai:latest --model m"),
        (f"#!/bin/bash\nexec vllm serve /m \\\n  --port 1 \\\n\n{START}", 2, "exec vllm serve /m --port 1"),
        (f"$ vllm serve m\n  --port 1\n  --dtype half\n{START}", 1, "vllm serve m --port 1 --dtype half"),
        ('$ vllm serve m --hf-overrides \'{\n  "a": 1\n}\' --port 1\nINFO x', 1, 'vllm serve m --hf-overrides \'{\n  "a": 1\n}\' --port 1'),
        (f"$ vllm serve m --dtype 'half\n{START}", 1, "vllm serve m --dtype half"),
        (f"PS C:\\> docker run `\n  vllm/vllm-openai:v0.9.0 `\n  --model m\n{START}", 1, "docker run vllm/vllm-openai:v0.9.0 --model m"),
        ("x - ERROR - Failed to run the vLLM server: Command '['/x/vllm', 'serve', '/m', '--port', '1']' returned 2.", 1, "/x/vllm serve /m --port 1"),
        ("$ cat compose.yaml\nservices:\n  a:\n    image: vllm/vllm-openai:v0.9.0\n    command:\n      - --model\n      - m\n$ docker compose up", 4, "command:\n  - --model\n  - m"),
        ("    Image:  vllm/vllm-openai\n    Args:\n      --model\n      m\n    State:  Running\nINFO 1", 1, "args:\n  - --model\n  - m"),
        ("spec:\n  - name: a\n    command: [/bin/sh, -c]\n    args:\n    - |\n      vllm serve org/m \\\n        --port 1\nINFO 1", 3, "args:\n  - 'vllm serve org/m --port 1'"),
        ('Traceback (most recent call last):\n  File "/home/u/run.py", line 3, in <module>\n    llm = LLM(model="m", seed=1)\n', 3, 'llm = LLM(model="m", seed=1)'),
        ('>>> llm = LLM(\n...     "m",\n', 0, None),
        ("I ran `vllm serve m --port 1` and saw `this`:\nINFO x", 1, "vllm serve m --port 1"),
        ("Steps:\n1. vllm serve m --port 1\n2. wait", 2, "vllm serve m --port 1"),
        ("- docker run vllm/vllm-openai:latest --model m\nINFO x", 1, "docker run vllm/vllm-openai:latest --model m"),
        (NOTEBOOK, 2, 'llm = LLM(\n    model="m",\n    dtype="float16",\n)'),
        ("[rank0]:     self.llm = LLM(model='m')", 1, "self.llm = LLM(model='m')"),
    ],
)  # fmt: skip
def test_finds_a_command(log: str, line: int, command: str | None) -> None:
    finder = fed(log)
    if command is None:
        assert finder.command is None
        return
    assert finder.command is not None
    assert render(finder.command) == command
    assert finder.line == line


@pytest.mark.parametrize(
    "log",
    [
        '  File "/x/site-packages/vllm/entrypoints/llm.py", line 3, in f\n    self.llm = LLM(model="m")',
        "INFO 05-06 10:00:01 [x.py:1] Use LLM(model='m', task='embed') instead.",
        "usage: vllm serve [model_tag] [options]\nvllm serve: error: unrecognized arguments: --x",
        "command: something\nargs: none\nenv: x",
        "INFO 05-06 10:00:01 [api_server.py:1] args: Namespace(model='m')",
        "pip install vllm \\\n  --upgrade",
        "All of them: `vllm serve --help=all`",
        "user@host:~$ python3 -m vllm.entrypoints.openai.api_server --help",
        "It is replaced by `vllm serve <model> --port 1`",
    ],
)
def test_finds_nothing(log: str) -> None:
    assert rendered(log) is None


@pytest.mark.parametrize("log", [
    '"args": [\n  "--model", "org/m",\n  "--tensor-parallel-size", "2"\n]',
    "'args': ['--model', 'org/m', '--tensor-parallel-size', '2']",
])
def test_a_quoted_key_opens_a_document(log: str) -> None:
    found = fed(log)
    assert (found.command.form, found.line) == ("kubernetes", 1)


def test_the_last_command_before_a_start_is_its_command() -> None:
    finder = fed(f"$ vllm serve a\nvllm serve: error: x\n$ vllm serve b\n{START}\nERROR x")
    assert finder.command is not None
    assert finder.command.model == "b"


def test_a_command_typed_after_a_start_is_the_next_starts() -> None:
    finder = CommandFinder()
    log = ["$ vllm serve a", START, "ERROR failed", "$ vllm serve b --port 1", START, "ERROR again", START]
    seen = []
    for number, line in enumerate(log, 1):
        finder.feed(number, line)
        if line == START:
            finder.start_run()
        if not line.startswith("$"):
            assert finder.command is not None
            seen.append(finder.command.model)
    assert seen == ["a", "a", "b", "b", "b"]


@pytest.mark.parametrize("line", [
    "RuntimeError: Command '['vllm', 'serve', 'm']' failed", "$ vllm serve m --port 1", "INFO x: vllm serve m --port 1", "vllm serve m --port 1",
    "command: [vllm, serve, m]", "--model m --max-model-len 9", 'llm = LLM(model="m")',
])
def test_a_command_first_seen_after_the_start_is_not_its_command(line: str) -> None:
    assert fed(f"{START}\nERROR x\n{line}\nERROR y").command is None


def test_a_call_in_a_traceback_does_not_replace_the_typed_command() -> None:
    assert rendered("$ vllm serve m --port 1\n    llm = LLM(model='x')") == "vllm serve m --port 1"


@pytest.mark.parametrize(
    ("log", "flags"),
    [
        ("--tensor-parallel-size 4 \\\n--max-model-len 4096 \\\n```\nIt fails.", "--tensor-parallel-size 4 --max-model-len 4096"),
        ("--dtype half\n--max-num-seqs 1 --max-model-len 16\n\nERROR", "--dtype half --max-num-seqs 1 --max-model-len 16"),
        ("--max-model-len 16 is too small, --max-num-seqs 2 too", None),
        ("--max-model-len 16 was refused", None),
        ("--max-model-len 16\n--no-such-flag 4 --max-num-seqs 2", None),
        ("--max-model-len 16", None),
    ],
)
def test_flags_pasted_without_the_program(log: str, flags: str | None) -> None:
    assert " ".join((rendered(log) or "").replace("\\\n", " ").split()) == (flags or "")


def test_flags_by_themselves_are_less_than_a_command() -> None:
    flags = "--max-model-len 16 --max-num-seqs 2"
    assert rendered(f"vllm serve a/m\n\n{flags}\n") == "vllm serve a/m"
    assert rendered(f"{flags}\n\nvllm serve a/m\n") == "vllm serve a/m"


def test_exports_belong_to_the_environment() -> None:
    finder = fed("$ export VLLM_USE_V1=0\nexport A='b c'\n$ A=2 vllm serve m")
    assert finder.command is not None
    assert dict(finder.command.environment) == {"VLLM_USE_V1": "0", "A": "2"}
    assert render(finder.command) == "A=2 vllm serve m"


lines = st.sampled_from([
    "$ vllm serve m --port 1 \\", "  --dtype 'half", "image: vllm/vllm-openai", "args:", "- --model", "- m", START,
    "    llm = LLM(", "model='m'", ")", "Args:", "  --model", "INFO x", "}'", "", "export A=1", "bash -c 'vllm serve m",
])  # fmt: skip


@given(st.lists(lines | st.text(max_size=20), max_size=30))
def test_any_sequence_of_lines_is_read(log: list[str]) -> None:
    finder = CommandFinder()
    for number, line in enumerate(log, 1):
        finder.feed(number, line)
        if number % 7 == 0:
            finder.start_run()
    finder.finish()
    if finder.command is not None:
        render(change(finder.command, {"--port": "9"}))


@pytest.mark.parametrize(
    "unit",
    ["$ vllm serve m --x 'y", "command: vllm --model", "    llm = LLM(a,", "vllm serve m \\", "(APIServer pid=1) INFO 11-20 09:12:05 [x.py:1] vllm x"],
)  # fmt: skip
def test_long_logs_are_read_in_linear_time_and_bounded_memory(unit: str) -> None:
    start = time.process_time()
    finder = CommandFinder()
    for number in range(1, 20_001):
        finder.feed(number, unit)
    assert time.process_time() - start < 10


@pytest.mark.parametrize(("path", "found"), [("/home/me/serve.py", True), ("/opt/venv/lib/python3.11/site-packages/vllm/x.py", False)])
def test_a_call_that_is_passed_by_tells_whose_code_follows(path: str, found: bool) -> None:
    for hear in (CommandFinder.record_call, lambda finder, text: finder.feed(1, text)):
        finder = CommandFinder()
        hear(finder, f'  File "{path}", line 7, in main')
        finder.feed(2, "    llm = LLM(model='m', max_model_len=64)")
        assert (finder.command is not None) is found
