from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from read_events import read

from vllm_doctor.events.code_paths import shorten_path
from vllm_doctor.events.event import Event
from vllm_doctor.events.process_stream import MOST_PROCESSES
from vllm_doctor.events.reader import EventReader
from vllm_doctor.events.server_starts import RunCounter
from vllm_doctor.failures.frames import package_of
from vllm_doctor.logs.lines import Line


@pytest.mark.parametrize(("text", "level", "process", "rank", "message"), [
    ("INFO 10-08 20:33:48 llm_engine.py:72] Initializing", "INFO", "", None, "Initializing"),
    ("ERROR 05-06 10:00:01 [core.py:489] ValueError: x", "ERROR", "", None, "ValueError: x"),
    ("(EngineCore_DP0 pid=12) INFO 11-20 09:02:08 [gpu_worker.py:1] hi", "INFO", "EngineCore_DP0 pid=12", None, "hi"),
    ("(Worker_TP1 pid=7) ERROR 11-20 09:02:08 [x.py:1] boom", "ERROR", "Worker_TP1 pid=7", 1, "boom"),
    ("(Worker_TP1_EP1 pid=7) ERROR 11-20 09:02:08 [x.py:1] boom", "ERROR", "Worker_TP1_EP1 pid=7", 1, "boom"),
    ("(VllmWorker rank=3 pid=5) INFO 07-01 01:02:03 [x.py:1] m", "INFO", "VllmWorker rank=3 pid=5", 3, "m"),
    ("(VllmWorker TP1 pid=5) INFO 08-30 01:02:03 [x.py:1] m", "INFO", "VllmWorker TP1 pid=5", 1, "m"),
    ("(Worker_TP7_DCP1_EP7 pid=5) INFO 03-26 01:02:03 [x.py:1] m", "INFO", "Worker_TP7_DCP1_EP7 pid=5", 7, "m"),
    ("(EngineCore_0 pid=1) (VllmWorker rank=2 pid=5) INFO 07-01 01:02:03 [x.py:1] m", "INFO",
     "VllmWorker rank=2 pid=5", 2, "m"),
    ("(VllmWorkerProcess pid=1786) INFO 02-11 07:40:37 worker.py:267] m", "INFO", "VllmWorkerProcess pid=1786", 1, "m"),
    ("INFO:     Started server process [1]", "INFO", "", None, "Started server process [1]"),
    ("my-prefix INFO 11-20 09:02:08 [x.py:1] m", "INFO", "", None, "m"),
    ("INFO 2025-05-06 10:00:01 [x.py:1] m", "INFO", "", None, "m"),
    ("2024-12-19 21:40:35 ERROR 56542 [engine.py:64]     m", "ERROR", "", None, "    m"),
    ("2025-03-19 21:40:35,123 INFO [engine.py:64] m", "INFO", "", None, "m"),
    ("2024-12-23 18:28:10 - vllm.engine.metrics - INFO - m", "INFO", "", None, "m"),
    ("2024-12-23 18:28:10,123 - app.worker - INFO - m", "INFO", "", None, "m"),
    ("2025-06-06T09:51:44.102Z  INFO core.__init__: m", "INFO", "", None, "m"),
    ("2025-06-06T09:51:44.102Z  WARN dynamo_llm::http: m", "WARNING", "", None, "m"),
    ("plain words", "", "", None, "plain words"),
    (" [multiproc_executor.py:852] KeyError: 'a'", "", "", None, "KeyError: 'a'"),
    ("(Worker_TP1 pid=7) [v1/executor/multiproc_executor.py:852] boom", "", "Worker_TP1 pid=7", 1, "boom"),
    ("[rank0]: boom", "", "", None, "[rank0]: boom"),
    ("see [core.py:489] there", "", "", None, "see [core.py:489] there"),
    ("ERROR [core.py:1136] KeyError: 'a'", "ERROR", "", None, "KeyError: 'a'"),
    ("(EngineCore_DP0) ERROR [core.py:1104] boom", "ERROR", "", None, "boom"),
    ("(EngineCore pid=...) ERROR [core.py:1136] boom", "ERROR", "", None, "boom"),
    ("ERROR [other] boom", "", "", None, "ERROR [other] boom"),
    ("2024-10-15 01:55:07,541 vllm.worker.model_runner 75563 INFO     m", "INFO", "", None, "m"),
    ("2024-12-20 15:18:19 - vllm.engine.metrics - WARNING - m", "WARNING", "", None, "m"),
    ("2024-10-15 01:55:07,541 other.worker 61 INFO     m", "", "", None,
     "2024-10-15 01:55:07,541 other.worker 61 INFO     m"),
    ("2024-10-15 01:55:07 vllm.entrypoints is slow", "", "", None, "2024-10-15 01:55:07 vllm.entrypoints is slow"),
])
def test_prefixes(text: str, level: str, process: str, rank: int | None, message: str) -> None:
    (event,) = read(text)
    assert (event.level, event.process, event.rank, event.text) == (level, process, rank, message)


def test_a_traceback_gives_its_calls_to_the_exception() -> None:
    events = read(
        "Traceback (most recent call last):",
        '  File "/opt/venv/lib/python3.11/site-packages/vllm/v1/worker/gpu_worker.py", line 10, in load_model',
        '    raise ValueError("No available memory for the cache blocks. "',
        "ValueError: No available memory for the cache blocks.",
    )
    assert [event.is_code for event in events] == [True, True, True, False]
    assert events[-1].frames == "vllm/v1/worker/gpu_worker.py:load_model"


def test_a_traceback_whose_levels_and_times_were_cut_off() -> None:
    events = read(
        ' [core.py:852]   File "/vllm/vllm/model_executor/models/a.py", line 442, in load_weights',
        " [core.py:852]     param = params_dict[name]",
        " [core.py:852] ValidationError: 1 validation error for ModelConfig",
        " [core.py:852]   Value error, no",
    )
    assert [event.is_code for event in events] == [True, True, False, False]
    assert events[2].frames == events[3].frames == "vllm/model_executor/models/a.py:load_weights"
    assert events[3].context == "ValidationError: 1 validation error for ModelConfig"


def test_other_messages_amid_a_traceback_are_none_of_it() -> None:
    record = "INFO 11-20 09:02:08 [loggers.py:1] Engine 000: Running: 1 reqs"
    frame = '  File "/opt/venv/lib/python3.11/site-packages/vllm/v1/engine/core.py", line 10, in step'
    head = "Traceback (most recent call last):"
    events = read(head, frame, record, "    self.model()", "ValueError: boom")
    assert [event.frames for event in events] == ["", "", "", "", "vllm/v1/engine/core.py:step"]
    assert not events[2].is_code
    never_ended = read(head, frame, *[record] * 9, "a word")
    assert never_ended[-1] == Event(12, "a word")


ANSWERED = 'INFO:     10.0.0.1:4711 - "GET /health HTTP/1.1" 200 OK'


def open_behind(*texts: str, then: str) -> tuple[str, ...]:
    """The processes that may go on behind these lines and a healthy one."""
    reader = EventReader()
    for number, text in enumerate(texts, 1):
        reader.read(Line(number, text))
    reader.end_message(len(texts) + 1, reader.key(Line(len(texts) + 1, then)))
    awaiting = reader.expects_any_continuation(len(texts) + 2)
    found = [key for key in dict.fromkeys(reader.key(Line(0, text)) for text in (*texts, then)) if reader.expects_continuation(key)]
    assert awaiting is bool(found)
    return tuple(key.removeprefix("\0") for key in found)


@pytest.mark.parametrize("process", ["", "(APIServer pid=8) "])
def test_a_healthy_line_right_behind_a_message_ends_it(process: str) -> None:
    head, frame = f"{process}Traceback (most recent call last):", f'{process}  File "/a/b.py", line 1, in one'
    message, healthy, other = f"{process}ValueError: boom", process + ANSWERED, "(APIServer pid=9) " + ANSWERED
    key = (process[1:-2],)
    assert open_behind(head, frame, message, then=healthy) == ()
    assert open_behind(message, then=healthy) == ()
    assert open_behind(head, then=healthy) == ()  # its calls would stand there
    assert open_behind(head, frame, then=healthy) == key
    assert open_behind(head, frame, message, then=other) == key


def test_a_healthy_line_further_on_ends_nothing() -> None:
    reader = EventReader()
    reader.read(Line(1, "ValueError: boom"))
    assert reader.is_open(2)
    assert not reader.is_open(3)
    reader.end_message(3, reader.key(Line(3, ANSWERED)))
    assert reader.expects_any_continuation(4)
    assert reader.expects_continuation("\0")


def test_a_process_silent_for_long_begins_anew() -> None:
    reader = EventReader()
    reader.read(Line(1, "Traceback (most recent call last):"))
    assert reader.read(Line(400, "ValueError: boom")) == Event(400, "ValueError: boom")


def test_ranks_that_print_at_once_are_told_apart() -> None:
    first, second = "(Worker_TP0 pid=1) ERROR 01-01 00:00:00 [x.py:1] ", "(Worker_TP1 pid=2) ERROR 01-01 00:00:00 [x.py:1] "
    events = read(
        first + "Traceback (most recent call last):",
        second + "Traceback (most recent call last):",
        first + '  File "/a/b.py", line 1, in one',
        second + '  File "/a/b.py", line 1, in two',
        second + "RuntimeError: second",
        first + "RuntimeError: first",
    )
    assert [(e.rank, e.text, e.frames) for e in events if e.frames] == [
        (1, "RuntimeError: second", "/a/b.py:two"), (0, "RuntimeError: first", "/a/b.py:one")]


def test_the_lines_of_one_message_know_those_before() -> None:
    events = read(
        "Traceback (most recent call last):",
        '  File "/a/b.py", line 1, in f',
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for CacheConfig",
        "gpu_memory_utilization",
        "  Input should be less than or equal to 1 [type=less_than_equal, input_value=1.5, input_type=float]",
    )
    assert events[-1].context.splitlines()[-1] == "gpu_memory_utilization"
    assert events[-1].frames == "/a/b.py:f"


@pytest.mark.parametrize(("texts", "runs"), [
    (["INFO 01-01 00:00:00 [a.py:1] vLLM API server version 0.8.5", "INFO 01-01 00:00:00 [a.py:1] args: Namespace(a=1)",
      "INFO 01-01 00:00:00 [a.py:1] Initializing a V1 LLM engine (v0.8.5) with config: x"], [1, 1, 1]),
    (["INFO 01-01 00:00:00 [a.py:1] vLLM API server version 0.8.5", "ValueError: x",
      "INFO 01-01 00:00:00 [a.py:1] vLLM API server version 0.8.5"], [1, 1, 2]),
    (["usage: vllm [-h]", "vllm: error: unrecognized arguments: --x", "usage: vllm [-h]",
      "vllm: error: unrecognized arguments: --x"], [1, 1, 2, 2]),
    (["INFO 01-01 00:00:00 [a.py:1] vLLM API server version 0.8.5", "INFO:     Application shutdown complete.",
      "WARNING 01-01 00:00:00 [launcher.py:98] port 8000 is used by process psutil.Process(pid=7) launched with command:",
      "WARNING 01-01 00:00:00 [launcher.py:98] /usr/bin/python3 -m vllm.entrypoints.openai.api_server --model m"],
     [1, 1, 1, 1]),
    (["$ vllm serve m", "INFO 01-01 00:00:00 [a.py:1] vLLM API server version 0.8.5", "vllm serve: error: x", "$ vllm serve m"], [1, 1, 1, 2]),
    (["$ vllm serve m", "INFO 01-01 00:00:00 [a.py:1] vLLM API server version 0.8.5", "$ vllm serve m"], [1, 1, 1]),
    (["$ vllm serve m", "Error processing line 1 of /srv/lib/hooks.pth:", "", "  Traceback (most recent call last):",
      '    File "<frozen site>", line 186, in addpackage', '    File "<string>", line 1, in <module>',
      "  ModuleNotFoundError: No module named 'hooks'", "", "Remainder of file ignored",
      "INFO 01-01 00:00:00 [a.py:1] vLLM API server version 0.8.5"], [1] * 8),
])
def test_starts_of_the_server(texts: list[str], runs: list[int]) -> None:
    assert [event.run for event in read(*texts)] == runs


@given(st.lists(st.text(max_size=60), max_size=30))
def test_any_lines_are_read(texts: list[str]) -> None:
    for event in read(*[text.replace("\n", " ") for text in texts]):
        assert event.run >= 1


def test_a_traceback_whose_head_is_cut_off_still_tells_its_calls() -> None:
    events = read('  File "/a/vllm/worker.py", line 1, in profile_run', "    x()", "torch.OutOfMemoryError: CUDA out of memory.")
    assert events[-1].frames == "/a/vllm/worker.py:profile_run"


def test_a_paste_that_begins_within_the_first_call() -> None:
    events = read('vllm/model_executor/layers/activation.py", line 35, in forward', "    out = torch.empty(shape)",
                  "torch.cuda.OutOfMemoryError: CUDA out of memory.")
    assert events[-1].frames == "vllm/model_executor/layers/activation.py:forward"


def test_a_bar_before_the_name_of_a_process() -> None:
    event = read("  | (EngineCore_DP0 pid=68) ValueError: No available memory for the cache blocks.")[0]
    assert (event.process, event.text) == ("EngineCore_DP0 pid=68", "ValueError: No available memory for the cache blocks.")


def test_words_before_the_head_of_a_traceback_are_a_message() -> None:
    events = read("ERROR 05-06 10:00:01 [core.py:489] EngineCore hit an exception: Traceback (most recent call last):",
                  'ERROR 05-06 10:00:01 [core.py:489]   File "/a/b.py", line 1, in f',
                  "ERROR 05-06 10:00:01 [core.py:489] ValueError: x")
    assert [event.is_code for event in events] == [False, True, False]
    assert events[-1].frames == "/a/b.py:f"


def test_a_log_pasted_as_an_indented_quotation() -> None:
    events = read(*("    " + text for text in (
        "Traceback (most recent call last):",
        '  File "/a/vllm/b.py", line 1, in f',
        "    raise ValueError(",
        "ValueError: To serve at least one request",
        "  with its second line")))
    assert [event.text for event in events if not event.is_code] == [
        "ValueError: To serve at least one request", "  with its second line"]
    assert events[-2].frames == "/a/vllm/b.py:f"


def test_an_indented_traceback_whose_head_is_cut_off() -> None:
    events = read('      File "/x/vllm/entrypoints/openai/api_server.py", line 530, in run_server',
                  '        temp_socket.bind(("", args.port))', "    OSError: [Errno 98] Address already in use")
    assert events[-1].text == "OSError: [Errno 98] Address already in use"
    assert events[-1].frames


@pytest.mark.parametrize(("text", "releases"), [
    ("INFO 10-08 20:33:48 llm_engine.py:72] m", "<0.8.0"), ("ERROR 05-06 10:00:01 [core.py:489] m", ">=0.8.0"),
    ("(EngineCore pid=12) INFO 11-20 09:02:08 [gpu_worker.py:1] m", ">=0.18.0"),
    ("(VllmWorkerProcess pid=1786) INFO 02-11 07:40:37 worker.py:267] m", ">=0.4.2,<=0.10.2"), ("m", ""),
])
def test_a_prefix_tells_the_releases_that_print_it(text: str, releases: str) -> None:
    assert read(text)[0].releases == releases


def test_the_second_line_of_a_bare_exception_knows_the_first() -> None:
    events = read("torch.OutOfMemoryError: CUDA out of memory.", "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB")
    assert events[1].context == "torch.OutOfMemoryError: CUDA out of memory."


def test_a_paste_that_lost_its_line_ends_is_no_call_of_a_traceback() -> None:
    text = 'ERROR 08-12 01:36:10 [x.py:5] File "/a.py", line 3, in f ERROR 08-12 01:36:10 [x.py:5] ValueError: Free memory'
    assert not read(text)[0].is_code


def test_an_indented_exception_stands_no_deeper_than_its_calls() -> None:
    events = read('  File "/vllm/x.py", line 9, in f', "      assert a", "  AssertionError: b")
    assert [event.is_code for event in events] == [True, True, False]
    assert events[-1].text == "AssertionError: b"


def test_a_repeated_call_is_no_exception() -> None:
    events = read("Traceback (most recent call last):", '  File "/a.py", line 1, in f', "  [Previous line repeated 897 more times]",
                  "RecursionError: maximum recursion depth exceeded")
    assert events[-1].text.startswith("RecursionError")
    assert events[-1].frames


def test_pydantics_lines_without_a_traceback() -> None:
    events = read("pydantic.ValidationError: 1 validation error for LoRAConfig", "max_lora_rank", "  Input should be 1, 8 or 16")
    assert events[-1].context.endswith("max_lora_rank")


@pytest.mark.parametrize("end", [
    "vllm serve: error: argument --dtype: invalid choice: 'int3'", "vllm: error: unrecognized arguments: --x",
])
def test_a_start_after_a_refused_command_is_another(end: str) -> None:
    events = read("usage: vllm serve [model_tag] [options]", end,
                  "(APIServer pid=1) INFO 11-20 11:46:18 [api_utils.py:347]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0")
    assert [event.run for event in events] == [1, 1, 2]


def test_an_exception_nobody_logged_ends_a_start() -> None:
    events = read("INFO 01-01 00:00:00 [a.py:1] vLLM API server version 0.8.5", "Traceback (most recent call last):",
                  '  File "/a.py", line 1, in f', "ValueError: x", "INFO 01-01 00:00:00 [a.py:1] vLLM API server version 0.8.5")
    assert [event.run for event in events] == [1, 1, 1, 1, 2]


JOINED = (
    'Traceback (most recent call last): File "/opt/venv/lib/python3.11/site-packages/vllm/v1/worker/gpu_worker.py", line 10, in'
    ' load_model self.model_runner.load_model() ^^^^ File "/opt/venv/lib/python3.11/site-packages/vllm/v1/worker/utils.py", line 7, in run'
    " return func(*args)"
)


def test_a_traceback_in_one_line_gives_its_calls_to_the_exception() -> None:
    calls = "vllm/v1/worker/gpu_worker.py:load_model\nvllm/v1/worker/utils.py:run"
    (event,) = read(f"(EngineCore pid=4) ERROR 05-06 10:00:01 [core.py:489] It failed: {JOINED} ValueError: No memory. More")
    assert (event.text, event.frames, event.is_code) == ("It failed: ValueError: No memory. More", calls, False)
    events = read(JOINED, "ValueError: No memory.")
    assert [event.is_code for event in events] == [True, False]
    assert events[-1].frames == calls
    (escaped,) = read(JOINED.replace('"', r"\"").replace(": File", r":\n  File") + r"\nx.OutOfMemoryError: CUDA out of memory")
    assert (escaped.text, escaped.frames) == ("x.OutOfMemoryError: CUDA out of memory", calls)


def test_of_two_tracebacks_in_one_line_the_calls_of_the_first_count() -> None:
    (event,) = read(f'{JOINED} ValueError: a During handling: Traceback (most recent call last): File "/x.py", line 1, in g KeyError: b')
    assert event.frames.endswith("vllm/v1/worker/utils.py:run")
    assert event.text.startswith("ValueError: a During handling: ")


def test_the_rest_of_a_traceback_in_one_line_goes_on_in_the_next() -> None:
    events = read(JOINED.partition(": ")[2], "2026-02-14T02:05:12.797Z", "torch.OutOfMemoryError: CUDA out of memory.")
    assert events[0].is_code
    assert read("the calls a(), b() of x.py, line 3, in f")[0].text == "the calls a(), b() of x.py, line 3, in f"


@pytest.mark.parametrize(("first", "rest", "joined"), [
    ("ValueError: Free memory on device cuda:0 (30.12/31.84 GiB) on startup is less than", "desired GPU memory utilization (0.95).", True),
    ("ValueError: Weight input_size_per_partition = 64 is not divisible by", "weight quantization block_k = 128.", True),
    ("ValueError: The whole of it is said in the first line, and this ends it.", "the rest is another sentence.", False),
    ("RuntimeError: CUDA error: device-side assert triggered", "CUDA kernel errors might be reported later.", False),
    ("pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig", "model and its tokenizer differ", False),
    ("pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig", "  Value error, it is wrong", False),
    ("ValueError: too short for a page", "and so this is a line of its own", False),
])
def test_sentences_broken_between_two_words_are_one_line(first: str, rest: str, *, joined: bool) -> None:
    second = read(first, rest)[1]
    assert (second.text, second.context) == ((f"{first} {rest}", "") if joined else (rest, first))


def test_a_record_of_its_own_is_no_rest_of_a_sentence() -> None:
    first = "ValueError: Free memory on device cuda:0 (30.12/31.84 GiB) on startup is less than"
    assert read(first, "ERROR 05-06 10:00:01 [core.py:489] desired share of all the memory")[1].text == "desired share of all the memory"


@pytest.mark.parametrize(("path", "shown"), [
    ("/srv/app/site/ours.py", "/srv/app/site/ours.py"),
    ("/home/me/app/site/ours.py", "me/app/site/ours.py"),
    ("site/ours.py", "site/ours.py"),
])
def test_a_short_path_is_shown_in_full(path: str, shown: str) -> None:
    assert shorten_path(path) == shown
    assert package_of(path) == (None, shown)


@pytest.mark.parametrize("call", ["gpu_model_runner.py:5121, in _bookkeeping_sync", "  vllm/v1/worker/gpu_model_runner.py:5121 in _bookkeeping_sync"])
def test_calls_are_read_as_people_shorten_them(call: str) -> None:
    events = read("Traceback (most recent call last):", call, "    tokens = self.f(", "torch.OutOfMemoryError: CUDA out of memory.")
    assert events[-1].frames == f"{call.split(':', maxsplit=1)[0].strip()}:_bookkeeping_sync"


@pytest.mark.parametrize("mark", ["...", "\u2026", "[...]", "(... 12 more frames ...)", "  ..."])
def test_calls_that_were_left_out_end_no_traceback(mark: str) -> None:
    events = read("Traceback (most recent call last):", '  File "/a/b.py", line 1, in f', "    g()", mark, '  File "/a/c.py", line 2, in g',
                  "ValueError: x")
    assert [event.is_code for event in events[:-1]] == [True] * 5
    assert (events[-1].text, events[-1].frames) == ("ValueError: x", "/a/b.py:f\n/a/c.py:g")


def test_the_code_of_a_model_keeps_the_folder_that_names_it() -> None:
    path = "/root/.cache/huggingface/modules/transformers_modules/widgets/Tiny_hyphen_1B/290ddb9a56ed/tiny.py"
    assert shorten_path(path) == "transformers_modules/widgets/Tiny_hyphen_1B/290ddb9a56ed/tiny.py"


def test_the_place_of_a_syntax_error_is_a_call_without_a_function() -> None:
    *calls, shown = read(
        "Traceback (most recent call last):",
        '  File "/opt/venv/lib/python3.12/site-packages/vllm/utils/widgets.py", line 123, in load',
        "    spec.loader.exec_module(module)",
        '  File "/srv/app/bolt.py", line 12', "    def bend(", "            ^", "SyntaxError: '(' was never closed")
    assert all(event.is_code for event in calls)
    assert (shown.text, shown.is_code) == ("SyntaxError: '(' was never closed", False)


@pytest.mark.parametrize("text", ["note: $ vllm serve org/m --port 9", "note: non-default args: {'model': 'org/m'}"])
def test_text_behind_the_prefix_of_a_process_begins_no_start(text: str) -> None:
    counter = RunCounter()
    counter.record_message("vLLM API server version 0.32.0", "APIServer pid=1", "INFO")
    counter.record_message("EngineCore failed to start.", "EngineCore pid=2", "ERROR")
    assert counter.record_message(text, "EngineCore pid=2") == 1


def test_of_too_many_processes_those_with_an_open_traceback_are_kept() -> None:
    reader = EventReader()
    reader.read(Line(1, "Traceback (most recent call last):"))
    reader.read(Line(2, '  File "/a/b.py", line 3, in f'))
    for number in range(MOST_PROCESSES + 9):
        reader.read(Line(3, f"(Worker_TP{number} pid={number}) INFO 07-01 10:00:00 [core.py:1] bolt"))
    event = reader.read(Line(4, "ValueError: boom"))
    assert event is not None
    assert event.frames == "/a/b.py:f"


def test_a_forgotten_process_continues_nothing() -> None:
    reader = EventReader()
    for number in range(MOST_PROCESSES + 1):
        reader.read(Line(1, f"(Worker_TP{number} pid={number}) ValueError: boom"))
    assert not reader.expects_continuation("\0Worker_TP0 pid=0")
    assert reader.expects_continuation("\0Worker_TP1 pid=1")


def test_workers_of_ray_with_one_name_have_ranks_of_their_own() -> None:
    first, second, again = read(*(f"(RayWorkerWrapper pid={pid}) bolt" for pid in (7, 8, 7)))
    assert (first.rank, second.rank, again.rank) == (1, 2, 1)


def test_the_indentation_of_a_quoted_traceback_is_not_that_of_a_later_message() -> None:
    events = read("    Traceback (most recent call last):", '      File "/a/b.py", line 3, in f', "        x()", "    ValueError: one",
                  "INFO 10-08 20:33:48 llm_engine.py:237] a bolt", "ValueError: two has a list:", "    - a widget")
    assert events[-1].text == "    - a widget"
