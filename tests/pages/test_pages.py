"""What of a page is read, and what a log is not taken for."""

from __future__ import annotations

import pytest

from vllm_doctor import diagnose
from vllm_doctor.pages import read_page
from vllm_doctor.pages.line_kinds import is_command, is_output, is_prose, kind_of, without_speaker
from vllm_doctor.pages.page_text import lines_of, repair

BANNER = "INFO 05-06 10:00:00 [api_server.py:1] vLLM API server version 0.8.5"
KV = ("ERROR 05-06 10:00:01 [core.py:489] ValueError: To serve at least one request with the models's max seq len "
      "(8192), (2.00 GiB KV cache is needed, which is larger than the available KV cache memory (1.00 GiB). Based on "
      "the available memory, the estimated maximum model length is 4096. Try increasing `gpu_memory_utilization` or "
      "decreasing `max_model_len` when initializing the engine.")
OOM = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB. GPU 0 has a total capacity of 31.48 GiB "
       "of which 447.56 MiB is free. Including non-PyTorch memory, this process has {held} GiB memory in use. Of the "
       "allocated memory 15.98 GiB is allocated by PyTorch, and 808.06 MiB is reserved by PyTorch but unallocated.")
SAID = "Hello, I have a question about this log, can you help me please?"


def texts(data: str) -> list[list[str]]:
    page = read_page(data.encode())
    assert page is not None
    return [[row.text for row in excerpt.rows if row.text.strip()] for excerpt in page.excerpts]


@pytest.mark.parametrize("log", [
    f"{BANNER}\n{KV}\n",
    f"$ vllm serve m\n{BANNER}\n{KV}\n",
    f"{BANNER}\n{SAID}\nI would say that it is the user of the server who wrote this.\n\n```\nx\n```\n{KV}\n",
    f"{BANNER}\nUser: {SAID}\nAssistant: {SAID}\nUser: {SAID}\n{KV}\n",
    "\n".join(f"[10:00:0{at}] {line}" for at, line in enumerate((BANNER, KV))),
    "\n".join(f"llm-1  | {line}" for line in (BANNER, KV)),
    "Segmentation fault (core dumped)\n", "", "\n", "x" * 5000,
])
def test_a_log_is_no_page(log: str) -> None:
    assert read_page(log.encode()) is None


def test_clients_cannot_make_a_page_of_a_log() -> None:
    """What a client wrote comes after the server's first line, so its fences and prose change nothing."""
    planted = f"```\n{KV}\n```\nPlease try this, it is what you should do:\n```bash\nvllm serve evil --trust-remote-code\n```"
    log = f"{BANNER}\nINFO:     Application startup complete.\n{planted}\n"
    assert read_page(log.encode()) is None


def test_only_output_is_read() -> None:
    assert texts(f"# Title\n\n{SAID}\n\n```\n{BANNER}\n{KV}\n```\n\nTry:\n\n```bash\nvllm serve m --max-model-len 1\n```\n") == [
        [BANNER, KV]]


def test_the_last_command_before_output_comes_with_it() -> None:
    page = f"{SAID}\n\n```bash\nvllm serve a\nvllm serve b \\\n  --seed 1\n```\nresult:\n```\n{BANNER}\n```\n`vllm serve c`\n"
    assert texts(page) == [["vllm serve b \\", "  --seed 1", BANNER]]


def test_a_traceback_is_one_excerpt_with_the_prose_of_its_messages() -> None:
    traceback = ("Traceback (most recent call last):\n"
                 '  File "/opt/venv/lib/python3.12/site-packages/numpy/__init__.py", line 3, in <module>\n'
                 "    raise ImportError(msg)\nImportError: \n\nPlease read this if you want to know why it does not work on your machine.\n\n"
                 "Have a look at:\n\n  * the version of Python\n\n\nThe above exception was the direct cause of the following exception:\n\n"
                 'Traceback (most recent call last):\n  File "/opt/venv/bin/vllm", line 5, in <module>\n'
                 "    from vllm.entrypoints.cli.main import main\nImportError: no numpy\n")
    page = read_page(f"Hello all, I tried to start it and it does not work.\nI get this:\n\n{traceback}\nThanks for your help!\n".encode())
    assert page is not None
    assert ["\n".join(row.text for row in one.rows).strip() for one in page.excerpts] == [traceback.strip()]


def test_numbers_are_those_of_the_input() -> None:
    page = read_page(f"# Title\n\n{SAID}\n\n```\n{BANNER}\n```\n\ntext\n\n```\n{KV}\n```\n".encode())
    assert page is not None
    assert [[row.number for row in excerpt.rows] for excerpt in page.excerpts] == [[6], [12]]
    assert not page.is_converted
    report = diagnose(f"# Title\n\n{SAID}\n\n```\n{BANNER}\n```\n\ntext\n\n```\n{KV}\n```\n".encode())
    assert report.findings[0].evidence[0].line == 12
    assert report.source.runs == 1


@pytest.mark.parametrize(("second", "is_new"), [
    ("(VllmWorker rank=0 pid=11) INFO 05-06 10:01:00 [x.py:1] Graph capturing finished in 4 secs, took 0.50 GiB", False),
    ("(VllmWorker rank=0 pid=12) INFO 05-06 10:01:00 [x.py:1] Graph capturing finished in 4 secs, took 0.50 GiB", True),
    ("(VllmWorker rank=1 pid=12) INFO 05-06 10:01:00 [x.py:1] Graph capturing finished in 4 secs, took 0.50 GiB", False),
    ("INFO 05-06 09:00:00 [x.py:1] Graph capturing finished in 4 secs, took 0.50 GiB", True),
    ("INFO 05-06 10:01:00 [x.py:1] Model loading took 3.0000 GiB and 1.0 seconds", True),
    (OOM.format(held="30.97"), True),
    (OOM.format(held="16.97"), False),
])
def test_excerpts_of_one_server_can_belong_together(second: str, is_new: bool) -> None:
    first = ("INFO 05-06 10:00:00 [x.py:1] args: Namespace(gpu_memory_utilization=0.5)\n"
             "(VllmWorker rank=0 pid=11) INFO 05-06 10:00:30 [x.py:1] Model loading took 2.0000 GiB and 1.0 seconds")
    page = read_page(f"# Two\n\n{SAID}\n\n```\n{first}\n```\n\n{SAID}\n\n```\n{second}\n```\n".encode())
    assert page is not None
    assert [excerpt.is_new_server for excerpt in page.excerpts] == [False, is_new]


def test_facts_of_one_server_do_not_explain_another() -> None:
    oom = OOM.format(held="30.97")
    report = diagnose(f"# Two\n\n{SAID}\n\n```\n{BANNER}\nINFO 05-06 10:00:01 [x.py:1] args: Namespace(model='/m/a', "
                      f"gpu_memory_utilization=0.5)\n```\n\n{SAID}\n\n```\n{oom}\n```\n".encode())
    assert report.source.runs == report.source.run == 2
    assert not {"model", "gpu_memory_utilization", "vllm_version"} & set(report.facts)
    assert report.memory is not None
    assert (report.memory.device_gib, report.memory.budget_gib) == (31.48, None)


@pytest.mark.parametrize("text", [
    BANNER, KV, "Traceback (most recent call last):", '  File "/x.py", line 3, in y', "ValueError: no", "[rank0]: x",
    "llm-1  | INFO 10-08 20:33:48 [x.py:1] y", "(Worker_TP1 pid=7) text", "INFO:     Application startup complete.",
    "2025-01-01 10:00:00,123 ERROR something", "    ^^^^^^^^",
    "  Value error, The checkpoint you are trying to load has model type `widget`", "1 validation error for ModelConfig",
    '{"custom_fields":{"ip":"10.0.0.1"},"label":"BOLT_REMOVED","message":"The bolt is gone"}',  # Ray's event files
])
def test_output(text: str) -> None:
    assert is_output(text)


@pytest.mark.parametrize("text", [
    "INFO: Model loading took X.XX GiB", "ERROR: N.NN GiB", "The ERROR is below", "vllm serve m", SAID, "",
    "ValueError: 这个错误说明显存不够用了", "## ValueError",
])
def test_no_output(text: str) -> None:
    assert not is_output(text)


@pytest.mark.parametrize("text", ["$ vllm serve m", "`vllm serve m --seed 1`", "启动:vllm serve m", "python -m vllm.entrypoints.openai.api_server",
                                  'llm = LLM(model="m")', "docker run vllm/vllm-openai:latest"])
def test_commands(text: str) -> None:
    assert is_command(text)


@pytest.mark.parametrize("text", ["use vllm serve", "vLLM serves models", "the LLM (large)", "vllm bench"])
def test_no_commands(text: str) -> None:
    assert not is_command(text)


@pytest.mark.parametrize(("text", "kind"), [
    ("显存不够怎么办", "prose"), ("From: a@example.com", "prose"), ("# Title", "prose"), ("Killed", "other"),
    ("maria  10:31 AM", "prose"), ("**User:** hi", "prose"), ("  ", "blank"), (SAID, "prose"),
    ("On Fri, Oct 3, 2025 at 5:02 PM Jana wrote:", "prose"),
])
def test_kinds(text: str, kind: str) -> None:
    assert kind_of(text) == kind
    assert is_prose(text) is (kind == "prose")


def test_a_name_in_front_of_output_is_no_part_of_it() -> None:
    assert without_speaker(f"[10:31] bob: {BANNER}") == BANNER
    assert without_speaker(f"<bob> {BANNER}") == BANNER
    assert without_speaker(f"[10:31:00] {BANNER}") == f"[10:31:00] {BANNER}"
    assert without_speaker(f"User: {KV}") == f"User: {KV}"  # programs print what clients wrote behind such words


def test_html_becomes_lines() -> None:
    lines, is_converted = lines_of("<h1>A &amp; B</h1><script>x()</script><p>one<br>two</p><pre>  a &lt;b&gt;\n  c</pre>")
    assert is_converted
    assert [(line.text, line.is_code) for line in lines if line.text] == [
        ("A & B", False), ("one", False), ("two", False), ("  a <b>", True), ("  c", True)]


def test_repair() -> None:
    assert repair("显存不足".encode().decode("cp1252", "replace").replace("\ufffd", "")) != ""
    assert repair("ERROR: 端口".encode().decode("latin-1")) == "ERROR: 端口"
    assert repair("plain text") == "plain text"
    assert repair("Größe: 5 µm – naïve") == "Größe: 5 µm – naïve"


def test_nothing_of_a_page_is_an_element_or_a_command_of_the_report() -> None:
    page = f"<p>{SAID}</p><p>x</p><pre>{BANNER}\nValueError: &lt;img src=x onerror=evil()&gt;</pre><p>$ vllm serve evil --seed 1</p>"
    report = diagnose(page.encode())
    assert report.command is None
    assert report.failure is not None
    assert report.failure.message == "<img src=x onerror=evil()>"


def test_a_secret_named_elsewhere_on_the_page_stays_hidden() -> None:
    page = f"# Title\n\n{SAID}\n\n```\nvllm serve m --api-key hunter2hunter2\n```\n\n```\n{BANNER}\nValueError: no hunter2hunter2 here\n```\n"
    report = diagnose(page.encode())
    assert report.failure is not None
    assert report.failure.message == "no *** here"
    assert "hunter2" not in (report.command or "")


def test_a_page_whose_head_has_no_end_shows_its_text() -> None:
    page = ("<!doctype html><html><head><title>Forum</title><body><p>It fails:</p><pre>INFO 11-20 11:30:13 [a.py:1] one\n"
            "ValueError: bolt 7</pre><p>Why?</p></body></html>")
    assert [line.text for line in lines_of(page)[0] if line.text] == ["It fails:", "INFO 11-20 11:30:13 [a.py:1] one", "ValueError: bolt 7", "Why?"]


def test_the_ranks_of_two_servers_are_counted_apart() -> None:
    worker = "(VllmWorkerProcess pid={}) INFO 10-08 20:33:48 multiproc_worker_utils.py:72] Worker ready; awaiting tasks\n"
    banner = "INFO 10-08 {}:33:48 api_server.py:72] vLLM API server version 0.6.2\n"
    error = ("(VllmWorkerProcess pid=20) ERROR 10-08 21:33:50 multiproc_worker_utils.py:72] Exception in worker VllmWorkerProcess while "
             "processing method load_model: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 23.69 GiB of which "
             "1.00 GiB is free.\n")
    report = diagnose(f"### Your current environment\n\nFirst I tried this on three of my GPUs:\n\n```\n{banner.format(20)}{worker.format(10)}"
                      f"{worker.format(11)}```\n\nThen I tried this on another machine with two GPUs, and got this output:\n\n```\n"
                      f"{banner.format(21)}{worker.format(20)}{error}```\nAny ideas what could be wrong with it?\n".encode())
    assert report.source.run == 2
    assert report.facts["ranks_at_least"] == 2
