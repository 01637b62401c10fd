from __future__ import annotations

import json
from pathlib import Path
from random import Random

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_texts import log_reports

from vllm_doctor import Diagnosis, diagnose
from vllm_doctor.errors import InputError
from vllm_doctor.logs.archives import is_zip
from vllm_doctor.logs.compression import kind_of
from vllm_doctor.options import Options
from vllm_doctor.reports import texts, to_json, to_text

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = sorted((ROOT / "fixtures" / "logs").rglob("*.log"))
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "schema" / "report.schema.json").read_text()))
FATKV = ROOT / "fixtures" / "logs" / "fatkv-cpu-space-1.log"
START = "INFO 05-06 10:00:00 [api_server.py:1] vLLM API server version 0.8.5\n"
SMALL = ("ERROR 05-06 10:00:01 [core.py:489] ValueError: To serve at least one request with the models's max seq len "
         "(131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory (4.00 GiB). "
         "Based on the available memory,  Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when "
         "initializing the engine.\n")


def text_of(source: bytes, **options: object) -> str:
    return to_json.render(diagnose(source, Options(**options)))


@given(st.sampled_from(FIXTURES), st.integers(0, 1 << 32), st.integers(0, 15))
@settings(max_examples=25)
def test_any_chunks_give_the_same_report(path: Path, seed: int, power: int) -> None:
    random = Random(seed)
    log = path.read_bytes()
    whole = to_json.document(diagnose(log))
    diagnosis = Diagnosis()
    at = 0
    while at < len(log):
        size = random.randint(1, 1 << power)
        diagnosis.feed(log[at:at + size])
        at += size
    assert to_json.document(diagnosis.finish()) == whole


@given(st.binary(max_size=2000))
def test_any_bytes_give_a_valid_report(data: bytes) -> None:
    try:
        report = diagnose(data)
    except InputError:
        assert is_zip(data) or kind_of(data)  # a damaged archive
        return
    SCHEMA.validate(to_json.document(report))


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_every_fixture_gives_a_valid_report_in_every_format(path: Path) -> None:
    report = log_reports()[path.name]
    SCHEMA.validate(to_json.document(report))
    assert to_text.render(report).strip()
    assert len(to_json.render_line(report).splitlines()) == 1


@given(st.data())
@settings(max_examples=25)
def test_a_log_cut_anywhere_is_read(data: st.DataObject) -> None:
    log = data.draw(st.sampled_from(FIXTURES)).read_bytes()
    begin = data.draw(st.integers(0, len(log)))
    end = data.draw(st.integers(begin, len(log)))
    SCHEMA.validate(to_json.document(diagnose(log[begin:end])))


def test_the_last_run_is_told_and_any_can_be_asked_for() -> None:
    log = (START + "ValueError: No available memory for the cache blocks. Try\n" + START + SMALL).encode()
    report = diagnose(log)
    assert (report.source.runs, report.source.run, report.primary) == (2, 2, "kv-cache-too-small-for-max-len")
    first = diagnose(log, Options(run=1))
    assert (first.source.run, first.primary) == (1, "budget-too-small-for-weights-and-activations")
    with pytest.raises(InputError, match="there is no run 3: the log holds 2"):
        diagnose(log, Options(run=3))


def test_the_run_that_is_told_anyway_has_the_same_report_when_asked_for() -> None:
    text = b"Va1ueError: No avai1able memory for the cache b1ocks. Try increasing"
    report = diagnose(text)
    assert report.primary == "budget-too-small-for-weights-and-activations"
    assert diagnose(text, Options(run=1)) == report


def test_a_restart_that_has_only_begun_does_not_hide_the_failure_before() -> None:
    report = diagnose((START + SMALL + START).encode())
    assert report.primary == "kv-cache-too-small-for-max-len"
    assert report.source.run == 1


def test_a_last_run_whose_exception_is_cut_off_does_not_hide_the_failure_before() -> None:
    cut = ("ERROR 10-01 10:00:09 [core.py:1374] EngineCore failed to start.\n"
           "ERROR 10-01 10:00:09 [core.py:1374] Traceback (most recent call last):\n"
           'ERROR 10-01 10:00:09 [core.py:1374]   File "/opt/venv/lib/python3.12/site-packages/vllm/v1/engine/core.py", line 9, in run\n'
           "ERROR 10-01 10:00:09 [core.py:1374]     self._init_executor()\n")
    report = diagnose((START + SMALL + START + cut).encode())
    assert (report.source.runs, report.source.run, report.primary) == (2, 1, "kv-cache-too-small-for-max-len")
    report = diagnose((START + cut).encode())
    assert (report.source.run, report.primary, report.status) == (1, None, "failed")
    whole = cut + "ERROR 10-01 10:00:09 [core.py:1374] KeyError: 'a'\n"
    assert diagnose((START + SMALL + START + whole).encode()).source.run == 2


def test_a_cascade_alone_names_no_cause() -> None:
    log = START + "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
    report = diagnose(log.encode())
    assert (report.primary, report.status) == (None, "failed")
    assert "paste the log from the start" in to_text.render(report).lower().replace("\n", " ")


def test_what_no_rule_knows_is_shown() -> None:
    log = START + (
        "Traceback (most recent call last):\n"
        '  File "/opt/venv/lib/python3.11/site-packages/vllm/v1/engine/core.py", line 1, in run_engine_core\n'
        "    frobnicate()\n"
        "ZeroDivisionError: something no rule knows\n"
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n")
    report = diagnose(log.encode())
    assert report.primary is None
    assert report.unexplained is not None
    assert "ZeroDivisionError: something no rule knows" in report.unexplained.text
    assert report.worst() == "error"
    assert "ZeroDivisionError: something no rule knows" in to_text.render(report)


def test_the_same_input_gives_the_same_bytes() -> None:
    assert text_of(FATKV.read_bytes()) == text_of(FATKV.read_bytes())


def test_ten_megabytes_in_bounded_memory() -> None:
    import tracemalloc

    line = b'INFO:     127.0.0.1:1234 - "POST /v1/completions HTTP/1.1" 200 OK\n'
    stats = (b"INFO 05-06 10:00:01 [loggers.py:87] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation "
             b"throughput: 2.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.5%, Prefix cache hit "
             b"rate: 0.0%\n")
    block = (line * 15 + stats) * 100
    diagnosis = Diagnosis()
    diagnosis.feed(block)
    tracemalloc.start()
    for _ in range(10_000_000 // len(block)):  # the first block is the warm-up
        diagnosis.feed(block)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8_000_000
    assert diagnosis.finish().facts["running_requests"] == 1


def test_a_user_can_say_what_the_log_does_not() -> None:
    report = diagnose(SMALL.encode(), Options(command="vllm serve org/model --max-model-len 131072 --seed 3",
                                              vllm_version="0.8.5", gpu_memory_gib=80.0))
    assert report.facts["vllm_version"] == "0.8.5"
    assert report.facts["gpu_total_gib"] == 80.0
    fix = report.findings[0].fixes[0]
    assert fix.command is not None
    assert fix.command.startswith("vllm serve org/model")
    assert "--seed 3" in fix.command
    with pytest.raises(InputError, match="not one that starts vLLM"):
        diagnose(SMALL.encode(), Options(command="echo hello"))


def test_a_bare_traceback_is_a_failure_that_is_shown() -> None:
    log = ('Traceback (most recent call last):\n  File "/home/user/serve.py", line 3, in <module>\n    main()\n'
           "KeyError: 'nobody knows'\n")
    report = diagnose(log.encode())
    assert report.status == "failed"
    assert report.unexplained is not None
    assert report.unexplained.line == 4
    assert report.unexplained.text.endswith("KeyError: 'nobody knows'")


def test_a_traceback_that_the_start_went_past_is_no_failure() -> None:
    log = (START + 'Traceback (most recent call last):\n  File "/opt/venv/x.py", line 3, in f\n    import y\n'
           "ImportError: an optional extra\n"
           "INFO 05-06 10:00:09 [core.py:1] Initializing a V1 LLM engine (v0.8.5) with config: model='m'\n")
    assert diagnose(log.encode()).status == "starting"


def test_an_api_server_that_fails_ends_its_engine_and_was_not_told_to_stop() -> None:
    log = (START + "(EngineCore pid=81) INFO 11-20 15:07:28 [core.py:1454] [shutdown] EngineCore: trigger received signal=SIGTERM\n"
           "Traceback (most recent call last):\n"
           '  File "/srv/site-packages/uvicorn/config.py", line 131, in create_ssl_context\n'
           "    ctx.load_cert_chain(certfile, keyfile, get_password)\n"
           "FileNotFoundError: [Errno 2] No such file or directory\n")
    report = diagnose(log.encode())
    assert (report.status, report.primary) == ("failed", "tls-files-unusable")


@pytest.mark.parametrize("end", [
    "CRITICAL 11-01 03:13:03 launcher.py:72] AsyncLLMEngine has failed, terminating server process\n",
    "CRITICAL 11-01 03:13:03 launcher.py:99] MQLLMEngine is already dead, terminating server process\n"])
def test_a_server_of_v0_that_ends_with_its_engine_has_failed(end: str) -> None:
    log = ("INFO 11-01 03:11:41 api_server.py:528] vLLM API server version 0.6.3.post1\n"
           "INFO:     Application startup complete.\n"
           "ERROR 11-01 03:13:02 engine.py:158] Traceback (most recent call last):\n"
           'ERROR 11-01 03:13:02 engine.py:158]   File "/opt/venv/vllm/engine/multiprocessing/engine.py", line 156, in start\n'
           "ERROR 11-01 03:13:02 engine.py:158]     self.run_engine_loop()\n"
           "ERROR 11-01 03:13:02 engine.py:158] ValueError: nobody knows\n" + end +
           'INFO:     10.0.0.1:44424 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error\n'
           "INFO:     Shutting down\n")
    report = diagnose(log.encode())
    assert (report.status, report.primary) == ("failed", None)
    assert report.unexplained is not None
    assert report.unexplained.text.endswith("ValueError: nobody knows")


def test_a_catastrophic_pattern_of_a_user_is_stopped_and_named(tmp_path: Path) -> None:
    from test_schema import GOOD

    (tmp_path / "my-rule.yaml").write_text(
        GOOD.replace("pattern: something is wrong", "pattern: something is wrong (a|aa)+$"), encoding="utf-8")
    log = b"something is wrong " + b"a" * 60 + b"!\n"
    report = diagnose(log * 3, Options(rules=(str(tmp_path),)))
    assert report.notes[-1] == "Patterns skipped because they took too long: my-rule: message."


def test_a_rule_of_ones_own_fires(tmp_path: Path) -> None:
    from test_schema import GOOD

    (tmp_path / "my-rule.yaml").write_text(GOOD, encoding="utf-8")
    assert diagnose(b"something is wrong\n", Options(rules=(str(tmp_path),))).primary == "my-rule"


def test_the_first_case_that_applies_gives_the_title_and_the_explanation(tmp_path: Path) -> None:
    from test_schema import GOOD

    cases = """explain: |
  First.

  {{ case }}
cases:
  - {patterns: [other], title: Other, explain: Another.}
  - {when: [max_model_len > 5000], title: Long, explain: "{{ max_model_len }} tokens."}
  - {when: [max_model_len > 100], title: Short, explain: Few tokens.}"""
    rule = GOOD.replace("explain: It is.", cases).replace("any:\n", "any:\n    - {id: other, anchor: otherwise wrong, pattern: otherwise wrong}\n")
    (tmp_path / "my-rule.yaml").write_text(rule, encoding="utf-8")

    def told(length: str) -> tuple[str, str]:
        finding = diagnose(b"something is wrong\n", Options(rules=(str(tmp_path),), command=f"vllm serve m{length}")).findings[0]
        return str(finding.title), str(finding.explanation)

    assert told(" --max-model-len 8192") == ("Long", "First.\n\n8192 tokens.")
    assert told(" --max-model-len 512") == ("Short", "First.\n\nFew tokens.")
    assert told("") == ("Something is wrong", "First.")


def test_a_log_cut_at_each_byte() -> None:
    log = (ROOT / "fixtures" / "logs" / "arg-swap-space-unknown.log").read_bytes()
    for end in range(len(log)):
        SCHEMA.validate(to_json.document(diagnose(log[:end])))


@given(st.sampled_from(FIXTURES), st.sampled_from(FIXTURES), st.integers(0, 1 << 16), st.integers(0, 1 << 16))
@settings(max_examples=25)
def test_two_logs_spliced_are_read(first: Path, second: Path, end: int, begin: int) -> None:
    log = first.read_bytes()[:end] + second.read_bytes()[begin:]
    SCHEMA.validate(to_json.document(diagnose(log)))


def test_a_log_that_begins_in_service_is_serving() -> None:
    stats = ("INFO 05-06 10:00:01 [loggers.py:87] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: "
             "2.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.5%, Prefix cache hit rate: 0.0%\n")
    assert diagnose(stats.encode()).status == "serving"


PARSER_ERROR = "".join(f"(APIServer pid=1) ERROR 10-09 09:39:54 [hermes_tool_parser.py:157] {line}\n" for line in (
    "Error in extracting tool call from response.", "Traceback (most recent call last):",
    '  File "/opt/venv/lib/python3.12/site-packages/vllm/tool_parsers/hermes_tool_parser.py", line 134, in extract_tool_calls',
    "    raw_function_calls = [", "json.decoder.JSONDecodeError: Expecting value: line 2 column 1 (char 1)"))
ACCESS = '(APIServer pid=1) INFO:     10.0.0.9:50001 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'


def test_a_traceback_of_a_request_is_no_failure_of_the_server() -> None:
    report = diagnose((ACCESS + PARSER_ERROR).encode())
    assert (report.status, report.primary, report.unexplained) == ("serving", "tool-parser-error", None)


STARTED = "INFO:     Application startup complete.\n"
CATCHING = "".join(f"(APIServer pid=1) ERROR 10-09 09:39:54 [hermes_tool_parser.py:157] {line}\n" for line in (
    "Error trying to handle streaming tool call.", "Traceback (most recent call last):",
    '  File "/opt/venv/lib/python3.12/site-packages/vllm/tool_parsers/hermes_tool_parser.py", line 310, in extract_tool_calls_streaming',
    "    delta = arguments[sent:]", "TypeError: 'NoneType' object is not subscriptable"))
NO_MEDIA = "".join(f"(APIServer pid=1) {line}\n" for line in (
    "Traceback (most recent call last):",
    '  File "/opt/venv/lib/python3.11/site-packages/vllm/entrypoints/chat_utils.py", line 580, in mm_processor',
    "    return self.mm_registry.create_processor(self.model_config)",
    '  File "/opt/venv/lib/python3.11/site-packages/vllm/multimodal/registry.py", line 223, in create_processor',
    '    raise ValueError(f"{model_name} is not a multimodal model")', "ValueError: /models/a is not a multimodal model"))


@pytest.mark.parametrize("begin", [STARTED, ACCESS], ids=["from the start", "head cut off"])
@pytest.mark.parametrize(("text", "cause"), [
    (CATCHING, "tool-parser-error"), (NO_MEDIA, "model-takes-no-media"),
    ('(APIServer pid=1) INFO:     10.0.0.9:50001 - "POST /v1/embeddings HTTP/1.1" 404 Not Found\n', "pooling-task-mismatch")])
def test_a_request_that_a_healthy_server_rejects_is_a_warning(begin: str, text: str, cause: str) -> None:
    report = diagnose((START + begin + ACCESS + text + ACCESS).encode())
    assert (report.status, report.primary, report.worst()) == ("serving", cause, "warning")
    assert report.failure is None or (report.failure.kind, report.failure.counts) == ("request", False)


def test_a_request_that_ends_in_a_server_error_stays_an_error() -> None:
    answer = '(APIServer pid=1) INFO:     10.0.0.9:50001 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error\n'
    for text in (NO_MEDIA + answer, answer + NO_MEDIA, CATCHING + answer):
        report = diagnose((START + STARTED + text + ACCESS).encode())
        assert report.worst() == "error"
    dead = "(EngineCore pid=7) ERROR 10-09 09:39:55 [core.py:845] EngineCore encountered a fatal error.\n"
    report = diagnose((START + STARTED + NO_MEDIA + dead).encode())
    assert (report.status, report.worst()) == ("failed", "error")


def test_the_same_error_of_a_script_stays_an_error() -> None:
    script = NO_MEDIA.replace("(APIServer pid=1) ", "").replace(
        "last):\n", 'last):\n  File "/home/user/ask.py", line 9, in <module>\n    print(llm.chat(messages))\n', 1)
    report = diagnose((START + script).encode())
    assert (report.status, report.worst()) == ("failed", "error")


def test_a_request_that_was_refused_and_answered_is_no_failure_of_the_server() -> None:
    answer = 'INFO:     10.0.0.9:50001 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request\n'
    lines = ("Error in preprocessing prompt inputs", "Traceback (most recent call last):",
             '  File "/opt/venv/lib/python3.10/site-packages/vllm/entrypoints/chat_utils.py", line 452, in add',
             "ValueError: At most 1 image(s) may be provided in one request.")
    refused = "".join(f"ERROR 03-13 11:21:33 serving_chat.py:197] {line}\n" for line in lines)
    report = diagnose((refused + answer).encode())
    assert (report.status, report.primary) == ("serving", "mm-items-over-limit")
    report = diagnose(refused.encode())
    assert (report.status, report.primary) == ("failed", "mm-items-over-limit")


def test_a_failure_after_a_request_that_failed_is_one() -> None:
    later = (ACCESS + "Traceback (most recent call last):\n"
             '  File "/opt/venv/x.py", line 3, in f\n    import y\nRuntimeError: nobody knows\n')
    report = diagnose((ACCESS + PARSER_ERROR + later).encode())
    assert (report.status, report.primary) == ("failed", None)
    assert report.unexplained is not None


def test_a_log_whose_head_or_middle_is_missing_says_so() -> None:
    whole = diagnose((START + SMALL).encode())
    assert not any("missing" in note or "left out" in note for note in whole.notes)
    headless = diagnose(b"INFO 05-06 10:00:01 [gpu_model_runner.py:1347] Model loading took 7.6 GiB and 10.2 seconds\n" + SMALL.encode())
    assert any("The beginning of the server start is missing" in note for note in headless.notes)
    for mark in ("...", "[...]", "<snip>", "... 200 lines omitted ...", "[truncated]"):
        cut = diagnose((START + mark + "\n" + SMALL).encode())
        assert "Lines are omitted from the log (at line 2)." in cut.notes, mark


def test_ranks_that_differ_are_shown_with_their_lines() -> None:
    log = START + "".join(f"(VllmWorker rank={rank} pid=5) INFO 05-06 10:00:01 [gpu_model_runner.py:1347] Model loading took "
                          f"{size} GiB and 10.2 seconds\n" for rank, size in enumerate((7.6, 7.9)))
    said = diagnose(log.encode()).input_notes
    assert "model_weights_gib has several values: 7.6 (line 2), 7.9 (line 3); 7.9 is used." in said


def test_a_warning_does_not_explain_a_failure() -> None:
    log = (
        "(APIServer pid=1) INFO 11-20 09:23:26 [api_server.py:1] vLLM API server version 0.23.0\n"
        "(EngineCore pid=7) INFO 11-20 09:24:26 [kv_cache_utils.py:1] GPU KV cache size: 40,064 tokens\n"
        "(EngineCore pid=7) INFO 11-20 09:24:26 [kv_cache_utils.py:2] Maximum concurrency for 40,000 tokens per request: 1.00x\n"
        "(EngineCore pid=7) ERROR 11-20 09:24:27 [core.py:1330] EngineCore failed to start.\n"
        "(EngineCore pid=7) ERROR 11-20 09:24:27 [core.py:1330] Traceback (most recent call last):\n"
        '(EngineCore pid=7) ERROR 11-20 09:24:27 [core.py:1330]   File "/a/model_runner.py", line 9, in sample\n'
        "(EngineCore pid=7) ERROR 11-20 09:24:27 [core.py:1330] RuntimeError: nobody knows\n")
    report = diagnose(log.encode())
    assert (report.status, report.primary) == ("failed", None)
    assert report.unexplained is not None
    assert "low-kv-capacity" in {finding.id for finding in report.findings}
    assert to_text.render(report).startswith("✗ RuntimeError: nobody knows\n")


def test_a_warning_of_many_requests_tells_the_largest() -> None:
    refused = ("(APIServer pid=1) ERROR 06-16 14:05:49 [serving_chat.py:251] ValueError: This model's maximum context length is 4096 "
               "tokens. However, your request has {} input tokens. Please reduce the length of the input messages.\n")
    served = ("(APIServer pid=1) INFO 06-16 14:00:00 [utils.py:328] non-default args: {'model': '/models/a', 'max_model_len': 4096}\n"
              "(APIServer pid=1) INFO:     Application startup complete.\n")
    report = diagnose((served + "".join(refused.format(tokens) for tokens in (4183, 7266, 4200))).encode())
    cause = report.findings[0]
    assert cause.id == "prompt-exceeds-context-length"
    assert [fix.flags for fix in cause.fixes if fix.flags] == [{"--max-model-len": "8192"}]
    assert "7,266 tokens" in cause.explanation


def test_a_command_without_output_is_no_start() -> None:
    typed = "$ vllm serve /models/a --api-key sk-abcdef123456\n$ vllm serve /models/b \\\n  --seed 1\n"
    report = diagnose((START + SMALL + typed).encode())
    assert (report.primary, report.command) == ("kv-cache-too-small-for-max-len", None)
    assert (report.source.runs, report.source.run) == (1, 1)
    assert not any("server starts" in note for note in report.notes)
    again = diagnose((START + SMALL + typed + START + SMALL).encode())
    assert again.source.runs == again.source.run
    assert again.source.runs > 1


def test_the_dots_of_a_usage_text_are_no_omission() -> None:
    usage = b"usage: vllm [-h] [-v]\n            {chat,serve}\n            ...\nvllm: error: unrecognized arguments: --max-modle-len 8192\n"
    assert not any("omitted" in note for note in diagnose(usage).notes)
    assert any("omitted" in note for note in diagnose(usage.replace(b"{chat,serve}", b"INFO 11-20 09:17:11 [a.py:1] x")).notes)


@pytest.mark.parametrize(("last", "status"), [("100%|##########| 4/4", "stopped"), ("50%|#####     | 2/4", "failed")])
def test_the_engine_of_a_script_ends_behind_it(last: str, status: str) -> None:
    log = ("INFO 11-24 15:57:36 [llm.py:355] Supported tasks: ['generate']\n"
           f"Processed prompts:  25%|##        | 1/4 [00:01<00:00]\nProcessed prompts: {last} [00:12<00:00, 3.21s/it]\n"
           "ERROR 11-24 15:57:50 [core_client.py:616] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.\n")
    report = diagnose(log.encode())
    assert report.status == status
    assert (report.failure is None) == (status == "stopped")
    raised = 'Traceback (most recent call last):\n  File "/srv/app/a.py", line 9, in <module>\n    llm.generate(x)\n'
    report = diagnose(f"{log}{raised}vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.\n".encode())
    assert report.status == "failed"


def test_a_script_that_unpacks_its_settings_gets_the_printed_ones() -> None:
    site = "/opt/venv/lib/python3.12/site-packages"
    log = ("INFO 06-01 10:00:01 [utils.py:233] non-default args: {'max_model_len': 100, 'max_num_batched_tokens': 50, 'model': '/models/m'}\n"
           'Traceback (most recent call last):\n  File "/srv/ask.py", line 3, in build\n    return LLM(**kw)\n'
           f'  File "{site}/vllm/entrypoints/llm.py", line 350, in __init__\n    self.llm_engine = LLMEngine.from_engine_args(\n'
           f'  File "{site}/vllm/config/scheduler.py", line 250, in verify_max_model_len\n    raise ValueError(\n'
           "ValueError: max_num_batched_tokens (50) is smaller than max_model_len (100). This effectively limits the maximum sequence length to "
           "max_num_batched_tokens and makes vLLM reject longer sequences. Please increase max_num_batched_tokens or decrease max_model_len.\n")
    calls = [fix.patch["text"] for fix in diagnose(log.encode()).findings[0].fixes if fix.patch]
    assert calls[0] == "LLM(model='/models/m', max_model_len=100, max_num_batched_tokens=50, enable_chunked_prefill=True)"


SCRIPT = (b"INFO 11-24 15:53:20 [core.py:344] init engine (profile, create kv cache, warmup model) took 6.71 s\n"
          b"Processed prompts: 100%|####| 2/2 [00:00<00:00, 90.1it/s]\n")
ENDED = b"(EngineCore pid=375) INFO 11-24 15:53:22 [core.py:1214] [shutdown] EngineCore: trigger received signal=SIGTERM\n"


@pytest.mark.parametrize(("log", "headline"), [
    (SCRIPT, "Healthy: the last batch of prompts is complete"),
    (SCRIPT + ENDED, "Stopped: no failure in this log"),
    (SCRIPT.splitlines(keepends=True)[0] + ENDED, "Stopped: no failure in this log"),
    (SCRIPT.replace(b"100%", b" 50%"), "Healthy: a batch of prompts is running"),
])
def test_a_script_is_no_server(log: bytes, headline: str) -> None:
    assert texts.headline(diagnose(log)) == headline


def test_a_script_that_a_worker_imports_again_is_no_second_start() -> None:
    arguments = "INFO 11-28 05:03:58 [utils.py:273] non-default args: {'model': '/models/a'}\n"
    spawned = ('Traceback (most recent call last):\n  File "/usr/lib/python3.12/multiprocessing/spawn.py", line 140, in '
               "_check_not_importing_main\n    raise RuntimeError('''\nRuntimeError: \n        An attempt has been made to "
               "start a new process before the\n        current process has finished its bootstrapping phase.\n")
    report = diagnose((arguments * 2 + spawned).encode())
    assert report.primary == "spawn-main-guard-missing"
    assert not any("server starts" in note for note in report.notes)


CELL = ("INFO 11-16 16:36:14 [utils.py:233] non-default args: {'model': '/models/a', 'max_model_len': 4096}\n"
        "INFO 11-16 16:37:18 [model.py:547] Resolved architecture: LlamaForCausalLM\n"
        "ENGINE---------------------------------------------------------------------------\n"
        "RuntimeError                       Traceback (most recent call last)\n"
        "Cell In[4], line 4\n      1 from vllm import LLM\n----> 4 llm = LLM(model='/models/a')\n\n"
        "File /usr/lib/python3.12/site-packages/vllm/entrypoints/llm.py:297, in LLM.__init__(self, model)\n"
        "    296     engine_args = EngineArgs(\n\nRuntimeError: nobody knows\n")
LOADING = "INFO 11-16 16:37:19 [gpu_model_runner.py:2602] Starting to load model /models/a...\n"


@pytest.mark.parametrize(("engine", "counted"), [("", False), (LOADING, True)])
def test_cells_that_start_no_engine_are_not_counted_as_starts(engine: str, counted: bool) -> None:
    report = diagnose((CELL.replace("ENGINE", engine) * 2).encode())
    assert any("server starts" in note for note in report.notes) is counted


BENCHMARK = ('Traceback (most recent call last):\n  File "/opt/venv/bin/vllm", line 8, in <module>\n    sys.exit(main())\n'
             '  File "/opt/venv/lib/python3.11/site-packages/vllm/entrypoints/cli/benchmark/serve.py", line 21, in cmd\n    main(args)\n'
             '  File "/opt/venv/lib/python3.11/site-packages/vllm/benchmarks/serve.py", line 600, in benchmark\n    check(requests)\n'
             "ValueError: please provide at least one prompt\n")


@pytest.mark.parametrize("printed", ["", "Namespace(subparser='bench', bench_type='serve', num_prompts=0)\n"])
def test_a_step_repeats_the_benchmark_and_no_script(printed: str) -> None:
    report = diagnose((printed + BENCHMARK).encode())
    assert report.cause is not None
    steps = [step for fix in report.cause.fixes for step in fix.steps]
    assert any(step.startswith("vllm bench serve ") for step in steps)
    assert not any("SCRIPT.py" in step for step in steps)


def test_calls_left_out_of_a_traceback_are_told() -> None:
    log = ("Traceback (most recent call last):\n"
           '  File "/opt/venv/lib/python3.12/site-packages/vllm/v1/engine/core.py", line 700, in run_engine_core\n'
           "    engine_core.run_busy_loop()\n...\n"
           '  File "/opt/venv/lib/python3.12/site-packages/vllm/v1/worker/gpu_worker.py", line 51, in f\n'
           "ValueError: x\n")
    assert "Lines are omitted from the log (at line 4)." in diagnose(log.encode()).notes
    assert not any("omitted" in note for note in diagnose(log.replace("\n...", "\n    ...").encode()).notes)


def test_a_start_that_the_log_leaves_unfinished_names_what_it_may_wait_for() -> None:
    log = (b"INFO 11-30 09:49:17 llm_engine.py:72] Initializing an LLM engine with config: model='/models/a', tokenizer='/models/a'\n"
           b"INFO 11-30 09:49:18 model_runner.py:104] Loading model weights took 30.6567 GB\n")
    report = diagnose(log)
    assert (report.status, report.phase, report.findings) == ("starting", "profiling", ())
    assert "the most common cause is compiling kernels at the first start (torch.compile, FlashInfer, Triton)" in report.caveats[-2]
    assert "Exit code 137 is SIGKILL" in report.caveats[-1]


CRASH_OF_A_SCRIPT = ("INFO 07-01 10:00:12 [core.py:58] Initializing a V1 LLM engine (v0.9.1) with config: model='widget'\n"
                     "Traceback (most recent call last):\n"
                     '  File "/app/serve.py", line 8, in <module>\n'
                     "    main()\n"
                     "ValueError: the {word} is loose\n")


@pytest.mark.parametrize("source", ["", "web-1  | ", "[pod/web-7c9/vllm] ", "2026-07-01T10:00:00.123456789Z "])
def test_a_restart_after_a_crash_is_another_start_whoever_collects_the_lines(source: str) -> None:
    log = CRASH_OF_A_SCRIPT.format(word="bolt") + CRASH_OF_A_SCRIPT.format(word="widget")
    report = diagnose("".join(source + line + "\n" for line in log.splitlines()).encode())
    assert (report.source.runs, report.source.run) == (2, 2)
    assert report.failure is not None
    assert report.failure.message == "the widget is loose"


CUT_OFF = ("(Worker_TP1 pid=77) ERROR 07-01 10:01:00 [multiproc_executor.py:700] Traceback (most recent call last):\n"
           '(Worker_TP1 pid=77) ERROR 07-01 10:01:00 [multiproc_executor.py:700]   File "/opt/vllm/v1/core/kv_cache_utils.py", '
           "line 691, in check_enough_kv_cache_memory\n"
           '(Worker_TP1 pid=77) ERROR 07-01 10:01:00 [multiproc_executor.py:700]     raise ValueError("No available memory for the '
           'cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.")\n')


@pytest.mark.parametrize("between", ["", "INFO 05-06 10:00:04 [default_loader.py:272] Loading weights took 1.02 seconds\n"])
def test_a_traceback_that_a_restart_cuts_off_is_of_the_start_before_it(between: str) -> None:
    log = (START + CUT_OFF + between + START).encode()
    assert [diagnose(log, Options(run=run)).primary for run in (1, 2)] == ["budget-too-small-for-weights-and-activations", None]


def test_the_first_of_very_many_starts_can_be_asked_for() -> None:
    report = diagnose((SMALL + START * 40).encode(), Options(run=1))
    assert (report.source.run, report.primary) == (1, "kv-cache-too-small-for-max-len")


def test_a_start_that_was_dropped_has_no_table_of_gpus_of_a_later_one() -> None:
    table = ("| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |\n"
             "|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:07:00.0 Off |                    0 |\n"
             "| N/A   30C    P0             60W /  400W |    {used}MiB /  81920MiB |      0%      Default |\n"
             "+-----------------------------------------+------------------------+----------------------+\n")
    log = "".join(START + f"ERROR 05-06 10:00:05 [core.py:100] ValueError: bolt {number} is loose\n"
                  + (table.format(used=1024 * number) if number in {3, 5} else "") for number in range(1, 20)).encode()
    assert [diagnose(log, Options(run=run)).facts.get("gpu_used_gib") for run in (2, 3, 5)] == [None, 3.0, 5.0]
