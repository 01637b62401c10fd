"""What failed: exact exceptions, messages, places, features, kinds, next steps; and what is no failure."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_doctor import diagnose
from vllm_doctor.diagnosis import Diagnosis
from vllm_doctor.failures import Place, exception_lines
from vllm_doctor.failures.frames import engine_class
from vllm_doctor.failures.model import Frame
from vllm_doctor.reports.model import Failure
from vllm_doctor.reports.texts import failure_place, failure_status, headline

SITE = "/opt/venv/lib/python3.12/site-packages"
STARTED = ("INFO:     Application startup complete.\n"
           "INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)\n")
ASGI = ("ERROR:    Exception in ASGI application\n"
        "Traceback (most recent call last):\n"
        f'  File "{SITE}/uvicorn/protocols/http/httptools_impl.py", line 409, in run_asgi\n'
        "    result = await app(\n")


def failure_of(log: str) -> Failure:
    failure = diagnose(log.encode()).failure
    assert failure is not None
    return failure


def traceback(*calls: tuple[str, int, str, str], error: str) -> str:
    lines = ["Traceback (most recent call last):"]
    for path, line, function, code in calls:
        lines += [f'  File "{path}", line {line}, in {function}', f"    {code}"]
    return "\n".join([*lines, error]) + "\n"


DRAFT = traceback(
    (f"{SITE}/vllm/v1/engine/core.py", 700, "run_engine_core", "engine_core.run_busy_loop()"),
    (f"{SITE}/vllm/v1/spec_decode/medusa.py", 44, "propose", "hidden = self.widgets[0]"),
    error="AttributeError: 'MedusaProposer' object has no attribute 'widgets'")


def test_the_object_of_a_failure_in_vllm() -> None:
    log = "$ vllm serve org/m --speculative-config '{\"method\": \"medusa\"}' --port 9\n" + DRAFT
    failure = failure_of(log)
    assert (failure.line, failure.last_line) == (7, 7)
    assert (failure.exception, failure.message) == (
        "AttributeError", "'MedusaProposer' object has no attribute 'widgets'")
    assert failure.origin == Place("vllm", "vllm/v1/spec_decode/medusa.py", "propose", 44)
    assert (failure.vllm_frame, failure.caller, failure.feature, failure.kind) == (None, None, "speculative-decoding", "bug")
    assert [(one.flag, one.source) for one in failure.settings] == [("--speculative-config", "command")]
    assert re.fullmatch(r"AttributeError-[0-9a-f]{8}", failure.signature)


@pytest.mark.parametrize("log", [
    ('I0911 08:21:51.554457 1 pb_stub.cc:389] "Failed to initialize Python stub: TypeError: start() got an unexpected keyword argument '
    "'loggers'\\n\\nAt:\\n  /usr/lib/python3.12/contextlib.py(105): __init__\\n  /opt/tritonserver/backends/vllm/model.py(301): _run\\n"
    '  /usr/lib/python3.12/asyncio/events.py(103): _run\\n"\n'),
    ("E1115 02:58:51.162611 1 backend_model.cc:634] ERROR: Failed to create instance: TypeError: start() got an unexpected keyword argument "
    "'loggers'\n\nAt:\n  /usr/lib/python3.12/contextlib.py(105): __init__\n  /opt/tritonserver/backends/vllm/model.py(301): _run\n\n"),
], ids=["escaped", "in-lines"])
def test_calls_that_pybind11_adds_to_the_message_are_its_calls(log: str) -> None:
    failure = failure_of(log)
    assert (failure.exception, failure.message) == ("TypeError", "start() got an unexpected keyword argument 'loggers'")
    assert failure.origin == Place("tritonserver", "tritonserver/backends/vllm/model.py", "_run", 301)
    assert (failure.feature, failure.kind) == ("other-software", "other-software")
    assert [fix.action for fix in failure.fixes] [:2] == ["install-package", "match-caller-release"]


def test_an_exception_is_read_where_a_paste_joined_it_to_the_next_record() -> None:
    log = ("HIP out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacity of 15.98 GiB of which 22.00 MiB is free."
           "                  ERROR 07-04 14:53:23 [engine.py:458] Traceback (most recent call last):              "
           '    ERROR 07-04 14:53:23 [engine.py:458]   File "/opt/venv/lib/python3.12/site-packages/vllm/engine/multiprocessing/engine.py", line 446,\n')
    failure = failure_of(log)
    assert (failure.exception, failure.kind) == ("OutOfMemoryError", "resource")
    assert failure.message.endswith("22.00 MiB is free.")


CUT = ("Traceback (most recent call last):\n"
       f'  File "{SITE}/vllm/lora/utils.py", line 148, in parse_fine_tuned_lora_name\n')


def test_a_cut_traceback_is_explained_by_the_line_that_raises() -> None:
    report = diagnose((CUT + '    raise ValueError(f"{name} is unsupported LoRA weight")\n').encode())
    assert report.primary == "lora-modules-not-supported"
    assert [evidence.text for evidence in report.findings[0].evidence] == ["ValueError: … is unsupported LoRA weight"]
    failure = report.failure
    assert failure is not None
    assert (failure.exception, failure.message, failure.feature) == ("ValueError", "… is unsupported LoRA weight", "lora")
    assert failure.origin == Place("vllm", "vllm/lora/utils.py", "parse_fine_tuned_lora_name", 148)


@pytest.mark.parametrize("line", ["    raise ValueError(", "    raise error", "    if weight is unsupported LoRA weight:"])
def test_a_line_without_the_message_explains_nothing(line: str) -> None:
    assert diagnose((CUT + line + "\n").encode()).primary is None


def test_a_line_that_raises_counts_only_at_the_end_of_the_log() -> None:
    rest = '    raise ValueError(f"{name} is unsupported LoRA weight")\nValueError: b is unsupported LoRA weight\n'
    (finding,) = diagnose((CUT + rest).encode()).findings
    assert [evidence.text for evidence in finding.evidence] == ["ValueError: b is unsupported LoRA weight"]


def test_a_class_that_is_cut_off_is_completed_from_the_line_that_raises() -> None:
    failure = failure_of(CUT + "    raise EngineDeadError()\nvllm.v1.engine.exceptions.Engin\n")
    assert (failure.exception, failure.is_consequence) == ("EngineDeadError", True)
    assert failure_of(CUT + "    raise EngineDeadError()\nKeyError: 'a'\n").exception == "KeyError"


def test_a_record_and_the_exception_with_its_message_are_one() -> None:
    log = ("ERROR 02-22 00:01:41 engine.py:400] The input has an odd size.\n"
           "ValueError: The input has an odd size.\n")
    assert (failure_of(log).exception, failure_of(log).line) == ("ValueError", 2)


def test_a_notebook_s_traceback_names_its_exception_at_the_beginning() -> None:
    log = ("---------------------------------------------------------------------------\n"
           "OutOfMemoryError                          Traceback (most recent call last)\n"
           f"File {SITE}/vllm/v1/worker/gpu_model_runner.py:2874, in GPUModelRunner._dummy_sampler_run(self, hidden_states)\n"
           "   2873 try:\n"
           "-> [2874](https://example.org/lab/tree/gpu_model_runner.py\n")
    failure = failure_of(log)
    assert (failure.exception, failure.message, failure.kind, failure.feature) == ("OutOfMemoryError", "", "resource", "sampling")


def test_an_error_that_the_engine_logs_as_repr_is_its_error() -> None:
    log = ("CRITICAL 03-07 10:00:01 [launcher.py:116] MQLLMEngine is already dead, terminating server process\n"
           "ERROR 03-07 10:00:01 engine.py:135] RuntimeError('expected 4 tensors, got 3')\n"
           "ERROR 03-07 10:00:01 engine.py:135] Traceback (most recent call last):\n")
    report = diagnose(log.encode())
    assert report.primary is None
    assert report.failure is not None
    assert (report.failure.exception, report.failure.message) == ("RuntimeError", "expected 4 tensors, got 3")


def test_an_error_of_the_engine_without_calls_or_message_is_its_error() -> None:
    log = ("(EngineCore pid=7) ERROR 03-07 10:00:01 [core.py:827] EngineCore encountered a fatal error.\n"
           "(EngineCore pid=7) ERROR 03-07 10:00:01 [core.py:827] AssertionError\n")
    report = diagnose(log.encode())
    assert report.primary is None
    assert report.failure is not None
    assert report.failure.exception == "AssertionError"


@pytest.mark.parametrize("text", [
    "RuntimeError('Engine process (pid 66) died.')", "the client sent RuntimeError('expected 4 tensors')"])
def test_a_consequence_or_a_quotation_is_no_error_of_the_engine(text: str) -> None:
    log = ("CRITICAL 03-07 10:00:01 [launcher.py:116] MQLLMEngine is already dead, terminating server process\n"
           f"ERROR 03-07 10:00:01 engine.py:135] {text}\n")
    report = diagnose(log.encode())
    assert report.primary in {"engine-dead-cascade-only", "process-killed-no-traceback"}


def test_a_switch_is_offered_for_what_is_on_and_never_as_safe() -> None:
    log = "$ vllm serve org/m --speculative-config '{\"method\": \"medusa\"}' --port 9\n" + DRAFT
    report = diagnose(log.encode())
    assert report.failure is not None
    if report.primary is None:
        first = report.failure.fixes[0]
        assert (first.title, first.unset) == ("As a test, start without speculative decoding", ("--speculative-config",))
        assert first.command == "vllm serve org/m --port 9"
    assert {fix.safety for fix in report.failure.fixes} <= {"review", "manual"}


@pytest.mark.parametrize("line", [
    "pydantic_core._pydantic_core.ValidationError: 1 validation error for WidgetConfig",
    "E   ValidationError: 1 validation error for WidgetConfig",
    "[rank0]: ValidationError: 1 validation error for WidgetConfig",
    "2025-03-29 15:20:40 | ERROR | stderr | ValidationError: 1 validation error for WidgetConfig",
])
def test_a_bare_line_is_a_failure_with_its_entire_message(line: str) -> None:
    prefix = "[rank0]: " if line.startswith("[rank0]") else ""  # torchrun puts it before each line
    failure = failure_of(f"{line}\n{prefix}  Value error, the widget is bent [type=value_error, input_value=1]\n")
    assert failure.exception == "ValidationError"
    assert failure.message == ("1 validation error for WidgetConfig\n"
                               "  Value error, the widget is bent [type=value_error, input_value=1]")


@pytest.mark.parametrize(("line", "message"), [
    ("./run.sh: line 4: 123 Killed                  vllm serve m", "./run.sh: line 4: 123 Killed                  vllm serve m"),
    ("[host:11:0:11] Caught signal 11 (Segmentation fault: address not mapped)",
     "Caught signal 11 (Segmentation fault: address not mapped)"),
    ("!!!!!!! Segfault encountered !!!!!!!", "!!!!!!! Segfault encountered !!!!!!!"),
    ("Fatal Python error: Segmentation fault", "Fatal Python error: Segmentation fault"),
    ("bash: frobnicate: command not found", "bash: frobnicate: command not found"),
])
def test_processes_that_are_ended(line: str, message: str) -> None:
    report = diagnose((line + "\n").encode())
    assert report.failure is not None
    assert (report.failure.exception, report.failure.message) == (None, message)
    assert report.worst() == "error"


def test_a_client_that_nobody_answers_is_told_to_check_the_address() -> None:
    log = traceback(
        (f"{SITE}/aiohttp/connector.py", 1345, "_wrap_create_connection", "sock = await connect()"),
        ("/usr/lib/python3.12/asyncio/selector_events.py", 674, "_sock_connect_cb", "raise OSError(err)"),
        error="ConnectionRefusedError: [Errno 111] Connect call failed ('127.0.0.1', 8000)")
    assert [fix.id for fix in failure_of(log).fixes] == ["check-server-address"]


def test_an_exception_that_ray_wraps() -> None:
    log = ("ray.exceptions.RayTaskError(ValueError): ray::Trainer.step() (pid=12, ip=10.0.0.3)\n"
           '  File "/home/me/train.py", line 3, in step\n    engine.run()\n'
           "ValueError: the widget is bent\n")
    failure = failure_of(log)
    assert (failure.exception, failure.message, failure.feature) == ("ValueError", "the widget is bent", "other-software")


@pytest.mark.parametrize(("file", "kind", "actions"), [
    ("model_executor/layers/quantization/widgets.py", "refusal", ["correct-json-file"]),
    ("benchmarks/widgets.py", "refusal", ["correct-json-file"]),
    ("v1/core/widgets.py", "bug", ["upgrade-vllm", "report-bug", "downgrade-vllm"]),  # of a request or an answer
])
def test_json_that_vllm_cannot_parse_is_a_fault_of_the_file(file: str, kind: str, actions: list[str]) -> None:
    failure = failure_of(traceback(
        (f"{SITE}/vllm/{file}", 9, "load_widgets", "widgets = json.load(file)"),
        ("/usr/lib/python3.12/json/decoder.py", 356, "raw_decode", "raise JSONDecodeError("),
        error="json.decoder.JSONDecodeError: Extra data: line 2 column 1 (char 93)"))
    assert (failure.kind, [fix.action for fix in failure.fixes]) == (kind, actions)


@pytest.mark.parametrize(("file", "error", "kind", "actions"), [
    ("config/widgets.py", "FileNotFoundError: Widget file not found: /srv/widgets.json", "environment", ["check-file-path"]),
    ("engine/arg_utils.py", "AssertionError: widget_a and widget_b cannot both be True.", "refusal", ["follow-the-refusal"]),
    ("engine/arg_utils.py", "AssertionError: no widget", "bug", ["upgrade-vllm", "correct-model-config", "report-bug", "downgrade-vllm"]),
    ("v1/core/widgets.py", "AssertionError: widget_a and widget_b are both there", "bug", ["upgrade-vllm", "report-bug", "downgrade-vllm"]),
])
def test_what_is_wrong_with_a_path_or_a_setting_needs_no_other_release(file: str, error: str, kind: str, actions: list[str]) -> None:
    failure = failure_of(traceback((f"{SITE}/vllm/{file}", 9, "check", "raise widget"), error=error))
    assert (failure.kind, [fix.action for fix in failure.fixes]) == (kind, actions)


@pytest.mark.parametrize(("code", "message"), [
    ("assert widget is not None", "assert widget is not None"),
    ("assert all(", ""),  # the line has only its beginning
    ("assert left and", ""),
    ("check(widget)", ""),
])
def test_an_assertion_without_a_message_is_named_by_its_check(code: str, message: str) -> None:
    log = traceback((f"{SITE}/vllm/v1/core/sched/scheduler.py", 9, "schedule", code), error="AssertionError")
    report = diagnose(log.encode())
    assert report.failure is not None
    assert report.failure.message == message
    assert headline(report) == (f"AssertionError: {message}" if message else "AssertionError")
    assert report.failure.text.endswith("AssertionError")


def test_a_chain_is_told_by_its_root() -> None:
    log = (traceback((f"{SITE}/vllm/v1/core/sched/scheduler.py", 9, "schedule", "x()"), error="AssertionError: 3 widgets are left")
           + "\nThe above exception was the direct cause of the following exception:\n\n"
           + traceback((f"{SITE}/vllm/v1/engine/core.py", 5, "step", "y()"), error="RuntimeError: Failed to step"))
    failure = failure_of(log)
    assert (failure.exception, failure.message, failure.feature) == ("AssertionError", "3 widgets are left", "scheduler")


def test_a_file_that_python_cannot_parse_goes_before_the_lookup_that_was_handled() -> None:
    failure = failure_of(traceback((f"{SITE}/vllm/utils/import_utils.py", 94, "import_plugin", "importlib.import_module(name)"),
                                   error="ModuleNotFoundError: No module named '/srv/app/bolt'")
                         + "\nDuring handling of the above exception, another exception occurred:\n\n"
                         + traceback((f"{SITE}/vllm/utils/import_utils.py", 99, "import_plugin", "import_from_path(path)"),
                                     error="SyntaxError: expected ':'"))
    assert (failure.exception, failure.message) == ("SyntaxError", "expected ':'")


def test_a_lookup_that_was_handled_gives_way_to_what_was_said_then() -> None:
    log = (traceback((f"{SITE}/vllm/config/model.py", 9, "get", "x[key]"), error="KeyError: 'bent'")
           + "\nDuring handling of the above exception, another exception occurred:\n\n"
           + traceback((f"{SITE}/vllm/config/model.py", 11, "get", "raise"), error="ValueError: bent widgets are not known to this parser"))
    assert failure_of(log).exception == "ValueError"


def test_the_engine_s_own_error_goes_before_its_parent_s() -> None:
    log = (traceback((f"{SITE}/vllm/v1/engine/utils.py", 9, "wait", "raise"),
                     error="RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}")
           + traceback((f"{SITE}/vllm/lora/widgets.py", 9, "load", "raise"), error="IndexError: no widget"))
    failure = failure_of(log)
    assert (failure.exception, failure.feature) == ("IndexError", "lora")


def test_what_asyncio_reports_of_a_callback_is_no_part_of_the_message_before() -> None:
    log = DRAFT + "Exception in callback functools.partial(<function bolt>)\nhandle: <Handle functools.partial(<function bolt>)>\n"
    assert failure_of(log).message == "'MedusaProposer' object has no attribute 'widgets'"


def test_a_call_that_is_cut_off_is_no_record_of_an_error() -> None:
    call = f'(EngineCore pid=1)   File "{SITE}/vllm/v1/core/sched/scheduler.py", line 59, in turn\n'
    log = (f"{call}(EngineCore pid=1)     assert request.bolts >= 0\n(EngineCore pid=1) AssertionError\n"
           "(APIServer pid=2) ERROR 03-17 12:30:26 [async_llm.py:546] AsyncLLM output_handler failed.\n"
           "(APIServer pid=2) ERROR 03-17 12:30:26 [async_llm.py:546] Traceback (most recent call last):\n"
           f'(APIServer pid=2) ERROR 03-17 12:30:26 [async_llm.py:546]   File "{SITE}/vll\n')
    failure = failure_of(log)
    assert (failure.exception, failure.message) == ("AssertionError", "assert request.bolts >= 0")


def test_a_traceback_whose_exception_is_cut_off() -> None:
    log = ("Traceback (most recent call last):\n"
           f'  File "{SITE}/vllm/model_executor/offloader/uva.py", line 56, in wrap\n'
           '    assert tensor.fits(), "the widget must be pinned"\n')
    failure = failure_of(log)
    assert (failure.exception, failure.message, failure.feature) == (
        "AssertionError", "the widget must be pinned", "offload")


@pytest.mark.parametrize("end", ["ERROR 08-13 15:2", "ERROR 08-13 15:22:52 [eng", "(Worker_TP0 pid=7) ERROR 08-13", "ERROR"])
def test_a_record_that_is_cut_within_its_prefix_says_nothing(end: str) -> None:
    failure = failure_of("ERROR 08-13 15:22:51 [engine.py:458] the widget is bent\n"
                         "ERROR 08-13 15:22:51 [engine.py:458] Traceback (most recent call last):\n"
                         f'ERROR 08-13 15:22:51 [engine.py:458]   File "{SITE}/vllm/engine/widgets.py", line 1, in f\n{end}')
    assert failure.message == "the widget is bent"


def test_a_message_that_the_engine_repeats_is_said_once() -> None:
    failure = failure_of("ERROR 08-13 15:22:51 [worker_base.py:622] RuntimeError: widget error\n"
                         "ERROR 08-13 15:22:51 [engine.py:458] widget error\n")
    assert (failure.exception, failure.message) == ("RuntimeError", "widget error")


def test_a_device_that_is_full_in_a_phase_that_the_log_does_not_show() -> None:
    log = ("$ vllm serve org/m -tp 2 --gpu-memory-utilization 0.8\n"
           "RuntimeError: NPU out of memory. Tried to allocate 2.50 GiB (NPU 1; 60.00 GiB total capacity; 57.00 GiB already "
           "allocated; 57.00 GiB current active; 1.00 GiB free; 57.50 GiB reserved in total by PyTorch)\n")
    report = diagnose(log.encode())
    assert report.primary is None
    assert [dict(fix.flags) for fix in failure_of(log).fixes][:2] == [
        {"--tensor-parallel-size": "4"}, {"--gpu-memory-utilization": "0.75"}]
    assert "does not show whether the server was starting or serving" in failure_status(report)


def test_a_device_without_memory_and_without_numbers() -> None:
    assert failure_of("RuntimeError: NPU out of memory.\n").fixes[0].id == "lower-max-num-seqs"


def test_own_code_is_named() -> None:
    log = STARTED + ASGI + '  File "/srv/gateway/auth.py", line 22, in dispatch\n    user = claims["sub"]\nKeyError: \'sub\'\n'
    failure = failure_of(log)
    assert failure.own_frame == Place(None, "/srv/gateway/auth.py", "dispatch", 22)
    assert (failure.kind, failure.feature) == ("other-software", "other-software")
    assert 'File "/srv/gateway/auth.py", line 22, in dispatch' in failure.text


def test_own_code_is_corrected_before_a_part_of_vllm_is_turned_off() -> None:
    log = "INFO 05-06 10:00:01 [api_utils.py:286] non-default args: {'model': '/models/a'}\n" + traceback(
        ("vllm/v1/metrics/loggers.py", 413, "__init__", "self.loggers[index] = factory(config, index)"),
        ("/srv/plugins/usage_log.py", 22, "__init__", "self.target = TARGETS[index]"), error="KeyError: 3")
    assert next(fix.id for fix in failure_of(log).fixes) == "correct-plugin-file"


def test_a_call_that_vllm_refuses_is_corrected_in_the_script() -> None:
    log = "INFO 05-06 10:00:01 [core.py:109] Initializing a V1 LLM engine (v0.20.2) with config: model='/models/a'\n" + traceback(
        ("/srv/app/label.py", 14, "<module>", "llm.generate(rows)"),
        ("vllm/renderers/inputs/preprocess.py", 160, "parse_dec_only_prompt", 'raise TypeError("Rows of a table are not supported")'),
        error="TypeError: Rows of a table are not supported")
    failure = failure_of(log)
    assert failure.kind == "other-software"
    assert [fix.title for fix in failure.fixes] == ["Correct the call of vLLM in /srv/app/label.py"]


def test_an_assertion_on_the_arguments_of_a_call_is_of_the_script() -> None:
    log = "INFO 05-06 10:00:01 [core.py:109] Initializing a V1 LLM engine (v0.20.2) with config: model='/models/a'\n" + traceback(
        ("/srv/app/label.py", 14, "<module>", "params = SamplingParams(stop=words)"),
        ("vllm/sampling_params.py", 428, "_verify_args", "assert isinstance(self.stop, list)"), error="AssertionError")
    assert [fix.title for fix in failure_of(log).fixes] == ["Correct the call of vLLM in /srv/app/label.py"]
    inner = log.replace("vllm/sampling_params.py", "vllm/inputs/preprocess.py")
    assert "correct-script" not in [fix.action for fix in failure_of(inner).fixes]


@pytest.mark.parametrize(("said", "newer"), [("must be above 3", False), ("is not supported yet", True)])
def test_a_newer_release_is_tried_where_this_one_cannot_do_what_is_set(said: str, newer: bool) -> None:
    log = traceback(("vllm/config/shelf.py", 14, "_check", "raise ValueError(text)"), error=f"ValueError: The shelf {said}")
    assert ("upgrade-vllm" in [fix.action for fix in failure_of(log).fixes]) == newer


def test_a_name_that_only_older_releases_have() -> None:
    report = diagnose(b"ImportError: cannot import name 'SamplingMetadata' from 'vllm.model_executor' "
                      b"(/opt/venv/lib/python3.12/site-packages/vllm/model_executor/__init__.py)\n")
    assert (report.primary, report.status) == (None, "failed")
    assert report.failure is not None
    actions = [fix.action for fix in report.failure.fixes]
    assert actions[0] == "downgrade-vllm"
    assert "upgrade-vllm" not in actions


def test_an_answer_of_500_fails_the_server_and_one_of_404_only_the_request() -> None:
    log = STARTED + 'INFO:     10.0.0.1:5 - "POST /v1/completions HTTP/1.1" {} \n'
    failed = diagnose(log.format("500 Internal Server Error").encode())
    assert failed.failure is not None
    assert (failed.failure.message, failed.failure.feature, failed.worst()) == ("500 Internal Server Error", "api-server", "error")
    missed = diagnose(log.format("404 Not Found").encode())
    assert missed.failure is not None
    assert (missed.failure.kind, missed.failure.message, missed.failure.counts) == ("request", "404 Not Found", False)
    assert (missed.status, missed.worst()) == ("serving", "info")


@pytest.mark.parametrize("noise", [
    "WARNING 10-08 20:33:48 [x.py:1] Failed to import from vllm._C with ImportError('no widget')\n",
    "Exception ignored in: <function Widget.__del__ at 0x7f>\n" + traceback(
        ("/usr/lib/python3.12/threading.py", 3, "_shutdown", "x()"), error="RuntimeError: the widget is gone"),
    traceback((f"{SITE}/vllm/v1/worker/gpu_worker.py", 9, "shutdown", "x()"), error="RuntimeError: the widget is gone"),
    traceback(("/usr/lib/python3.12/multiprocessing/resource_tracker.py", 239, "main", "cache[rtype].remove(name)"), error="KeyError: '/psm_1'"),
])
def test_what_is_tolerated_or_raised_at_the_end_is_no_failure(noise: str) -> None:
    stop = ("INFO:     Shutting down\nINFO:     Waiting for application shutdown.\n"
            "INFO:     Application shutdown complete.\nINFO:     Finished server process [1]\n")
    report = diagnose((STARTED + stop + noise).encode())
    assert (report.failure, report.status) == (None, "stopped")
    report = diagnose((noise + STARTED).encode())
    assert (report.failure, report.status) == (None, "serving")


def test_the_message_is_capped() -> None:
    assert len(failure_of("ValueError: " + "widget " * 9000 + "\n").message) == 4096


LOGS = [
    DRAFT,
    "ValueError: the widget is bent\n",
    traceback((f"{SITE}/vllm/lora/widgets.py", 9, "load", "raise"), error="IndexError: no widget of 3"),
    STARTED + ASGI + f'  File "{SITE}/vllm/entrypoints/openai/serving_chat.py", line 1, in f\n    x()\nTypeError: 3 widgets\n',
]


@given(st.sampled_from(LOGS), st.lists(st.integers(1, 40), max_size=12))
@settings(max_examples=30, deadline=None)
def test_chunks_do_not_change_the_failure(log: str, cuts: list[int]) -> None:
    data, at = log.encode(), 0
    diagnosis = Diagnosis()
    for size in cuts:
        diagnosis.feed(data[at:at + size])
        at += size
    diagnosis.feed(data[at:])
    assert diagnosis.finish().failure == diagnose(data).failure


PREFIXES = ["(EngineCore_DP0 pid=12) ", "(Worker_TP1 pid=7) ERROR 10-08 20:33:48 [multiproc_executor.py:671] ",
            "ERROR 10-08 20:33:48 [core.py:9] ", "vllm-1  | ", "2026-01-02T03:04:05.678Z ", "> "]


@given(st.sampled_from(LOGS[:3]), st.sampled_from(PREFIXES))
@settings(max_examples=30, deadline=None)
def test_prefixes_and_wrappers_do_not_change_the_failure(log: str, prefix: str) -> None:
    plain = failure_of(log)
    wrapped = failure_of("".join(f"{prefix}{line}\n" for line in log.splitlines()))
    assert (wrapped.exception, wrapped.message, wrapped.signature, wrapped.feature) == (
        plain.exception, plain.message, plain.signature, plain.feature)


@given(st.integers(0, 10 ** 9), st.integers(0, 65535), st.sampled_from(["/models/a/b", "/data/x/y/z", "/mnt/q/r"]))
@settings(max_examples=30, deadline=None)
def test_a_signature_does_not_depend_on_numbers_and_paths(number: int, port: int, path: str) -> None:
    log = "OSError: the widget {} of pid={} at 10.0.0.{}:{} was not found in {}\n"
    assert (failure_of(log.format(number, port, port % 256, port, path)).signature
            == failure_of(log.format(1, 2, 3, 4, "/opt/w/v")).signature)


def test_a_start_with_only_a_bare_exception_is_the_one_reported() -> None:
    head = ("INFO 11-20 10:00:00 [api_server.py:1839] vLLM API server version 0.11.0\n"
            "INFO 11-20 10:00:00 [utils.py:233] non-default args: {'model': '/models/a'}\n")
    report = diagnose(f"{head}ValueError: the third widget is too wide\n{head}".encode())
    assert (report.source.run, report.status) == (1, "failed")
    assert report.failure is not None
    assert (report.failure.line, report.failure.message) == (3, "the third widget is too wide")
    lone = diagnose((head + head).encode())
    assert (lone.source.run, lone.failure) == (2, None)


def test_an_exception_class_in_lower_case_ends_a_traceback() -> None:
    log = traceback((f"{SITE}/nixl/_api.py", 71, "register_memory", "self.agent.registerMem(descs)"),
                    error="nixl._bindings.nixlWidgetError: NIXL_ERR_WIDGET")
    failure = failure_of(log)
    assert (failure.exception, failure.message, failure.feature) == ("nixlWidgetError", "NIXL_ERR_WIDGET", "kv-transfer")


def test_the_exception_under_the_record_on_which_a_rule_fired_decides() -> None:
    prefix = "(Worker_TP0 pid=8) ERROR 05-01 15:00:23 [nixl_connector.py:1263] "
    calls = traceback((f"{SITE}/vllm/distributed/kv_transfer/kv_connector/v1/nixl_connector.py", 9, "_nixl_handshake",
                       "sock.recv()"), (f"{SITE}/zmq/sugar/socket.py", 65, "recv", "super().recv()"),
                      error="zmq.error.Again: Resource temporarily unavailable")
    log = f"{prefix}NIXL transfer failure: handshake_setup_failed | Context: {{}}\n" + "".join(
        f"{prefix}{line}\n" for line in calls.splitlines())
    failure = failure_of(log)
    assert (failure.exception, failure.message) == ("Again", "Resource temporarily unavailable")


def test_an_error_that_a_worker_passes_on_is_told_entirely() -> None:
    prefix = "ERROR 06-08 12:11:03 [core.py:500] "
    message = ("RuntimeError: Worker failed with error 'Dynamo failed to run FX node with fake tensors: call_function mul\n"
               "\nfrom user code:\n"
               f'   File "{SITE}/vllm/model_executor/models/widget.py", line 2, in forward\n    a * b\n'
               '\nSet TORCH_LOGS="+dynamo"\n\', please check the stack trace above for the root cause')
    log = "".join(f"{prefix}{line}\n" for line in (traceback(
        (f"{SITE}/vllm/v1/executor/multiproc_executor.py", 202, "get_response", "raise RuntimeError("), error=message)).splitlines())
    failure = failure_of(log)
    assert failure.exception == "RuntimeError"  # the class that the log shows
    assert failure.message.startswith("Dynamo failed to run FX node with fake tensors: call_function mul\n")
    assert failure.message.endswith('Set TORCH_LOGS="+dynamo"')


def test_a_worker_s_error_is_reported_without_the_words_of_the_engine() -> None:
    waiting = (f"{SITE}/vllm/v1/executor/multiproc_executor.py", 371, "get_response", "raise RuntimeError(")
    log = traceback(waiting, error="RuntimeError: Worker failed with error ''WidgetNorm' object has no attribute 'gate'',"
                    " please check the stack trace above for the root cause")
    log = "".join(f"(EngineCore pid=88) ERROR 03-02 10:11:12 [core.py:1090] {line}\n" for line in log.splitlines())
    log += "(EngineCore pid=88) ERROR 03-02 10:11:13 [multiproc_executor.py:247] Worker proc VllmWorker-1 died unexpectedly, shutting down executor.\n"
    failure = failure_of(log)
    assert (failure.exception, failure.message) == ("AttributeError", "'WidgetNorm' object has no attribute 'gate'")
    assert failure.origin is None  # the calls are those of the engine that waited
    assert failure.fixes[0].action == "find-worker-traceback"


def test_a_worker_s_error_goes_before_a_traceback_without_its_end() -> None:
    log = ("(EngineCore pid=88) RuntimeError: Worker failed with error ''bent_widget'', please check the stack trace above for the root cause\n"
           "(APIServer pid=80) Traceback (most recent call last):\n"
           f'(APIServer pid=80)   File "{SITE}/vllm/entrypoints/cli/serve.py", line 148, in cmd\n'
           "(APIServer pid=80)     uvloop.run(run_server(args))\n")
    failure = failure_of(log)
    assert (failure.exception, failure.message) == ("KeyError", "'bent_widget'")


def test_the_calls_of_a_notebook_are_read_past_its_arrows() -> None:
    log = ("KeyError                                  Traceback (most recent call last)\n"
           "Cell In[3], line 2\n"
           "      1 from vllm import LLM\n"
           "----> 2 llm = LLM(path)\n"
           "\n"
           "File ~/env/lib/python3.11/site-packages/vllm/lora/widgets.py:9, in Widgets.get(self, name)\n"
           "      8 # the widget\n"
           "----> 9 return self.known[name]\n"
           "\n"
           "KeyError: 'bent'\n")
    failure = failure_of(log)
    assert (failure.exception, failure.message, failure.feature) == ("KeyError", "'bent'", "lora")
    assert failure.origin == Place("vllm", "vllm/lora/widgets.py", "get", 9)


def test_the_command_line_of_another_program_is_that_program_s() -> None:
    log = ("INFO 05-19 17:20:56 [__init__.py:190] Automatically detected platform cuda.\n"
           "usage: widget\n"
           "Widget CLI: error: argument command: invalid choice: 'serve' (choose from 'bend', 'mend')\n")
    failure = failure_of(log)
    assert (failure.exception, failure.feature, failure.kind) == (None, "other-software", "other-software")
    assert failure.message == "argument command: invalid choice: 'serve' (choose from 'bend', 'mend')"
    assert failure.fixes[0].action == "install-package"


def test_words_of_vllm_do_not_decide_for_a_program_that_never_called_it() -> None:
    log = traceback((f"{SITE}/widgetry/core/worker.py", 3, "launch", "kwargs.pop('reasoning_content')"),
                    error="KeyError: 'reasoning_content'")
    failure = failure_of(log)
    assert (failure.feature, failure.kind) == ("other-software", "other-software")


def test_a_request_that_fails_counts_although_the_log_begins_in_service() -> None:
    calls = traceback((f"{SITE}/vllm/entrypoints/openai/serving_chat.py", 9, "chat_completion_stream_generator",
                       "parser.widgets[0]"), error="IndexError: list index out of range")
    log = "".join(f"ERROR 12-12 14:20:07 [serving_chat.py:1278] {line}\n" for line in calls.splitlines())
    log += 'INFO:     10.2.0.7:44120 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    report = diagnose(log.encode())
    assert report.failure is not None
    assert (report.failure.exception, report.worst()) == ("IndexError", "error")


def test_an_optional_import_that_is_missing_is_to_be_installed() -> None:
    log = traceback((f"{SITE}/vllm_omni/widgets.py", 3, "__init__", "raise ImportError("), error="ImportError: Widgets not available")
    assert failure_of(log).fixes[0].action == "install-package"


def test_a_rejected_request_names_the_flag_of_the_server_that_admits_it() -> None:
    log = ("INFO 11-24 15:20:01 [utils.py:233] non-default args: {'model_tag': '/models/a'}\n"
           "INFO:     Application startup complete.\n"
           + traceback(("vllm/entrypoints/openai/serving_chat.py", 223, "create_chat_completion", "x = parse()"),
                       ("vllm/entrypoints/chat_utils.py", 1051, "parse_image_embeds", "raise ValueError("),
                       error="ValueError: You must set `--enable-mm-embeds` to input `image_embeds`"))
    failure = failure_of(log)
    assert (failure.kind, failure.fixes[0].flags) == ("request", {"--enable-mm-embeds": ""})
    assert failure.fixes[1].id == "correct-request-value"


def test_a_rejection_without_a_rule_is_followed_to_the_flag() -> None:
    log = ("INFO 11-24 15:20:01 [utils.py:233] non-default args: {'model_tag': '/models/a', 'enable_elastic_ep': True}\n"
           + traceback(("vllm/v1/worker/cpu_model_runner.py", 127, "load_model", "raise ValueError("),
                       error="ValueError: Dummy weights of elastic EP are not supported by the CPU Model Runner."))
    failure = failure_of(log)
    assert (failure.kind, failure.fixes[0].unset) == ("refusal", ("--enable-elastic-ep",))


def test_a_cache_of_the_hub_that_cannot_be_written_gets_another_folder() -> None:
    failure = failure_of("There was a problem when trying to write in your cache folder (/.cache/huggingface/hub). "
                         "You should set the environment variable TRANSFORMERS_CACHE to a writable directory.\n")
    assert (failure.fixes[0].env, failure.feature) == ({"HF_HOME": "/tmp/huggingface"}, "environment")


@pytest.mark.parametrize(("line", "feature"), [
    ("jinja2.exceptions.WidgetError: bent", "tokenizer"),
    ("torch._dynamo.exc.BentWidget: bent", "compilation"),
    ("huggingface_hub.errors.WidgetError: bent", "model-loading"),
    ("nixl._bindings.nixlWidgetError: bent", "kv-transfer"),
    ("AssertionError: Tried to load weights of size torch.Size([4])to a parameter of size torch.Size([3])", "model-loading"),
    ("RuntimeError: This flash attention build does not support the widget", "attention"),
    ("vllm serve: error: the following arguments are required: widget", "config"),
    ("openai_harmony.HarmonyError: unexpected tokens remaining in message header", "reasoning"),
    ("AttributeError: module 'widgetry.rollout' has no attribute 'Bent'", "environment"),
    ("KeyError: 'layers.5.widget_proj.weight'", "model-loading"),
    ("ValueError: There is no module or parameter named 'widget' in Eagle3LlamaForCausalLM.", "speculative-decoding"),
    ("ValueError: There is no module or parameter named 'widget' in LlamaForCausalLM.", "model-loading"),
    ("ValueError: Model architectures ['EagleWidgetForCausalLM'] are not supported for now.", "speculative-decoding"),
    (("ValueError: Model architectures ['WidgetForCausalLM'] are not supported for now. Supported architectures: "
      "dict_keys(['EagleLlamaForCausalLM'])"), "model-class"),
])
def test_the_feature_of_one_line(line: str, feature: str) -> None:
    assert failure_of(line + "\n").feature == feature


def test_a_text_of_vllm_does_not_decide_where_its_calls_are_shown() -> None:
    log = traceback((f"{SITE}/vllm/lora/widgets.py", 7, "bend", "raise ValueError("),
                    error="ValueError: Weight input_size_per_partition = 9 is not divisible by min_thread_k = 4.")
    assert failure_of(log).feature == "lora"


def test_the_tracer_around_a_call_is_no_part_that_failed() -> None:
    log = traceback(
        (f"{SITE}/vllm/tracing/otel.py", 178, "sync_wrapper", "return func(*args, **kwargs)"),
        (f"{SITE}/vllm/v1/worker/worker_base.py", 319, "init_worker", "self.worker = worker_class(**kwargs)"),
        error="TypeError: Worker.__init__() missing 1 required positional argument: 'rank'")
    assert failure_of(STARTED + log).feature != "metrics"


def test_shared_layers_do_not_hide_the_part_that_calls_them() -> None:
    log = traceback((f"{SITE}/vllm/v1/sample/sampler.py", 286, "apply_penalties", "return apply_all_penalties("),
                    (f"{SITE}/vllm/model_executor/layers/utils.py", 62, "apply_penalties", "widgets = mask("),
                    (f"{SITE}/vllm/model_executor/layers/utils.py", 39, "mask", "bins.scatter_add_(1)"),
                    error="IndexError: the widget is bent")
    assert failure_of(log).feature == "sampling"


def test_a_selection_of_the_attention_backend_is_no_matter_of_the_platform() -> None:
    log = traceback((f"{SITE}/vllm/platforms/cuda.py", 322, "get_attn_backend_cls", "raise ValueError("),
                    error="ValueError: the widget is not valid for this configuration")
    assert failure_of(log).feature == "attention"


def test_a_paste_may_begin_within_the_path_of_a_call() -> None:
    failure = failure_of('vllm/lora/widgets.py", line 7, in bend\n    assert widget % 2\nAssertionError\n')
    assert failure.origin == Place("vllm", "vllm/lora/widgets.py", "bend", 7)
    assert (failure.exception, failure.feature) == ("AssertionError", "lora")


def test_an_assertion_in_native_code_is_refused_before_the_abort() -> None:
    assertion = "python3: /project/lib/Allocation.cpp:43: mlir::triton::widgets(): Assertion `bent && \"widget\"' failed."
    failure = failure_of(f"{assertion}\nAborted (core dumped)\n")
    assert (failure.exception, failure.message, failure.feature) == (None, assertion, "compilation")


def test_the_calls_of_a_notebook_with_links() -> None:
    log = ("KeyError                                  Traceback (most recent call last)\n"
           "[/usr/lib/python3.11/dist-packages/vllm/lora/widgets.py](https://localhost:8080/#) in get(self, name)\n"
           "      8 # the widget\n"
           "----> [9](file:///widgets.py?line=8) return self.known[name]\n\n"
           "KeyError: 'bent'\n")
    failure = failure_of(log)
    assert failure.origin == Place("vllm", "vllm/lora/widgets.py", "get", 0)
    assert failure.feature == "lora"


def test_of_consequences_the_one_with_a_message_of_its_own_is_reported() -> None:
    log = ("ray.exceptions.RayTaskError(ActorDiedError): ray::Widgets.bend() (pid=4, ip=10.0.0.1)\n"
           "ray.exceptions.ActorDiedError: The actor died because of an error raised in its creation task\n"
           "RuntimeError: Engine core initialization failed. See root cause above.\n")
    failure = failure_of(log)
    assert (failure.exception, failure.message) == ("RuntimeError", "Engine core initialization failed. See root cause above.")
    assert [fix.action for fix in failure.fixes] in ([], ["find-root-cause-above"])  # none where a rule explains it


def test_compiled_modules_belong_to_their_package() -> None:
    log = traceback((f"{SITE}/vllm/v1/structured_output/backend_xgrammar.py", 82, "compile_grammar", "self.compiler.bend("),
                    ("python/tvm_ffi/cython/function.pxi", 929, "tvm_ffi.core.Function.__call__", ""),
                    error="RuntimeError: the widget is bent")
    failure = failure_of(log)
    assert failure.origin == Place("tvm_ffi", "tvm_ffi/cython/function.pxi", "tvm_ffi.core.Function.__call__", 929)
    assert (failure.feature, failure.kind, failure.own_frame) == ("structured-output", "library", None)


@pytest.mark.parametrize(("line", "feature"), [
    ("CMake Error at cmake/widgets.cmake:188 (message):", "environment"),
    ("ERROR: No matching distribution found for widgetry==2.6.0", "environment"),
    ("AssertionError: vLLM only supports Linux platform (including WSL).", "platform"),
    ("AttributeError: 'WidgetTokenizer' object has no attribute 'bent'", "tokenizer"),
])
def test_the_feature_of_an_installation_or_tokenizer(line: str, feature: str) -> None:
    assert failure_of(line + "\n").feature == feature


@pytest.mark.parametrize(("line", "feature"), [
    ("ValueError: Unsupported kv_role: bent", "kv-transfer"),
    ("ValueError: presence_penalty must be in [-2, 2], got 9.", "sampling"),
    ("ValueError: Modality widget not found. Available modalities: image", "multimodal"),
    ("ValueError: Cannot set both `add_generation_prompt` and `continue_final_message` to True.", "tokenizer"),
    ("ValueError: Invalid backend for piecewise compilation: bent", "compilation"),
    ("AssertionError: num_micro_batches must be greater than 1", "distributed"),
    ("RuntimeError: prob_m = 9 is not divisible by thread_m = 4", "quantization"),
    ("ValueError: Weight input_size_per_partition = 9 is not divisible by min_thread_k = 4.", "quantization"),
    ("ValueError: speculative_draft_tensor_parallel_size=4 cannot be other value than 1 or target model tensor_parallel_size",
     "speculative-decoding"),
])
def test_the_feature_of_a_message_of_vllm(line: str, feature: str) -> None:
    assert failure_of(line + "\n").feature == feature


@pytest.mark.parametrize(("calls", "error", "feature"), [
    ([("vllm/v1/worker/gpu_model_runner.py", "bend_kv_cache_widgets")], "AssertionError", "kv-cache"),
    ([("vllm/v1/worker/gpu_model_runner.py", "execute_model")], "AssertionError", None),
    ([("vllm/model_executor/models/widget.py", "load_weights")], "KeyError: 'widget.4.bent'", "model-loading"),
    ([("vllm/model_executor/models/widget.py", "forward")], "KeyError: 'widget.4.bent'", "model-class"),
    ([("vllm/v1/spec_decode/widgets.py", "load_model"), ("vllm/model_executor/parameter.py", "load_row_parallel_weight")],
     "AssertionError", "speculative-decoding"),
    ([("vllm_ascend/spec_decode/widgets.py", "propose")],
     "TypeError: AscendWidgetBuilder.bend() missing 1 required positional argument: 'x'", "speculative-decoding"),
    ([("vllm/lora/widgets.py", "bend"), ("triton/runtime/jit.py", "run"), ("triton/backends/nvidia/driver.py", "__call__")],
     "RuntimeError: Triton Error [CUDA]: the widget is bent", "lora"),
    ([("triton/runtime/jit.py", "run")], "RuntimeError: Triton Error [CUDA]: the widget is bent", "compilation"),
    ([("transformers/models/widget/processing_widget.py", "__init__")], "AttributeError: no bent widget", "multimodal"),
    ([("vllm/utils/deep_gemm.py", "fp8_gemm_nt")], "RuntimeError: Assertion error (layout.hpp:76): bent", "quantization"),
    ([("vllm/utils/deep_gemm.py", "m_grouped_fp8_gemm")], "RuntimeError: Assertion error (layout.hpp:76): bent", "moe"),
])
def test_the_feature_of_calls(calls: list[tuple[str, str]], error: str, feature: str | None) -> None:
    log = traceback(*[(f"{SITE}/{file}", 7, function, "widget(") for file, function in calls], error=error)
    assert failure_of(log).feature == feature


def test_the_source_line_tells_what_an_answer_is_read_by() -> None:
    log = traceback((f"{SITE}/vllm/entrypoints/openai/widgets.py", 7, "stream", "sent = tool_parser.widgets[index]"),
                    error="IndexError: list index out of range")
    assert failure_of(log).feature == "tool-calling"


def test_a_library_that_lacks_a_name_of_vllm_is_no_other_software() -> None:
    log = ('  File "/srv/site-packages/transformers/models/widget/processing_widget.py", line 124, in __init__\n'
           "AttributeError: 'MistralTokenizer' object has no attribute 'convert_tokens_to_ids'\n")
    assert failure_of(log).feature == "multimodal"


@pytest.mark.parametrize(("calls", "phase"), [
    (["init_device"], "distributed-init"),
    (["create_engine_config"], "config"),
    (["_initialize_kv_caches", "load_model"], "weights"),
    (["_initialize_kv_caches", "determine_available_memory", "profile_cudagraph_memory", "capture_model"], "profiling"),
    (["_initialize_kv_caches", "compile_or_warm_up_model", "execute_model"], "graph-capture"),
    (["_initialize_kv_caches", "initialize_from_config"], "kv-cache"),
    (["run_busy_loop", "execute_model", "load_model"], "runtime"),
    (["worker_busy_loop", "execute_model"], "runtime"),
    (["widget"], None),
])
def test_the_phase_of_calls(calls: list[str], phase: str | None) -> None:
    log = traceback(*[(f"{SITE}/vllm/v1/worker/gpu_worker.py", 7, function, "widget(") for function in calls],
                    error="AssertionError: the widget is bent")
    assert diagnose(log.encode()).phase == phase


def test_calls_do_not_set_the_phase_back_and_only_those_of_vllm_count() -> None:
    log = traceback((f"{SITE}/vllm/v1/worker/gpu_worker.py", 7, "load_model", "widget("), error="AssertionError: bent")
    assert diagnose(("INFO 07-20 11:02:41 [x.py:1] Graph capturing finished in 1 secs, took 0.1 GiB\n" + log).encode()).phase == (
        "graph-capture")
    own = traceback(("/home/user/train.py", 7, "load_model", "widget("), error="AssertionError: bent")
    assert diagnose(own.encode()).phase is None


def test_a_path_that_a_paste_shortened_is_that_of_vllm_if_it_has_the_function() -> None:
    log = traceback(("mamba_utils.py", 118, "collect_mamba_copy_meta", "widgets[9]"), error="IndexError: bent")
    failure = failure_of(log)
    assert failure.origin == Place("vllm", "vllm/v1/worker/mamba_utils.py", "collect_mamba_copy_meta", 118)
    assert (failure.feature, failure.kind) == ("prefix-caching", "bug")
    assert failure.text.startswith('  File "mamba_utils.py", line 118')  # as the log has it
    own = failure_of(traceback(("mamba_utils.py", 118, "bend_widgets", "widgets[9]"), error="IndexError: bent"))
    assert (own.origin, own.kind) == (Place(None, "mamba_utils.py", "bend_widgets", 118), "other-software")


def test_the_stack_below_a_crash_is_read_from_its_deepest_call() -> None:
    failure = failure_of(
        "Fatal Python error: Segmentation fault\n\n"
        "Thread 0x00007f2b3effd640 (most recent call first):\n"
        '  File "/usr/lib/python3.12/threading.py", line 359 in wait\n\n'
        "Current thread 0x00007f2e1d3fa740 (most recent call first):\n"
        f'  File "{SITE}/nixl/_api.py", line 432 in add_widget\n'
        f'  File "{SITE}/vllm/v1/worker/gpu_worker.py", line 700 in execute_model\n\n'
        "Extension modules: numpy._core._multiarray_umath (total: 40)\n")
    assert failure.message == "Fatal Python error: Segmentation fault"
    assert failure.origin == Place("nixl", "nixl/_api.py", "add_widget", 432)
    assert failure.vllm_frame == Place("vllm", "vllm/v1/worker/gpu_worker.py", "execute_model", 700)
    assert failure.feature == "kv-transfer"


@pytest.mark.parametrize(("symbol", "feature"), [
    ('  File "<unknown>", line 0, in nixlAgent::bendWidgets(std::string const&)', "kv-transfer"),
    ("#3  0x00007f2e1d3fa740 in ncclBendWidgets () from /usr/lib/libnccl.so.2", "distributed"),
    (" 4  /usr/lib/libucs.so.0(ucp_bend_widgets+0x2dc) [0x7f01]", "kv-transfer"),
    ("#3  0x00007f2e1d3fa740 in bend_widgets () from /usr/lib/libgcc_s.so.1", None),
])
def test_the_symbols_of_a_crash_name_the_feature(symbol: str, feature: str | None) -> None:
    failure = failure_of(f"!!!!!!! Segfault encountered !!!!!!!\n{symbol}\n")
    assert (failure.feature, failure.origin) == (feature, None)


def test_of_two_exceptions_of_a_class_the_one_with_words_is_reported() -> None:
    inner = traceback((f"{SITE}/vllm/v1/executor/widgets.py", 9, "bend", "raise TimeoutError"), error="TimeoutError")
    outer = traceback((f"{SITE}/vllm/v1/executor/widgets.py", 7, "wait", "raise TimeoutError("),
                      error="TimeoutError: RPC call to bend_widgets timed out.")
    record = "ERROR 01-09 03:49:46 [core.py:902] "
    text = inner + "\nThe above exception was the direct cause of the following exception:\n   \n" + outer
    failure = failure_of("".join(f"{record}{line}\n" for line in text.splitlines()))
    assert (failure.exception, failure.message) == ("TimeoutError", "RPC call to bend_widgets timed out.")
    assert failure.feature == "distributed"


@pytest.mark.parametrize("line", ["`ValueError: the widget is bent`", "**ValueError: the widget is bent**",
                                  "> ```ValueError: the widget is bent```"])
def test_a_line_that_a_page_marks_as_code_or_bold(line: str) -> None:
    failure = failure_of(line + "\n")
    assert (failure.exception, failure.message) == ("ValueError", "the widget is bent")


def test_a_fault_in_a_plugin_is_no_matter_of_other_software() -> None:
    log = traceback(("/vllm-workspace/vllm-ascend/vllm_ascend/worker/model_runner_v1.py", 7, "_allocate_kv_cache_widgets",
                     "assert widget % 2"), error="AssertionError")
    report = diagnose(log.encode())
    assert report.failure is not None
    assert (report.failure.kind, report.failure.feature, report.phase) == ("library", "kv-cache", "kv-cache")


def test_calls_prove_that_a_kernel_is_in_use() -> None:
    log = traceback((f"{SITE}/vllm/utils/deep_gemm.py", 453, "fp8_gemm_nt", "return widget("),
                    error="RuntimeError: Assertion error (widgets.hpp:76): bent")
    assert failure_of(log).fixes[0].env == {"VLLM_USE_DEEP_GEMM": "0"}


def test_a_fault_in_a_worker_is_not_that_of_the_offline_interface() -> None:
    log = traceback((f"{SITE}/vllm/entrypoints/llm.py", 560, "encode", "outputs = self._run_engine()"),
                    (f"{SITE}/vllm/worker/embedding_model_runner.py", 121, "execute_model", "self.model.widget("),
                    error="RuntimeError: the widget of the pooler is bent")
    assert failure_of(log).feature == "pooling"


def test_the_output_of_a_command_says_more_than_that_it_failed() -> None:
    inner = traceback(("/usr/lib/python3.12/subprocess.py", 571, "run", "raise CalledProcessError("),
                      error="subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.")
    outer = traceback((f"{SITE}/flashinfer/jit/widgets.py", 7, "run_ninja", "raise RuntimeError(msg) from e"),
                      error="RuntimeError: Ninja build failed. Ninja output: the widget is bent")
    text = inner + "\nThe above exception was the direct cause of the following exception:\n \n" + outer
    failure = failure_of("".join(f"ERROR 01-09 03:49:46 [core.py:902] {line}\n" for line in text.splitlines()))
    assert (failure.exception, failure.message) == ("RuntimeError", "Ninja build failed. Ninja output: the widget is bent")


def test_a_wrapper_that_has_no_words_of_the_error_gives_way_to_its_calls() -> None:
    inner = traceback(("/opt/vllm-ascend/vllm_ascend/spec_decode/widgets.py", 9, "bend", "assert widget"), error="AssertionError")
    outer = traceback(("/opt/vllm-ascend/vllm_ascend/worker/model_runner_v1.py", 7, "wrap", "raise RuntimeError("),
                      error="RuntimeError: NPUModelRunner failed, error is ")
    failure = failure_of(inner + "\nDuring handling of the above exception, another exception occurred:\n\n" + outer)
    assert (failure.exception, failure.feature) == ("AssertionError", "speculative-decoding")


@pytest.mark.parametrize(("class_name", "action"), [("VllmConfig", "follow-the-refusal"), ("ParallelConfig", "follow-the-refusal"),
                                                    ("ModelConfig", "correct-model-config")])
def test_what_to_change_depends_on_whose_values_the_refused_object_holds(class_name: str, action: str) -> None:
    log = traceback((f"{SITE}/vllm/engine/arg_utils.py", 2300, "create_engine_config", f"config = {class_name}("),
                    error=f"pydantic_core._pydantic_core.ValidationError: 1 validation error for {class_name}\n  Value error, widgets are bent [type=value_error, "
                          "input_value=ArgsKwargs((), {}), input_type=ArgsKwargs]")
    report = diagnose(log.encode())
    offered = report.failure.fixes if report.failure and report.primary is None else report.cause.fixes
    assert offered[0].action == action


def test_a_traceback_without_indentation_keeps_its_calls() -> None:
    failure = failure_of("Traceback (most recent call last):\n"
                         'File "/home/me/LLaMA-Factory/src/llamafactory/train/tuner.py", line 55, in _run\n'
                         "args = read_args(argv)\n"
                         'File "/home/me/LLaMA-Factory/src/llamafactory/hparams/parser.py", line 296, in read_args\n'
                         'raise ValueError("the widget is only available for API and CLI.")\n'
                         "ValueError: the widget is only available for API and CLI.\n")
    assert failure.origin == Place("llamafactory", "llamafactory/hparams/parser.py", "read_args", 296)
    assert (failure.feature, failure.kind) == ("other-software", "other-software")


def test_a_paste_without_indentation_keeps_its_calls_behind_prefixes() -> None:
    head = "(EngineCore pid=77) ERROR 06-20 20:33:13 [core.py:1100]"
    lines = (f'File "{SITE}/vllm/v1/widgets/manager.py", line 84, in _make_widget',
             "return self.backend.bend_widget(request)", "^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
             f'File "{SITE}/xgrammar/compiler.py", line 205, in bend', "self._handle.bend(", "^^^^^^^^^^^^^^^^^^",
             "RuntimeError: the widget is bent")
    failure = failure_of("".join(f"{head} {line}\n" for line in lines))
    assert failure.origin == Place("xgrammar", "xgrammar/compiler.py", "bend", 205)


def assertion_of_recurrent_layers(source: str) -> Failure:
    return failure_of(traceback(
        (f"{SITE}/vllm/v1/worker/gpu_model_runner.py", 1900, "_build_attn_group_metadata", "builder.build("),
        (f"{SITE}/vllm/v1/attention/backends/gdn_attn.py", 233, "build", source), error="AssertionError"))


def test_a_recurrent_layer_is_not_offered_another_attention_backend() -> None:
    failure = assertion_of_recurrent_layers("assert prefill_widgets is not None")
    assert failure.feature == "attention"
    assert not any("ATTN" in str((fix.flags, fix.env)) for fix in failure.fixes)


def test_the_source_line_in_an_attention_backend_names_speculative_decoding() -> None:
    failure = assertion_of_recurrent_layers("assert num_accepted_tokens is not None")
    assert failure.feature == "speculative-decoding"
    assert failure.fixes[0].unset == ("--speculative-config",)


def test_an_exception_right_below_a_call_is_not_its_source() -> None:
    failure = failure_of('Traceback (most recent call last):\nFile "widgets.pyx", line 3, in widgets.bend\n'
                         "ValueError: the widget is bent\n")
    assert (failure.exception, failure.message) == ("ValueError", "the widget is bent")


def test_the_next_record_is_not_part_of_a_message() -> None:
    prefix = "(EngineCore_DP0 pid=5) ERROR 10-10 13:20:05"
    failure = failure_of(f"{prefix} [widgets.py:30] ModuleNotFoundError: No module named 'widget_kernels.bend'\n"
                         f"{prefix} [core.py:708] EngineCore failed to start.\n")
    assert failure.message == "No module named 'widget_kernels.bend'"


def test_a_panic_s_message_ends_before_its_stack() -> None:
    failure = failure_of("thread 'worker' panicked at lib/worker.rs:247:17:\n"
                         "Failed to import python 'vllm' module. AttributeError: class must define a '_type_' attribute\n"
                         "stack backtrace:\n   0: rust_begin_unwind\n   1: tokio::runtime::scheduler::run\n")
    assert failure.message == "class must define a '_type_' attribute"
    assert (failure.feature, failure.kind) == ("environment", "environment")


@pytest.mark.parametrize("prefix", [
    "2024-09-19 17:03:37.118 1 kserve ERROR [__main__.py:<module>():259] ",
    "[2025-07-29 13:46:31,540] ERROR: ",
    "2026-01-02T10:00:01.123Z ERROR ",
])
def test_the_prefix_of_another_logger_is_not_part_of_the_message(prefix: str) -> None:
    assert failure_of(f"{prefix}Failed to start model server: the widget is bent\n").message == (
        "Failed to start model server: the widget is bent")


def test_a_proxy_that_cannot_reach_its_server_is_reported_with_its_answer() -> None:
    calls = traceback((f"{SITE}/vllm_router/services/request.py", 92, "process", "async with client.stream("),
                      (f"{SITE}/httpx/_transports/default.py", 118, "map_exceptions", "raise mapped from exc"),
                      error="httpx.ConnectError: All connection attempts failed")
    answer = 'INFO:     127.0.0.1:60088 - "POST /v1/chat/completions HTTP/1.1" {}\n'
    failure = failure_of("[2025-07-29 13:46:31,540] ERROR: Exception in ASGI application\n" + calls
                         + answer.format("500 Internal Server Error"))
    assert (failure.exception, failure.feature) == ("ConnectError", "other-software")
    assert failure.fixes[0].action == "check-server-address"
    assert diagnose((calls + answer.format("200 OK")).encode()).failure is None


def test_a_module_s_missing_attribute_is_a_fault_of_the_code_that_reads_it() -> None:
    lookup = (f"{SITE}/torch/nn/modules/module.py", 1928, "__getattr__", "raise AttributeError(")
    error = "AttributeError: 'WidgetForCausalLM' object has no attribute 'bend'"
    own = failure_of(traceback(("/home/me/train.py", 85, "__init__", "self.llm = model.bend"), lookup, error=error))
    assert (own.feature, own.kind) == ("other-software", "other-software")
    vllm = failure_of(traceback((f"{SITE}/vllm/model_executor/layers/quantization/fp8.py", 71, "apply", "layer.bend"),
                                lookup, error=error))
    assert (vllm.feature, vllm.kind) == ("quantization", "bug")


def test_a_build_by_an_installer_is_a_matter_of_the_environment() -> None:
    log = ("      Traceback (most recent call last):\n"
           f'        File "{SITE}/setuptools/build_meta.py", line 327, in _get_build_requires\n'
           "          self.run_setup()\n"
           '        File "<string>", line 341, in get_widget_version\n'
           "      RuntimeError: Unknown widget\n"
           "      [end of output]\n\n"
           "  note: This error originates from a subprocess, and is likely not a problem with pip.\n")
    failure = failure_of(log)
    assert (failure.message, failure.feature, failure.kind) == ("Unknown widget", "environment", "environment")


@pytest.mark.parametrize("word", ["headroom", "Bloom"])
def test_a_word_that_contains_oom_is_no_lack_of_memory(word: str) -> None:
    assert failure_of(f"RuntimeError: the widget has no {word}\n").kind != "resource"


def test_another_program_that_asks_for_a_newer_vllm() -> None:
    report = diagnose(traceback((f"{SITE}/unsloth_zoo/vllm_utils.py", 1503, "load_vllm", "raise RuntimeError("),
                                error="RuntimeError: The widget crashes.\nPlease update vLLM: pip install 'vllm>=0.11.2'"
                                ).encode())
    assert report.failure is not None
    assert [fix.action for fix in report.failure.fixes] == ["upgrade-vllm"]


@pytest.mark.parametrize("message", [
    "too many values to unpack (expected 2)", "substring not found", "'</widget>' is not in list",
    "invalid literal for int() with base 10: 'wide'",
])
def test_what_python_says_is_no_rejection_of_a_setting(message: str) -> None:
    log = traceback((f"{SITE}/vllm/multimodal/parse.py", 502, "_parse", "first, rate = self.read(item)"),
                    error=f"ValueError: {message}")
    assert failure_of(log).kind == "bug"
    assert failure_of(log.replace(message, "The widget must be straight.")).kind == "refusal"


def test_a_framework_in_a_library_is_other_software() -> None:
    log = traceback((f"{SITE}/ray/llm/_internal/serve/core/ingress/middleware.py", 88, "model_id", "body.get('model')"),
                    error="AttributeError: 'bytes' object has no attribute 'get'")
    assert (failure_of(log).feature, failure_of(log).kind) == ("ray", "other-software")


def test_a_part_of_an_installed_package_that_is_missing() -> None:
    failure = failure_of("ModuleNotFoundError: No module named 'widget_kernels.routing'\n")
    assert [fix.action for fix in failure.fixes] == ["reinstall-package", "reinstall-vllm-clean-env"]
    assert "widget_kernels" in failure.fixes[0].title
    assert failure_of("ModuleNotFoundError: No module named 'widget_kernels'\n").fixes[0].action == "install-package"


def test_a_record_of_a_native_library_counts() -> None:
    failure = failure_of("E20260608 14:45:44.404089 342420 widget_transport.cpp:1107] "
                         "Connect timeout to: 10.2.0.1:20033\n")
    assert failure.message == "Connect timeout to: 10.2.0.1:20033"


@pytest.mark.parametrize(("line", "feature"), [
    ("RuntimeError: Graph compile failed. synStatus=synStatus 26 [Generic failure].", "platform"),
    ("KeyError: 'model.layers.0.self_attn.qkv_proj.rows'", "model-loading"),
    ("KeyError: 'model.layers.0.self_attn.attn'", "attention"),
    ("RuntimeError: Failed: Assertion error csrc/utils/layout.hpp:57 'Unknown widget'", "moe"),
    ("RuntimeError: CUDA error: peer access is not supported between these two devices", "distributed"),
])
def test_the_feature_of_a_library_s_message(line: str, feature: str) -> None:
    assert failure_of(f"{line}\n").feature == feature


def test_a_body_that_is_no_json_is_a_fault_of_the_request() -> None:
    log = STARTED + traceback(
        (f"{SITE}/fastapi/routing.py", 422, "app", "json_body = await request.json()"),
        (f"{SITE}/starlette/requests.py", 267, "json", "self._json = json.loads(body)"),
        ("/usr/lib/python3.12/json/decoder.py", 353, "raw_decode", "obj, end = self.scan_once(s, idx)"),
        error="json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 16 (char 15)")
    failure = failure_of(log)
    assert (failure.kind, failure.feature) == ("request", "request")
    assert failure.fixes[0].action == "correct-request-value"


def test_a_file_in_another_encoding_is_a_fault_of_the_file() -> None:
    log = traceback(
        (f"{SITE}/vllm/model_executor/layers/fused_moe/widgets.py", 175, "read_widgets", "widgets = json.load(file)"),
        ("/usr/lib/python3.12/json/__init__.py", 293, "load", "return loads(fp.read(),"),
        ("<frozen codecs>", 322, "decode", ""),
        error="UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte")
    failure = failure_of(log)
    assert failure.kind == "refusal"
    assert [fix.action for fix in failure.fixes] == ["save-as-utf-8"]


def test_the_standard_library_is_no_package_to_install() -> None:
    log = STARTED + traceback(
        (f"{SITE}/uvicorn/server.py", 70, "serve", "await self._serve(sockets)"),
        ("/usr/lib/python3.12/json/decoder.py", 353, "raw_decode", "obj, end = self.scan_once(s, idx)"),
        error="json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)")
    assert [fix.action for fix in failure_of(log).fixes] == ["find-invalid-text"]


def test_an_error_that_the_standard_library_passes_on_is_found_above() -> None:
    log = STARTED + traceback(
        (f"{SITE}/uvicorn/server.py", 70, "serve", "await self._serve(sockets)"),
        ("/usr/lib/python3.12/asyncio/queues.py", 158, "get", "await getter"),
        error="ValueError: the other end is gone")
    assert [fix.action for fix in failure_of(log).fixes] == ["find-root-cause-above"]


def test_the_end_of_a_request_s_error_at_the_head_is_explained_by_the_next_one() -> None:
    head = "(APIServer pid=1) ERROR 08-28 20:53:08 [hermes_tool_parser.py:148] json.decoder.JSONDecodeError: Extra data\n"
    more = ('(APIServer pid=1) INFO:     10.0.0.4:33622 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
            "(APIServer pid=1) INFO 08-28 20:53:10 [loggers.py:123] Engine 000: Avg prompt throughput: 3.9 tokens/s, Avg "
            "generation throughput: 2.1 tokens/s, Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, Prefix cache "
            "hit rate: 5.4%\n")
    again = "(APIServer pid=1) ERROR 08-28 20:53:16 [hermes_tool_parser.py:148] Error in extracting tool call from response.\n"
    assert diagnose((head + more + again).encode()).primary == "tool-parser-error"
    assert diagnose((head + more).encode()).primary is None


def test_an_actor_of_ray_that_prints_itself_as_a_call_is_a_process() -> None:
    log = "".join(f"(TrainWorker(actor_train-1) pid=4121, ip=10.0.0.7) {line}\n" for line in traceback(
        ("/srv/train/run.py", 12, "main", "step()"), error="ValueError: widget 3 is odd").splitlines())
    failure = failure_of(log)
    assert (failure.exception, failure.message) == ("ValueError", "widget 3 is odd")
    assert failure_of(log.replace("ip=10.0.0.7", "")).message == "widget 3 is odd"


def test_a_client_that_cannot_reach_the_server_is_no_conflict_of_releases() -> None:
    log = traceback(
        ("/app/train.py", 88, "<module>", "trainer = GRPOTrainer(model=model, args=args)"),
        (f"{SITE}/trl/extras/vllm_client.py", 158, "check_server", "raise ConnectionError("),
        error="ConnectionError: The vLLM server can't be reached at http://0.0.0.0:8000 after 240.0 seconds.")
    assert [fix.action for fix in failure_of(log).fixes] == ["check-server-address"]


def test_an_error_of_nvml_is_the_machine_s() -> None:
    log = traceback(
        (f"{SITE}/vllm/platforms/cuda.py", 520, "get_device_name", "return pynvml.nvmlDeviceGetName(handle)"),
        (f"{SITE}/vllm/third_party/pynvml.py", 1042, "_nvmlCheckReturn", "raise NVMLError(ret)"),
        error="vllm.third_party.pynvml.NVMLError_NotSupported: Not Supported")
    failure = failure_of(log)
    assert (failure.kind, failure.fixes[0].action) == ("environment", "check-visible-gpus")


def test_an_error_of_one_s_own_code_is_no_call_of_vllm_and_no_conflict_of_releases() -> None:
    log = traceback(("/app/nb.py", 3, "<module>", "asyncio.run(main())"),
                    error="RuntimeError: the widget is bent")
    report = diagnose(log.encode())
    assert report.failure is not None
    assert [fix.action for fix in report.failure.fixes] == ["correct-script"]
    assert failure_place(report.failure) == "Raised in /app/nb.py:3 (<module>), your own code or a plugin."


def test_a_middleware_of_one_s_own_that_raises_is_named_and_can_be_left_out() -> None:
    log = ("INFO 11-24 15:20:01 [utils.py:233] non-default args: {'model_tag': '/models/a', 'middleware': ['ours.Quota']}\n"
           + STARTED + ASGI + f'  File "{SITE}/starlette/middleware/errors.py", line 164, in __call__\n'
           "    await self.app(scope, receive, _send)\n"
           '  File "/srv/app/ours.py", line 9, in __call__\n'
           "    team = headers['x-team']\n"
           "KeyError: 'x-team'\n"
           "INFO:     Shutting down\n"
           "INFO:     Waiting for application shutdown.\n"
           "INFO:     Application shutdown complete.\n")
    report = diagnose(log.encode())
    assert report.primary == "middleware-interface-wrong"
    assert headline(report) == "Custom middleware raises an exception in /srv/app/ours.py"
    assert [(fix.action, fix.unset) for fix in report.findings[0].fixes] == [
        ("correct-plugin-file", ()), (None, ("--middleware",))]


def test_an_attribute_that_one_s_own_model_class_reads_in_vain_is_no_failure_of_transformers() -> None:
    failure = failure_of(traceback(
        (f"{SITE}/vllm/model_executor/model_loader/utils.py", 63, "initialize_model", "model = model_class(**kwargs)"),
        ("/srv/plugins/ours_model.py", 5, "__init__", "self.scale = config.residual_scale"),
        (f"{SITE}/transformers/configuration_utils.py", 420, "__getattribute__", "return super().__getattribute__(key)"),
        error="AttributeError: 'LlamaConfig' object has no attribute 'residual_scale'"))
    assert failure.origin is not None
    assert failure.origin.file.endswith("ours_model.py")
    assert (failure.kind, failure.fixes[0].action) == ("other-software", "correct-plugin-file")


def test_a_variable_that_one_s_own_middleware_reads_in_vain_is_no_bug_of_vllm() -> None:
    failure = failure_of(traceback(
        (f"{SITE}/vllm/entrypoints/openai/api_server.py", 700, "build_app", "app.build_middleware_stack()"),
        ("/srv/plugins/ours_mw.py", 5, "__init__", "self.rps = int(os.environ['LIMIT_RPS'])"),
        ("<frozen os>", 679, "__getitem__", "raise KeyError(key) from None"),
        error="KeyError: 'LIMIT_RPS'"))
    assert failure.kind == "other-software"
    assert failure_place(failure).startswith("Raised in /srv/plugins/ours_mw.py:5 (__init__)")


def test_a_worker_of_v0_that_prints_the_message_before_a_traceback_which_the_paste_cuts() -> None:
    head = "(VllmWorkerProcess pid=139) ERROR 08-13 15:22:52 multiproc_worker_utils.py:226] "
    log = ("(VllmWorkerProcess pid=139) INFO 08-13 15:22:51 model_runner.py:732] Loading model weights took 11.4953 GB\n"
           f"{head}Exception in worker VllmWorkerProcess while processing method determine_num_available_blocks: "
           "shape '[1, 2]' is invalid for input of size 7, Traceback (most recent call last):\n"
           f'{head}  File "{SITE}/vllm/executor/multiproc_worker_utils.py", line 223, in _run_worker_process\n'
           f"{head}    output = executor(*args, **kwargs)\n")
    report = diagnose(log.encode())
    failure = failure_of(log)
    assert report.status == "failed"
    assert (failure.exception, failure.message) == (None, "shape '[1, 2]' is invalid for input of size 7")
    assert failure.origin is None


def test_an_exception_that_the_log_shows_alone_and_with_its_calls() -> None:
    error = "TypeError: widget_func() got an unexpected keyword argument 'rows'"
    failure = failure_of(error + "\n\nFull trace:\n" + traceback(
        (f"{SITE}/vllm/v1/attention/backends/widget_attn.py", 526, "forward", "widget_func("), error=error))
    assert failure.origin == Place("vllm", "vllm/v1/attention/backends/widget_attn.py", "forward", 526)


def test_a_field_of_a_request_that_the_release_does_not_know() -> None:
    failure = failure_of("openai.BadRequestError: Error code: 400 - {'object': 'error', 'message': \"[{'type': "
                         "'extra_forbidden', 'loc': ('body', 'widget_options'), 'msg': 'Extra inputs are not "
                         "permitted', 'input': {}}]\", 'type': 'BadRequestError', 'param': None, 'code': 400}\n")
    assert [fix.action for fix in failure.fixes][:2] == ["correct-request-value", "upgrade-vllm"]


def test_a_script_that_passes_another_object_than_a_method_takes() -> None:
    failure = failure_of(traceback(
        ("/srv/app/answers.py", 9, "<module>", "out = llm.chat(messages, adapter=Widget())"),
        (f"{SITE}/vllm/entrypoints/llm.py", 940, "chat", "number = adapter.lora_int_id"),
        error="AttributeError: 'Widget' object has no attribute 'lora_int_id'"))
    assert (failure.kind, failure.fixes[0].action) == ("other-software", "correct-script")


def test_settings_that_a_trainer_rejects_itself() -> None:
    rejected = traceback(
        (f"{SITE}/verl/trainer/main_ppo.py", 63, "main", "run_ppo(config)"),
        (f"{SITE}/verl/workers/widget_workers.py", 361, "_build_rollout", "assert size % parts == 0"),
        error="AssertionError: rollout widgets: 1 is not divisible by parts: 2")
    assert [fix.action for fix in failure_of(rejected).fixes][:2] == ["follow-the-refusal", "install-package"]


def test_a_call_in_a_cpp_stack_is_no_exception() -> None:
    log = ("[W1127 18:11:22.424236387 Widget.cpp:340] the widget is slow\n"
           "frame #1: c10::DistError::DistError(c10::SourceLocation, std::string) + 0x72 (0x7f6d89364bd2 in /opt/venv/lib/libc10.so)\n")
    failure = diagnose(log.encode()).failure
    assert failure is None or failure.exception != "DistError"


def status_of(log: str) -> str:
    return failure_status(diagnose(log.encode()))


def test_the_status_says_what_stands_beside_an_error() -> None:
    assert status_of("TypeError: 'NoneType' object is not callable\n") == (
        "The log has this error, but no other output of a server. "
        "No rule explains it yet; the log does not show whose code raised it.")
    records = "".join(f"INFO 08-04 11:20:3{second} [executor_base.py:227] It took 0.0{second} seconds to wake up.\n"
                      for second in range(4))
    assert status_of(records + "Fatal Python error: frozen_widgets: a bug in a C extension\n").startswith(
        "The log has this error, but not the start of the server.")


def test_the_file_of_vllm_that_has_an_error_is_named_where_no_call_is_shown() -> None:
    report = diagnose(b"AssertionError: expert parallel group is not initialized. EP group is only created for MoE models.\n")
    assert failure_status(report) == ("The log has this error, but no other output of a server. "
                                      "No rule explains it yet; errors of this kind are usually bugs in vLLM.")
    assert failure_place(report.failure) == "In vLLM, vllm/distributed/parallel_state.py has an error with these words."
    assert [fix.action for fix in report.failure.fixes] == ["upgrade-vllm", "report-bug", "downgrade-vllm"]


def test_few_words_in_common_name_no_file_of_vllm() -> None:
    log = "RuntimeError: invalid dst rank 3\n"  # torch.distributed has such an error as well
    assert failure_place(failure_of(log)) == ""
    assert status_of(log).endswith("the log does not show whose code raised it.")


def test_a_call_names_the_place_and_not_the_words() -> None:
    failure = failure_of(traceback((f"{SITE}/vllm_widgets/groups.py", 7, "group_of", "raise AssertionError(text)"),
                                   error="AssertionError: expert parallel group is not initialized. EP group is only created for MoE models."))
    assert failure.message_file == ""


def test_a_consequence_is_nobody_s_bug() -> None:
    log = "RuntimeError: Engine process failed to start. See stack trace for the root cause.\n"
    assert status_of(log) == "The log has this error, but no other output of a server."


def test_an_answer_that_breaks_off_is_a_consequence() -> None:
    failure = failure_of(traceback(
        ("/srv/bench/load.py", 61, "ask", "async for piece in answer.content:"),
        (f"{SITE}/aiohttp/streams.py", 52, "__anext__", "rv = await self.read_func()"),
        error="aiohttp.client_exceptions.ClientPayloadError: Response payload is not completed"))
    assert failure.is_consequence
    assert [fix.action for fix in failure.fixes] == ["find-root-cause-above"]


def test_an_exception_says_more_than_the_cut_traceback_that_follows_from_it() -> None:
    log = traceback(("/srv/bench/load.py", 61, "ask", "await answer.read()"), error="ServerDisconnectedError: gone")
    log += "\nThe above exception was the direct cause of the following exception:\n\n"
    log += 'Traceback (most recent call last):\n  File "/srv/bench/load.py", line 70, in run\n'
    assert failure_of(log).exception == "ServerDisconnectedError"


def test_a_cut_traceback_does_not_say_who_raised() -> None:
    log = DRAFT[:DRAFT.rindex("AttributeError")]
    report = diagnose(log.encode())
    assert report.failure is not None
    assert failure_status(report).endswith("the log does not show whose code raised it.")
    assert failure_place(report.failure).startswith("The last call in the log is vllm/v1/spec_decode/medusa.py:44")


@pytest.mark.parametrize(("error", "steps"), [
    ("IsADirectoryError: [Errno 21] Is a directory: '/models/a'", ["check-file-path"]),
    ("OSError: [Errno 36] File name too long: '/srv/x'", ["check-file-path"]),
    ("FileNotFoundError: [Errno 2] No such file or directory: 'git'", ["install-program"]),
    ("OSError: [Errno 113] No route to host", ["fix-network-or-proxy"]),
    ("OSError: [Errno 22] Invalid argument", ["check-kernel-log"]),
    ("PermissionError: [Errno 13] Permission denied: '/models/a/model.safetensors'", ["make-model-readable"]),
    ("PermissionError: [Errno 13] Permission denied: '/srv/x'", ["use-local-cache-folder"]),
    ("vendor.errors.FunctionTimeout: the task took too long", ["add-server-output"]),
    ("RuntimeError: shapes differ", ["add-server-output", "upgrade-vllm", "report-bug"]),
])
def test_an_error_alone_learns_what_it_needs(error: str, steps: list[str]) -> None:
    assert [fix.id for fix in failure_of(error + "\n").fixes] == steps


@pytest.mark.parametrize(("paths", "name"), [
    (["/srv/ask.py", f"{SITE}/vllm/entrypoints/llm.py"], "LLM"),
    (["/srv/ask.py", f"{SITE}/vllm/entrypoints/pooling/offline.py"], "LLM"),
    (["/srv/ask.py", f"{SITE}/vllm/v1/engine/async_llm.py"], "AsyncEngineArgs"),
    (["/srv/ask.py", f"{SITE}/vllm/entrypoints/openai/api_server.py"], None),
    (["/opt/venv/bin/vllm", f"{SITE}/vllm/entrypoints/cli/main.py"], None),
    ([f"{SITE}/trl/trainer/grpo_trainer.py", f"{SITE}/vllm/entrypoints/llm.py"], None),
    (["/srv/ask.py"], None),
    ([], None),
])
def test_the_class_that_a_script_starts_vllm_with(paths: list[str], name: str | None) -> None:
    assert engine_class([Frame(path) for path in paths]) == name


@pytest.mark.parametrize(("line", "exception", "message"), [
    (('litellm.exceptions.BadRequestError: litellm.BadRequestError: Hosted_vllmException - {"object":"error","message":"the \\"widget\\" is bent",'
     '"type":"BadRequestError","param":null,"code":400}. Received Model Group=a'), "BadRequestError", 'the "widget" is bent'),
    (("litellm.exceptions.InternalServerError: litellm.InternalServerError: InternalServerError: Hosted_vllmException - the widget is bent. Received Model "
     "Group=a"), "InternalServerError", "the widget is bent"),
    (("litellm.exceptions.BadRequestError: litellm.BadRequestError: OpenAIException - Error code: 400 - {'object': 'error', 'message': \"it's bent\", "
     "'type': 'BadRequestError'}"), "BadRequestError", "it's bent"),
    ("litellm.exceptions.BadRequestError: litellm.BadRequestError: LLM Provider NOT provided", "BadRequestError",
     "litellm.BadRequestError: LLM Provider NOT provided"),
])
def test_what_a_proxy_passes_on_is_the_message_of_the_server(line: str, exception: str, message: str) -> None:
    failure = failure_of(line + "\n")
    assert (failure.exception, failure.message) == (exception, message)


CUT_OOM = ("(EngineCore_DP0 pid=7) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 80.00 MiB. GPU 0 has a total "
           "capacity of 79.11 GiB of which 60.00 MiB is free.\n")
SHARDS = "Loading safetensors checkpoint shards:  12% Completed | 1/8 [00:02<00:14,  2.00s/it]\n"


def test_a_progress_bar_right_behind_an_exception_of_the_engine_is_no_recovery() -> None:
    report = diagnose((CUT_OOM + "\n" + SHARDS).encode())
    assert (report.status, report.worst(), report.primary) == ("failed", "error", "model-weights-exceed-gpu-memory")
    assert report.failure is not None
    assert report.failure.exception == "OutOfMemoryError"


@pytest.mark.parametrize("later", [
    SHARDS + "(EngineCore_DP0 pid=8) INFO 11-28 10:00:20 [default_loader.py:291] Loading weights took 4.00 seconds\n"
    "(EngineCore_DP0 pid=8) INFO 11-28 10:00:21 [gpu_model_runner.py:3549] Model loading took 15.27 GiB memory\n",
    "(EngineCore_DP0 pid=8) INFO 11-28 10:00:20 [gpu_model_runner.py:2602] Starting to load model /models/m...\n" + SHARDS,
])
def test_what_the_engine_reports_after_an_exception_is_a_recovery(later: str) -> None:
    report = diagnose((CUT_OOM + later).encode())
    assert (report.status, report.failure) == ("starting", None)


MODEL = f"{SITE}/vllm/model_executor/models/widgets.py"
COMPILED = (f"{SITE}/vllm/compilation/decorators.py", 383, "__init__", "old_init(self, *args, **kwargs)")


@pytest.mark.parametrize(("calls", "error", "feature"), [
    (((MODEL, 14, "__init__", "self.model = cls("), COMPILED), "AssertionError: the bent widget needs a flat one", "model-class"),
    (((f"{SITE}/vllm/compilation/decorators.py", 400, "__call__", "return self.bent()"),), "AssertionError: the bent widget",
     "compilation"),
    (((f"{SITE}/vllm/models/widget_v4/nvidia/model.py", 14, "__init__", "assert bent"),), "AssertionError: a bent widget",
     "model-class"),
    (((f"{SITE}/vllm/models/widget_v4/nvidia/moe.py", 14, "forward", "assert bent"),), "AssertionError: a bent widget", "moe"),
    (((f"{SITE}/vllm/models/widget_v4/attention.py", 14, "forward", "assert bent"),), "AssertionError: a bent widget", "attention"),
    (((f"{SITE}/vllm/models/widget_v4/nvidia/mtp.py", 14, "forward", "assert bent"),), "AssertionError: a bent widget",
     "speculative-decoding"),
    (((f"{SITE}/vllm/models/widget_v4/nvidia/model.py", 14, "__init__", "assert bent"),),
     "AssertionError: n_physical_experts=6 must be divisible by ep_size=4", "moe"),
    (((f"{SITE}/vllm/models/widget_v4/nvidia/model.py", 14, "__init__", "assert bent"),),
     "AssertionError: the expert of widgets is bent", "model-class"),
    ((("/home/me/DeepEP/deep_ep/buffer.py", 393, "dispatch", "self.runtime.bend("),), "RuntimeError: bent widget", "distributed"),
    ((("/home/me/tools/deep_epics/buffer.py", 393, "dispatch", "self.runtime.bend("),), "RuntimeError: bent widget",
     "other-software"),
    (((f"{SITE}/vllm/config/device.py", 56, "__post_init__", "raise RuntimeError("),), "RuntimeError: Failed to infer devic",
     "platform"),
])
def test_features_of_the_files_of_newer_releases(calls: tuple[tuple[str, int, str, str], ...], error: str, feature: str) -> None:
    assert failure_of(traceback(*calls, error=error)).feature == feature


@pytest.mark.parametrize(("line", "feature"), [
    ("RuntimeError: Failed to infer devic", "platform"),
    ("  what():  [PG ID 2 Rank 2] CUDA error: operation not permitted on an event last recorded in a capturing stream", "cuda-graphs"),
    ("ERROR 12-09 01:04:03 engine.py:366] 'layers.3.mlp.widget_proj.weight.bent'", "model-loading"),
    ("ERROR 12-09 01:04:03 engine.py:366] 'widgets of the bent box'", None),
    ("E0417 19:48:51.567027   481 bent_client.cpp:192] Failed to mount segment due to bent widget", "kv-transfer"),
    (("E0417 19:48:51.567027   481 bent_pool.cpp:192] Worker: bent slice (local_nic: mlx5_1, peer_nic: 10.0.0.1@mlx5_0): transport "
     "retry counter exceeded"), "kv-transfer"),
    ("RuntimeError: NCCL error of net_ib.cc: transport retry counter exceeded", "distributed"),
    ("ERROR 06-24 19:10:49 [engine.py:165] AttributeError(\"'Qwen2ForCausalLM' object has no attribute 'pooler'\")", "pooling"),
    (("(EngineCore pid=5) ERROR 04-03 16:53:56 [multiproc_executor.py:273] Worker proc VllmWorker-3 died unexpectedly, "
     "shutting down executor."), None),
    ("(EngineCore pid=5) ERROR 04-03 16:53:56 [ray_executor.py:273] raylet proc 3 died unexpectedly, shutting down.", "ray"),
])
def test_features_of_lines_without_calls(line: str, feature: str | None) -> None:
    assert failure_of(line + "\n").feature == feature


BUILD = ("  error: subprocess-exited-with-error\n"
         "  × Building wheel for widgets (pyproject.toml) did not run successfully.\n"
         "  │ exit code: 1\n"
         "  ╰─> [465 lines of output]\n")


def test_the_reason_of_a_build_is_what_cmake_says() -> None:
    log = (BUILD + "      -- Build type: Bent\n"
           "      CMake Error at /tmp/pip-build-env-1/cmake/Modules/CMakeBendWidget.cmake:26 (message):\n"
           "        The widget cannot be\n"
           "        bent.\n"
           "      Call Stack (most recent call first):\n"
           "        CMakeLists.txt:4 (project)\n"
           "      subprocess.CalledProcessError: Command '['cmake', '/srv/src', '-G', 'Ninja']' returned non-zero exit status 1.\n")
    failure = failure_of(log)
    assert failure.message.split("\n", 1)[1].split() == ["The", "widget", "cannot", "be", "bent."]
    assert failure.feature == "environment"


def test_an_exit_code_that_pip_prints_is_no_reason() -> None:
    failure = failure_of(BUILD)
    assert "exit code" not in failure.message.split("\n", 1)[0]
    assert failure_of("the server exited with code: 1\n").message == "the server exited with code: 1"


def thrown(what: str) -> str:
    return ("terminate called after throwing an instance of 'c10::Error'\n"
            f"  what():  {what}\n"
            "Exception raised from raw_delete at /pytorch/torch/csrc/cuda/CUDAPluggableAllocator.cpp:151 (most recent call first):\n")


def test_an_exception_of_c10_is_a_consequence_only_if_it_says_so() -> None:
    own = failure_of(thrown("Trying to free a pointer not allocated here"))
    assert [fix.id for fix in own.fixes] == ["upgrade-vllm", "without-sleep-mode", "report-bug"]
    assert [fix.id for fix in failure_of(thrown("[PG ID 2 Rank 2] Process group watchdog thread terminated")).fixes] == [
        "find-root-cause-above"]
    assert "without-sleep-mode" not in [fix.id for fix in failure_of(thrown("the widget is bent")).fixes]


@pytest.mark.parametrize(("line", "last"), [
    (("(EngineCore pid=4) ERROR 04-03 16:53:56 [multiproc_executor.py:273] Worker proc VllmWorker-1 died unexpectedly, shutting "
     "down executor."), "find-worker-traceback"),
    ("ERROR 07-08 20:33:48 [utils.py:244] Process EngineCore_1 (PID: 4312) died with exit code -11", "upgrade-vllm"),
])
def test_the_output_of_a_worker_that_died_is_to_be_found_if_no_signal_is_known(line: str, last: str) -> None:
    report = diagnose((line + "\n").encode())
    assert report.primary == "process-killed-no-traceback"
    assert report.findings[0].fixes[-1].action == last


@pytest.mark.parametrize(("path", "package"), [
    ("transformers/integrations/hub_kernels.py", "transformers"), ("kernels/layer/layer.py", "kernels"),
    ("fastapi/routing.py", "fastapi"), ("pydantic/_internal/_dataclasses.py", "pydantic"),
    ("kernels/bent_widget.py", None), ("my_fastapi/routing.py", None), ("src/fastapi/routing.py", None),
    ("/home/me/kernels/layer/layer.py", None),
])
def test_the_package_of_a_path_whose_beginning_is_cut_off(path: str, package: str | None) -> None:
    failure = failure_of(f'{path}", line 76, in bend\n    self.bent()\nValueError: the widget is bent\n')
    assert failure.origin is not None
    assert failure.origin.package == package


def test_what_rocblas_says_of_its_kernels_is_a_failure_of_the_platform() -> None:
    failure = failure_of("rocBLAS error: Could not read the bent widget\n\nrocBLAS error: Could not read the bent widget\n")
    assert (failure.message, failure.feature) == ("rocBLAS error: Could not read the bent widget", "platform")
    assert diagnose(b"rocblaslt info: TENSILE_LIBPATH not set: Using /opt/bent/library\n").failure is None
    assert diagnose(f"rocBLAS error: Could not read the bent widget\n{STARTED}".encode()).failure is None


def test_an_engine_that_quotes_a_worker_s_error_is_no_engine_of_which_nothing_is_known() -> None:
    log = ("(EngineCore_DP0 pid=9) ERROR 11-08 15:52:14 [core.py:938] RuntimeError: Worker failed with error ''ForwardContext' object has no"
           " attribute 'widget'', please check the stack trace above for the root cause\n"
           "(APIServer pid=8) ERROR 11-08 15:52:14 [async_llm.py:546] AsyncLLM output_handler failed.\n"
           "(APIServer pid=8) ERROR 11-08 15:52:14 [async_llm.py:546] Traceback (most recent call last):\n")
    report = diagnose(log.encode())
    assert report.failure is not None
    assert (report.status, report.primary, report.failure.exception) == ("failed", None, "AttributeError")
    assert report.failure.message == "'ForwardContext' object has no attribute 'widget'"
    assert report.failure.fixes[0].action == "find-worker-traceback"


@pytest.mark.parametrize(("message", "exception"), [
    ("CUDA out of memory. Tried to allocate 2.00 GiB", "OutOfMemoryError"), ("No module named 'widget'", "ModuleNotFoundError"),
    ("the widget is gone", "RuntimeError"), ("LookupError: no widget", "LookupError"), ("AssertionError: ", "RuntimeError"),
])
def test_the_class_of_a_quoted_error_is_the_one_that_its_words_show(message: str, exception: str) -> None:
    assert failure_of(f"RuntimeError: Worker failed with error '{message}', please check the stack trace above for the root cause\n").exception == exception


def test_an_egg_among_installed_packages_is_of_its_package() -> None:
    egg = "/usr/lib/python3.12/dist-packages/vllm-0.10.1.dev0+g6d8d0a24c.xpu-py3.12-linux-x86_64.egg"
    failure = failure_of(traceback((f"{egg}/vllm/v1/attention/backends/utils.py", 8, "build", "raise ValueError(text)"), error="ValueError: a widget"))
    assert failure.origin is not None
    assert (failure.origin.package, failure.origin.file, failure.feature) == ("vllm", "vllm/v1/attention/backends/utils.py", "attention")
    assert failure.kind != "other-software"


def test_what_a_web_server_raises_over_an_answer_of_the_server_is_no_other_software() -> None:
    failure = failure_of(STARTED + 'INFO:     127.0.0.1:1 - "POST /v1/embeddings HTTP/1.1" 500 Internal Server Error\n' + ASGI
                         + "ValueError: a float that is no number\n")
    assert (failure.exception, failure.kind) == ("ValueError", "unknown")
    assert failure.feature != "other-software"


def test_without_calls_no_program_is_blamed_for_what_an_engine_s_process_says() -> None:
    prefix = "(VllmWorkerProcess pid=1609) ERROR 08-13 20:37:52 multiproc_worker_utils.py:226] "
    log = (f"INFO 08-13 20:37:52 model_runner.py:732] Loading model weights took 11.4953 GB\n{prefix}Exception in worker VllmWorkerProcess while"
           " processing method determine_num_available_blocks: 'MixtralForCausalLM' object has no attribute 'make_empty_intermediate_tensors',"
           f' Traceback (most recent call last):\n{prefix}  File "{SITE}/vllm/executor/multiproc_worker_utils.py", line 223, in _run_worker_process\n')
    failure = failure_of(log)
    assert (failure.feature, failure.kind) == ("model-class", "unknown")


def test_what_python_prints_as_a_process_exits_is_not_the_failure() -> None:
    failure = failure_of(
        'Traceback (most recent call last):\n'
        '(APIServer pid=1)   File "/opt/venv/lib/python3.12/site-packages/vllm/v1/engine/utils.py", line 1249, in wait_for_engine_startup\n'
        "(APIServer pid=1)     raise RuntimeError(\n"
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}\n"
        "(APIServer pid=1) Traceback (most recent call last):\n"
        '(APIServer pid=1)   File "/usr/lib/python3.12/weakref.py", line 666, in _exitfunc\n'
        "(APIServer pid=1)     f()\n")
    assert failure.exception == "RuntimeError"
    assert failure.message.startswith("Engine core initialization failed.")


def test_an_attribute_that_an_object_of_the_engine_lacks_is_no_matter_of_a_caller() -> None:
    failure = failure_of("AttributeError: 'EagleProposer' object has no attribute 'positions'\n")
    assert (failure.feature, failure.kind) == ("speculative-decoding", "bug")


def test_the_error_of_a_worker_counts_though_its_line_names_the_phase() -> None:
    head = "(VllmWorkerProcess pid=143) ERROR 09-20 08:05:48 multiproc_worker_utils.py:226] "
    failure = failure_of(
        "(VllmWorkerProcess pid=143) INFO 09-20 08:05:47 multiproc_worker_utils.py:215] Worker ready; awaiting tasks\n"
        f"{head}Exception in worker VllmWorkerProcess while processing method load_model: Frobs bar no bazzes., Traceback (most recent call last):\n"
        f'{head}  File "/opt/venv/lib/python3.10/site-packages/vllm/worker/cpu_worker.py", line 217, in load_model\n'
        f"{head}    self.model_runner.load_model()\n")
    assert failure.message == "Frobs bar no bazzes."


@pytest.mark.parametrize(("line", "message"), [
    ("< HTTP/1.1 500 Internal Server Error", "500 Internal Server Error"),
    ("error: triton_flash_attention.py:211:0: stack frame size (164332) exceeds limit (131056) in function 'f'",
     "error: triton_flash_attention.py:211:0: stack frame size (164332) exceeds limit (131056) in function 'f'"),
    ("  \u00d7 No solution found when resolving dependencies:", "No solution found when resolving dependencies:"),
])
def test_lines_of_other_programs_that_report_a_failure(line: str, message: str) -> None:
    assert failure_of(f"{line}\n").message == message


def test_the_calls_next_to_an_answer_5xx_are_the_failure_if_its_exception_is_cut_off() -> None:
    answer = 'INFO:     127.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error\n'
    cut = ('ERROR:    Exception in ASGI application\nTraceback (most recent call last):\n'
           '  File "/opt/venv/lib/python3.11/site-packages/vllm/lora/worker_manager.py", line 105, in _load_adapter\n'
           '    lora = self._lora_model_cls.from_local_checkpoint(\n'
           '  File "/opt/venv/lib/python3.11/site-packages/vllm/lora/models.py", line 221, in from_local_checkpoint\n'
           '    peft_helper = PEFTHelper.from_dict(config)\n')
    failure = failure_of(answer + cut)
    assert failure.origin is not None
    assert (failure.feature, failure.origin.file, failure.origin.function) == ("lora", "vllm/lora/models.py", "from_local_checkpoint")
    assert failure_of(answer).message == "500 Internal Server Error"


def test_an_engine_that_ends_with_a_traceback_has_failed_also_if_its_exception_is_cut_off() -> None:
    engine = "(EngineCore_DP0 pid=9) "
    calls = "".join(f'{engine}  File "{path}", line 9, in {function}\n{engine}    call()\n' for path, function in (
        ("/usr/lib/python3.12/multiprocessing/process.py", "_bootstrap"), (f"{SITE}/vllm/v1/engine/core.py", "run_busy_loop")))
    log = STARTED + f"{engine}Process EngineCore_DP0:\n{engine}Traceback (most recent call last):\n{calls}"
    report = diagnose(log.encode())
    assert (report.status, report.worst()) == ("failed", "error")
    assert report.failure is not None
    assert report.failure.origin is not None
    assert report.failure.origin.function == "run_busy_loop"


def test_the_process_that_started_an_engine_ends_after_it() -> None:
    log = ("(EngineCore_0 pid=2) Traceback (most recent call last):\n"
           f'(EngineCore_0 pid=2)   File "{SITE}/vllm/v1/executor/multiproc_executor.py", line 478, in wait_for_ready\n'
           "(EngineCore_0 pid=2) Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.\n"
           "(APIServer pid=1) Traceback (most recent call last):\n"
           f'(APIServer pid=1)   File "{SITE}/vllm/entrypoints/cli/main.py", line 54, in main\n'
           "(APIServer pid=1)     args.dispatch_function(args)\n")
    failure = failure_of(log)
    assert (failure.exception, failure.is_consequence) == ("Exception", True)
    assert failure.fixes[0].action == "find-root-cause-above"


def test_what_python_says_of_a_module_that_fails_on_import_is_its_exception() -> None:
    failure = failure_of("/usr/bin/python: Error while finding module specification for 'vllm.entrypoints.api_server' (ImportError: cannot import"
                         " name 'cuda_utils' from partially initialized module 'vllm' (most likely due to a circular import) (/srv/vllm/vllm/__init__.py))\n")
    assert failure.exception == "ImportError"
    assert failure.message.startswith("cannot import name 'cuda_utils'")
    assert failure.message.endswith("__init__.py)")


@pytest.mark.parametrize(("message", "feature"), [
    ("Model architectures ['MllamaForConditionalGeneration'] are not supported for now. Supported architectures: ['EAGLEModel', 'MedusaModel']", "model-class"),
    ("Following weights were not initialized from checkpoint: {'language_model.model.layers.5.self_attn.o_proj.weight'}", "model-loading"),
])
def test_names_that_a_message_lists_are_not_its_subject(message: str, feature: str) -> None:
    assert failure_of(f"ValueError: {message}\n").feature == feature


@pytest.mark.parametrize(("message", "exception", "shown"), [
    ("'Siglip2Config' object has no attribute 'projector_hidden_act'", "AttributeError", "'Siglip2Config' object has no attribute 'projector_hidden_act'"),
    ("The engine is not ready.", None, "self.engine = LLMEngine(*args, **kwargs)"),  # no exception has such a message
])
def test_the_record_above_a_cut_traceback_may_have_its_message(message: str, exception: str | None, shown: str) -> None:
    record = "ERROR 02-25 00:03:43 engine.py:400] "
    call = (f'  File "{SITE}/vllm/engine/multiprocessing/engine.py", line 76, in __init__', "    self.engine = LLMEngine(*args, **kwargs)")
    failure = failure_of("INFO 02-25 00:03:42 model_runner.py:1110] Starting to load model /models/a...\n" + "".join(
        f"{record}{line}\n" for line in (message, "Traceback (most recent call last):", *call * 5)))
    assert (failure.exception, failure.message) == (exception, shown)
    assert failure.origin is not None
    assert failure.origin.function == "__init__"


def test_an_engine_of_v0_that_logs_its_exception_before_a_cut_traceback() -> None:
    log = ("INFO 03-22 22:56:38 engine.py:404] Added request 7d10b72b.\n"
           "ERROR 03-22 22:56:38 engine.py:244] AssertionError()\n"
           "ERROR 03-22 22:56:38 engine.py:244] Traceback (most recent call last):\n"
           f'ERROR 03-22 22:56:38 engine.py:244]   File "{SITE}/vllm/engine/multiprocessing/engine.py", line 315, in run_engine_loop\n'
           "ERROR 03-22 22:56:38 engine.py:244]     request_outputs = self.engine_step()\n")
    report = diagnose(log.encode())
    assert report.failure is not None
    assert (report.status, report.failure.exception, report.failure.message) == ("failed", "AssertionError", "")
    assert report.failure.origin is not None
    assert report.failure.origin.function == "run_engine_loop"


@pytest.mark.parametrize(("printed", "exception", "message"), [
    ("nixlUnknownError('NIXL_ERR')", "nixlUnknownError", "NIXL_ERR"),
    ("OutOfMemoryError('CUDA out of memory. Tried to", "OutOfMemoryError", "CUDA out of memory. Tried to"),
    ('ValueError("it\'s") and more', "ValueError", "it's"),
])
def test_exceptions_as_python_prints_them(printed: str, exception: str, message: str) -> None:
    raised = exception_lines.from_repr(printed) or exception_lines.in_sentence(printed)
    assert raised is not None
    assert (raised.name, raised.message) == (exception, message)


def test_a_serving_log_that_ends_in_a_traceback() -> None:
    log = STARTED + ASGI
    failure = failure_of(log)
    assert (failure.exception, failure.line) == (None, 4)
    assert failure.fixes[0].action == "add-end-of-traceback"
    assert failure_status(diagnose(log.encode())).startswith("The server was serving; the log does not show whether it went on.")
    assert diagnose((log + 'INFO:     10.0.0.1:5000 - "GET /health HTTP/1.1" 200 OK\n' * 3).encode()).failure is None


def test_a_traceback_on_one_line() -> None:
    failure = failure_of(f'File "{SITE}/requests/adapters.py", line 519, in send raise ConnectionError(e, request=request) '
                         "requests.exceptions.ConnectionError: no answer\n")
    assert (failure.exception, failure.message) == ("ConnectionError", "no answer")


def test_the_source_line_of_an_assertion_whose_calls_are_cut_off() -> None:
    failure = failure_of("    assert issubclass(connector, Base)\nAssertionError\n")
    assert (failure.exception, failure.message) == ("AssertionError", "assert issubclass(connector, Base)")


def test_a_failed_test_of_pytest() -> None:
    log = ("=================================== FAILURES ===================================\n"
           "    def test_serve():\n"
           '>       llm = LLM(model="facebook/opt-125m")\n\n'
           "tests/test_serve.py:12:\n"
           "_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _\n"
           f"{SITE}/vllm/v1/widget.py:44: in bend\n"
           '>       raise WidgetError("the widget is bent")\n'
           "E       vllm.v1.widget.WidgetError: the widget is bent\n\n"
           f"{SITE}/vllm/v1/widget.py:44: WidgetError\n")
    failure = failure_of(log)
    assert (failure.exception, failure.message) == ("WidgetError", "the widget is bent")
    assert failure.origin is not None
    assert failure.origin.file == "vllm/v1/widget.py"


def test_a_request_that_another_service_refuses_is_no_request_to_vllm() -> None:
    log = traceback(("/srv/app/fetch.py", 6, "<module>", "api.login(TOKEN)"),
                    (f"{SITE}/modelscope/hub/errors.py", 175, "raise_for_http_status", "raise HTTPError(text)"),
                    error="requests.exceptions.HTTPError: 400 Client Error: Bad Request for url: https://www.modelscope.cn/api/v1/login")
    failure = failure_of(log)
    assert failure.kind == "other-software"
    assert failure.fixes[0].action == "correct-script"


def test_a_request_fails_because_the_engine_had_died() -> None:
    log = ("(APIServer pid=1) ERROR 05-12 01:48:42 [api_router.py:72] Traceback (most recent call last):\n"
           f'(APIServer pid=1) ERROR 05-12 01:48:42 [api_router.py:72]   File "{SITE}/vllm/entrypoints/openai/serving.py", line 225, in create_chat_completion\n'
           "(APIServer pid=1) ERROR 05-12 01:48:42 [api_router.py:72]     raise self.engine_client.dead_error\n"
           "(APIServer pid=1) ERROR 05-12 01:48:42 [api_router.py:72] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.\n"
           '(APIServer pid=1) INFO:     10.0.0.1:16983 - "POST /v1/messages HTTP/1.1" 500 Internal Server Error\n'
           "(APIServer pid=1) INFO:     Shutting down\n")
    failure = failure_of(log)
    assert (failure.exception, failure.fixes[0].action) == ("EngineDeadError", "find-root-cause-above")


def test_an_engine_that_had_died_counts_before_any_answer() -> None:
    log = ('(APIServer pid=1) INFO:     10.0.0.1:16983 - "POST /v1/completions HTTP/1.1" 200 OK\n'
           "(APIServer pid=1) ERROR 05-12 01:48:42 [serving_chat.py:72]     raise self.bolts() from None\n"
           "(APIServer pid=1) ERROR 05-12 01:48:42 [serving_chat.py:72] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.\n")
    report = diagnose(log.encode())
    assert report.failure is not None
    assert (report.failure.exception, report.failure.fixes[0].action) == ("EngineDeadError", "find-root-cause-above")
    assert failure_status(report) == "A request failed. It is a consequence of another failure."
    answered = log + '(APIServer pid=1) INFO:     10.0.0.1:16983 - "POST /v1/completions HTTP/1.1" 200 OK\n'
    assert diagnose(answered.encode()).failure is None


def test_an_exception_in_a_paste_that_moved_its_lines() -> None:
    log = ("Traceback (most recent call last):\n"
           f'File "{SITE}/widgets/bolts.py", line 989, in tighten\n'
           'bolt = BOLTS[config["bolt"]]\n'
           "     raise KeyError(key)\n"
           " KeyError: 'm8'\n"
           " \n During handling of the above exception, another exception occurred:\n \n Traceback (most recent call last):\n")
    failure = failure_of(log)
    assert (failure.exception, failure.message, failure.line) == ("KeyError", "'m8'", 5)


def test_an_exception_says_more_than_the_record_that_quotes_it() -> None:
    message = "\"Missing required keys in `rope_parameters` for 'rope_type'='llama3': {'factor'}\""
    log = (f"(APIServer pid=7) ERROR 12-01 03:56:44 [repo_utils.py:126] Error parsing config for /models/bolt: {message}, retrying 1 of 2\n"
           + traceback((f"{SITE}/transformers/modeling_rope_utils.py", 85, "validate", "raise KeyError(missing)"), error=f"KeyError: {message}"))
    failure = failure_of(log)
    assert (failure.exception, failure.message, failure.line) == ("KeyError", message, 5)
    assert failure.origin is not None
    assert failure.origin.function == "validate"


def test_a_call_whose_line_somebody_left_out() -> None:
    failure = failure_of('  File ".../vllm/v1/worker/widget_runner.py", line ..., in tighten\n'
                         "      assert self.bolts is not None\n  AssertionError\n")
    assert (failure.exception, failure.message) == ("AssertionError", "assert self.bolts is not None")
    assert failure.origin == Place("vllm", "vllm/v1/worker/widget_runner.py", "tighten", 0)


def test_an_error_of_a_worker_that_is_cut_off() -> None:
    failure = failure_of("(EngineCore pid=7) RuntimeError: Worker failed with error 'bolt.cpp:28 do_turn: EX\n")
    assert (failure.message, failure.is_consequence) == ("bolt.cpp:28 do_turn: EX", False)


def test_marks_behind_half_a_prefix_are_no_message() -> None:
    prefix = "ERROR 12-19 10:32:46 [multiproc_executor.py:822]"
    log = (f"er_DP1_TP1_EP5 pid=204227) {prefix}          ^^^^^^^^^^\n"
           f'(Worker_DP1_TP1_EP5 pid=204227) {prefix}   File "{SITE}/vllm/v1/worker/widget_runner.py", line 7, in tighten\n'
           f"(Worker_DP1_TP1_EP5 pid=204227) {prefix}     self.bolts.turn(\n")
    failure = failure_of(log)
    assert failure.origin == Place("vllm", "vllm/v1/worker/widget_runner.py", "tighten", 7)


def test_a_report_of_a_failure_is_no_progress() -> None:
    log = ("(NPURayWorkerWrapper pid=1189) ERROR 08-14 11:52:46 worker_base.py:581] RuntimeError: NPU out of memory. Tried to allocate 450.00 MiB\n"
           "ERROR 08-14 11:52:47 worker_base.py:581] Error executing method 'load_model'. This might cause deadlock in distributed execution.\n"
           "ERROR 08-14 11:52:47 worker_base.py:581] Traceback (most recent call last):\n"
           f'ERROR 08-14 11:52:47 worker_base.py:581]   File "{SITE}/vllm/worker/worker_base.py", line 573, in execute_method\n')
    failure = failure_of(log)
    assert (failure.exception, failure.line) == ("RuntimeError", 1)


def test_a_message_of_the_c_code_of_vllm() -> None:
    failure = failure_of("CUDA Error: invalid argument at /workspace/csrc/cumem_allocator.cpp:119\n")
    assert (failure.message_file, failure.kind) == ("csrc/cumem_allocator.cpp", "bug")
    assert failure.fixes[0].action == "upgrade-vllm"


def test_the_error_that_a_compiler_passes_on_is_part_of_its_message() -> None:
    failure = failure_of("torch._dynamo.exc.BackendCompilerFailed: backend='widget' raised:\nAttributeError: 'Node' object has no attribute 'x'\n")
    assert failure.message == "backend='widget' raised:\nAttributeError: 'Node' object has no attribute 'x'"


def test_what_the_logger_of_vllm_prints_is_of_a_library_that_vllm_called() -> None:
    log = ("ERROR 04-27 01:52:36 [core.py:387] EngineCore hit an exception: Traceback (most recent call last):\n"
           f'ERROR 04-27 01:52:36 [core.py:387]   File "{SITE}/widgetcache/__init__.py", line 68, in __getitem__\n'
           "ERROR 04-27 01:52:36 [core.py:387]     return self.__data[key]\n"
           "ERROR 04-27 01:52:36 [core.py:387] KeyError: 'abc'\n")
    failure = failure_of(log)
    assert (failure.kind, failure.fixes[0].action) == ("library", "upgrade-vllm")


def test_a_debugger_s_words_are_no_exception_of_python() -> None:
    assert exception_lines.on_own_line("CUDA Exception: Warp Illegal Instruction") is None
    assert exception_lines.on_own_line("vllm/utils/mem.py:9:    # ValueError: No widget for the bolt.") is None
    raised = exception_lines.in_sentence("future: <Task finished exception=Exception('NCCL error: internal error')>")
    assert raised is not None
    assert (raised.name, raised.message) == ("Exception", "NCCL error: internal error")


def test_a_rule_that_fired_before_a_cut_traceback_does_not_explain_it() -> None:
    log = ('INFO:     10.0.0.1:50 - "POST /v1/embeddings HTTP/1.1" 400 Bad Request\n'
           "ERROR 06-25 14:27:21 async_llm_engine.py:52] Engine background task failed\n"
           "ERROR 06-25 14:27:21 async_llm_engine.py:52] Traceback (most recent call last):\n"
           f'ERROR 06-25 14:27:21 async_llm_engine.py:52]   File "{SITE}/vllm/engine/async_llm_engine.py", line 532, in run_engine_loop\n')
    report = diagnose(log.encode())
    assert report.failure is not None
    assert (report.status, report.failure.explained_by) == ("failed", "")
    assert report.failure.fixes[0].action == "add-end-of-traceback"


def test_a_record_whose_traceback_is_cut_off_has_its_calls() -> None:
    lines = ["Unexpected widget of request 7", "Traceback (most recent call last):",
             f'  File "{SITE}/vllm/multimodal/cache.py", line 607, in get_and_update_widgets', "    return self.widgets[key]"]
    failure = failure_of("".join(f"(EngineCore pid=8) ERROR 06-22 07:32:23 [core.py:1616] {line}\n" for line in lines) + "(Engin\n")
    assert (failure.exception, failure.message) == (None, "Unexpected widget of request 7")
    assert (failure.origin, failure.feature) == (
        Place("vllm", "vllm/multimodal/cache.py", "get_and_update_widgets", 607), "multimodal")


@pytest.mark.parametrize(("process", "message"), [
    ("(APIServer pid=9) ", "404 Not Found: Error with model: the widget `bolt` is not served"), ("", "404 Not Found")])
def test_an_answer_of_404_is_reported_with_the_record_of_its_process(process: str, message: str) -> None:
    failure = failure_of("(APIServer pid=9) ERROR 10-14 22:29:52 [serving_chat.py:178] Error with model: the widget `bolt` is not served\n"
                         f'{process}INFO:     127.0.0.1:4640 - "POST /v1/chat/completions HTTP/1.1" 404 Not Found\n')
    assert (failure.message, failure.kind, failure.last_line) == (message, "request", 2)


@pytest.mark.parametrize("end", ["F", "Fi", "File"])
def test_a_call_that_is_cut_off_in_its_first_word_is_no_exception(end: str) -> None:
    failure = failure_of('Traceback (most recent call last):\n  File "bolt/widget.pyx", line 558, in turn\n    raise ex\n  ' + end + "\n")
    assert failure.exception is None


def test_what_a_kubelet_s_client_raises_is_no_failure_of_the_server() -> None:
    failure = failure_of('10m  Warning  Unhealthy  pod/bolt-0  Readiness probe failed: Get "http://bolt-0:5000/health": MaxRetryError('
                         "'HTTPConnectionPool: (Caused by NewConnectionError('<widget>: Errno 111 Connection refused'))')\n")
    assert (failure.exception, failure.fixes[0].action) == (None, "follow-server-log")


@pytest.mark.parametrize("line", ["**KeyError: 'bent_widget'**", "- `KeyError: 'bent_widget'`", "[rank0]: **KeyError: 'bent_widget'**"])
def test_the_marks_of_a_page_around_a_message_are_not_of_it(line: str) -> None:
    failure = failure_of(f"{line}\n")
    assert (failure.exception, failure.message) == ("KeyError", "'bent_widget'")


def test_the_traceback_of_a_request_after_v0_lost_its_engine_is_a_consequence() -> None:
    failure = failure_of("ERROR 10-09 02:13:55 client.py:250] RuntimeError('Engine loop has died')\n"
                         "ERROR 10-09 02:13:55 client.py:250] Traceback (most recent call last):\n"
                         f'ERROR 10-09 02:13:55 client.py:250]   File "{SITE}/vllm/engine/multiprocessing/client.py", line 150, in beat\n'
                         "ERROR 10-09 02:13:55 client.py:250]     await self.check()\n"
                         "ERROR 10-09 02:13:55 client.py:250] RuntimeError: Engine loop has died\n"
                         "ERROR:    Exception in ASGI application\n"
                         "Traceback (most recent call last):\n"
                         f'  File "{SITE}/starlette/responses.py", line 257, in __call__\n'
                         "    await wrap(self.bolt)\n")
    assert (failure.exception, failure.message, failure.is_consequence) == ("RuntimeError", "Engine loop has died", True)


def test_a_client_that_kills_itself_was_not_killed_for_memory() -> None:
    failure = failure_of("ERROR 05-19 22:17:53 [core.py:386] RuntimeError: ('Worker failed with error %s, please check the stack trace "
                         "above for the root cause', \"'bolt' object has no attribute 'thread'\")\n"
                         "CRITICAL 05-19 22:17:53 [core_client.py:359] Got fatal signal from worker processes, shutting down. "
                         "See stack trace above for root cause issue.\nKilled\n")
    assert (failure.exception, failure.message) == ("AttributeError", "'bolt' object has no attribute 'thread'")


def test_the_source_line_of_an_assertion_stands_in_the_record_before() -> None:
    prefix = "(Worker_TP6 pid=903) ERROR 06-12 08:47:02 [multiproc_executor.py:962] "
    failure = failure_of(f"{prefix}    assert self.bolts is not None\n{prefix}           ^^^^^^^^^^^^^^^^^^^^^^\n{prefix}AssertionError\n")
    assert (failure.exception, failure.message) == ("AssertionError", "assert self.bolts is not None")


def test_a_stack_in_ray_s_log_format() -> None:
    head = "(RayWorkerWrapper pid=812) [2025-04-17 15:09:14,925 E 812 812] logging.cc:447: "
    failure = failure_of(f"{head}*** SIGSEGV received at time=1744873754 on cpu 137 ***\n"
                         f"{head}PC: @     0x7f817f64c0ad  (unknown)  addBoltCollToPlan()\n{head}    @     0x7f8159fc7872         80  (unknown)\n")
    assert failure.feature == "distributed"


def test_what_llvm_says_right_behind_other_words() -> None:
    failure = failure_of("Translate to bolt failedLLVM ERROR: Failed to translate bolts.\n*** SIGABRT received at time=1712361058 on cpu 4 ***\n")
    assert (failure.message, failure.feature) == ("LLVM ERROR: Failed to translate bolts.", "compilation")


def test_an_exception_that_a_warning_quotes_was_handled_if_the_log_goes_on() -> None:
    warning = 'WARNING 04-30 01:10:07 [interface.py:240] Failed to import from bolt._C: ModuleNotFoundError("No module named \'bolt._C\'")\n'
    assert failure_of(warning).exception == "ModuleNotFoundError"
    report = diagnose((warning + "INFO 04-30 01:10:08 [nixl_utils.py:32] NIXL is available\n" * 3).encode())
    assert (report.failure, report.status) == (None, "unknown")


def test_a_record_that_a_rule_calls_harmless_is_no_failure() -> None:
    report = diagnose(b"(APIServer pid=7) INFO 10-17 04:46:12 [model.py:1745] Using max model len 262144\n"
                      b"(APIServer pid=7) ERROR 10-17 04:46:12 [gpt_oss_triton_kernels_moe.py:40] Failed to import Triton kernels. "
                      b"Please make sure your triton version is compatible. Error: No module named 'triton_kernels.tensor'\n")
    assert (report.failure, report.status, report.primary) == (None, "starting", "triton-kernels-not-imported")


def test_the_check_of_ray_is_output() -> None:
    failure = failure_of("=" * 80 + "\nChecking Serializability of <function Bolt.turn at 0x7f3081581510>\n" + "=" * 80 +
                         "\n!!! FAIL serialization: cannot pickle 'bolt' object\n")
    assert failure.message == "!!! FAIL serialization: cannot pickle 'bolt' object"


@pytest.mark.parametrize(("printed", "exception", "message"), [
    ("OSError(28, 'No space left on device')", "OSError", "[Errno 28] No space left on device"),
    ("OutOfResources(98304, 49152, 'shared memory')", "OutOfResources", "98304, 49152, 'shared memory'"),
    ("KeyError(8)", "KeyError", "8"),
])
def test_exceptions_with_numbers_as_an_engine_of_v0_prints_them(printed: str, exception: str, message: str) -> None:
    failure = failure_of(f"ERROR 05-20 16:28:24 [engine.py:161] {printed}\n")
    assert (failure.exception, failure.message) == (exception, message)


def test_an_assertion_is_the_last_source_line_that_a_paste_shows() -> None:
    failure = failure_of('File ".../bolt/widget.py", line 8, in turn\n    a, b = bolt.shape\n    assert a % 128 == 0\nAssertionError\n')
    assert failure.message == "assert a % 128 == 0"


@pytest.mark.parametrize("name", ["weight_type", "quant_method", "g_idx"])
def test_attributes_of_quantized_layers(name: str) -> None:
    assert failure_of(f"AttributeError: 'Bolt' object has no attribute '{name}'\n").feature == "quantization"


def test_arguments_of_a_layer_are_no_matter_of_a_caller() -> None:
    failure = failure_of("TypeError: BoltBlock.forward() got an unexpected keyword argument 'widget'\n")
    assert (failure.kind, [fix.action for fix in failure.fixes]) == ("bug", ["add-server-output", "upgrade-vllm", "report-bug"])


def test_a_cut_assertion_is_told_by_its_source_line() -> None:
    failure = failure_of('ERROR 10-24 12:07:28 [core.py:718] Traceback (most recent call last):\n'
                         f'ERROR 10-24 12:07:28 [core.py:718]   File "{SITE}/vllm/worker/bolt.py", line 25, in turn\n'
                         "ERROR 10-24 12:07:28 [core.py:718]     assert bolts == set(widgets.keys())\n")
    assert (failure.exception, failure.message) == ("AssertionError", "assert bolts == set(widgets.keys())")


def test_a_cut_traceback_under_a_record_that_only_reports_is_a_consequence() -> None:
    failure = failure_of("2026-02-11 02:15:04.629 1 bolt ERROR [__main__.py:<module>():337] Failed to start model server: Engine core "
                         "initialization failed. See root cause above. Failed core proc(s): {}\n"
                         'Traceback (most recent call last):\n  File "/usr/lib/python3.12/asyncio/runners.py", line 195, in run\n'
                         "    return runner.run(main)\n")
    assert (failure.is_consequence, failure.fixes[0].action) == (True, "find-root-cause-above")
    assert "Engine core initialization failed" in failure.message


@pytest.mark.parametrize(("line", "feature"), [
    ("NVRM: boltCheck: Check failed: Out of memory [NV_ERR_NO_MEMORY]", "platform"),
    ("(raylet) A worker died or was killed while executing a task by an unexpected system error. RayTask ID: ff", "ray"),
])
def test_features_of_what_other_layers_say(line: str, feature: str) -> None:
    assert failure_of(line + "\n").feature == feature


def test_the_exception_of_a_refused_request_comes_before_a_record_without_one() -> None:
    log = ("(APIServer pid=1) ERROR 03-04 14:55:22 [serving.py:315] ValueError: Unexpected role 'user' after role 'tool'\n"
           '(APIServer pid=1) INFO:     10.0.0.8:42562 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request\n'
           "(APIServer pid=1) ERROR 03-04 14:55:30 [serving.py:315] Error in preprocessing prompt inputs\n")
    failure = failure_of(log)
    assert (failure.line, failure.exception, failure.message) == (
        1, "ValueError", "Unexpected role 'user' after role 'tool'")


def test_an_error_of_the_model_is_of_the_engine_though_its_first_calls_are_missing() -> None:
    record = "ERROR 06-11 15:17:13 [core.py:517] "
    log = (f'{record}  File "{SITE}/vllm/attention/widgets.py", line 558, in forward\n'
           f"{record}    assert not self.bent\n{record}AssertionError\n"
           "ERROR 06-11 15:17:13 [async_llm.py:420] AsyncLLM output_handler failed.\n")
    report = diagnose(log.encode())
    assert (report.primary, report.failure and report.failure.exception) == (None, "AssertionError")


def test_the_statistics_that_a_failing_engine_dumps_are_no_failure() -> None:
    worker = "(Worker pid=4) ERROR 11-30 17:32:23 [multiproc_executor.py:962] "
    engine = "(EngineCore pid=3) ERROR 11-30 17:32:23 "
    log = (STARTED + f"{worker}WorkerProc hit an exception.\n"
           + "".join(f"{worker}{line}\n" for line in traceback(
               (f"{SITE}/vllm/v1/attention/backends/widgets.py", 344, "forward", "ops.bend("),
               error="RuntimeError: Check failed: bolts % 4 == 0").splitlines())
           + f"{engine}[dump_input.py:72] Dumping input data for V1 LLM engine (v0.20.2) with config: model='m'\n"
           + f"{engine}[dump_input.py:81] Dumping scheduler stats: SchedulerStats(num_running_reqs=1)\n"
           + f"{engine}[core.py:1138] EngineCore encountered a fatal error.\n")
    failure = failure_of(log)
    assert (failure.exception, failure.message) == ("RuntimeError", "Check failed: bolts % 4 == 0")


def test_a_call_that_a_paste_cut_leaves_the_traceback_open() -> None:
    record = "(APIServer pid=5) ERROR 06-09 14:11:06 [serving.py:1272] "
    log = "".join(f"{record}{line}\n" for line in (
        "Error in chat completion stream generator.", "Traceback (most recent call last):",
        f'  File "{SITE}/vllm/parser/widgets.py", line 631, in parse_delta', "    delta = self.bend(",
        f'  File "{SITE}/vllm/parser/widgets.py", line 551,'))
    failure = failure_of(log)
    assert (failure.exception, failure.origin) == (None, Place("vllm", "vllm/parser/widgets.py", "", 551))


def test_a_source_line_that_warns_is_no_message_of_an_error() -> None:
    log = ('  warnings.warn("failed to load BoltIndex because widgets are not available")\n'
           + traceback((f"{SITE}/vllm/widgets.py", 3, "bend", "return bolts[0]"), error="").rstrip("\n"))
    assert failure_of(log).origin == Place("vllm", "vllm/widgets.py", "bend", 3)


def test_a_value_that_names_an_attribute_of_torch_is_no_matter_of_releases() -> None:
    log = traceback((f"{SITE}/vllm/v1/attention/backends/flashinfer.py", 1170, "build", "wrapper.plan("),
                    (f"{SITE}/flashinfer/utils.py", 254, "canonicalize", "return getattr(torch, dtype)"),
                    error="AttributeError: module 'torch' has no attribute 'bolt4'")
    assert failure_of(log).feature == "attention"


def test_the_record_above_a_cut_traceback_has_its_message() -> None:
    record = "ERROR 02-07 14:50:47 engine.py:387] "
    log = (f"{record}0 bolts ([]). There should only be one.\n{record}Traceback (most recent call last):\n"
           f'{record}  File "{SITE}/vllm/engine/multiprocessing/engine.py", line 378, in run_mp_engine\n'
           f"{record}    engine = MQLLMEngine.from_engine_args(\n"
           f'{record}  File "{SITE}/vllm/executor/executor_base.py", line 99, in bend\n')
    report = diagnose(log.encode())
    assert headline(report) == "0 bolts ([]). There should only be one."
    assert report.failure is not None
    assert report.failure.origin == Place("vllm", "vllm/executor/executor_base.py", "bend", 99)


def test_settings_that_pydantic_refuses_are_vllms_where_its_calls_are_missing() -> None:
    log = (f'  File "{SITE}/pydantic/_internal/_dataclasses.py", line 121, in __init__\n    s.validate(\n'
           "pydantic_core._pydantic_core.ValidationError: 1 validation error for BoltConfig\n"
           "  Assertion failed, The bolt is bent [type=assertion_error, input_value=1, input_type=int]\n")
    assert failure_of(log).kind == "refusal"


@pytest.mark.parametrize("name", [
    "/data/qwen/model", "acme/driver-assist-7b", "/models/boom-oom-1b", "/home/killed/model", "/data/ninja/model",
    "nvidia/Eagle2-9B", "acme/lora-merged-7b", "/mnt/mooncake/model",
])
def test_the_name_of_the_model_says_nothing_on_the_failure(name: str) -> None:
    log = traceback((f"{SITE}/vllm/config.py", 30, "verify", "raise ValueError("),
                    error=f"ValueError: The head layout zzz of the model {name} is not what was expected here")
    failure = failure_of(log)
    assert (failure.kind, failure.feature) == ("refusal", "config")


@pytest.mark.parametrize(("columns", "message"), [
    ("bolt.engine:load:12 - ", "Cannot build a field of type int | None for the engine"),
    ("MainThread pool | bolt.engine:load:12 - ", "the bolt is bent"),
    ("", "int | None is no type"),
    ("model_worker | ", "the bolt is bent"),
])
def test_columns_of_a_log_record_are_no_part_of_its_message_but_a_bar_in_it_is(columns: str, message: str) -> None:
    assert failure_of(f"2025-03-29 15:20:40 | ERROR    | {columns}{message}\n").message == message


@pytest.mark.parametrize("between", ["", "nanobind: leaked 3 instances!\n"])
def test_an_ignored_exception_is_no_failure(between: str) -> None:
    ignored = traceback((f"{SITE}/bolt.py", 3, "__del__", "raise ValueError("), error="ValueError: it is ignored")
    log = f"Exception ignored in: <function Bolt.__del__ at 0x7f00>\n{between}{ignored}" + traceback(
        (f"{SITE}/vllm/widgets.py", 3, "bend", "raise RuntimeError("), error="RuntimeError: the bolt is bent")
    assert failure_of(log).message == "the bolt is bent"


def test_what_follows_an_ignored_exception_counts() -> None:
    log = ("Exception ignored in: <function Bolt.__del__ at 0x7f00>\n...\n"
           + traceback((f"{SITE}/vllm/config.py", 30, "verify", "raise ValueError("), error="ValueError: The bolt is bent"))
    assert failure_of(log).message == "The bolt is bent"


@pytest.mark.parametrize("root", ["C:\\Users\\u\\Python312", "C:\\ProgramData\\miniconda3", "D:\\miniconda3\\envs\\vllm"])
def test_pythons_own_library_on_windows_is_no_code_of_the_users(root: str) -> None:
    failure = failure_of(traceback((root + "\\Lib\\json\\decoder.py", 355, "raw_decode", "raise JSONDecodeError("),
                                   error="json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"))
    assert failure.origin == Place("python", "json/decoder.py", "raw_decode", 355)


def test_a_mention_of_a_version_behind_blanks_begins_no_start() -> None:
    log = STARTED + traceback((f"{SITE}/vllm/widgets.py", 3, "bend", "return bolts[0]"), error=(
        "RuntimeError: the bolt needs another library:\n    version 12040 of the interface"))
    report = diagnose(log.encode())
    assert report.source.runs == 1
    assert report.failure is not None
    assert report.failure.exception == "RuntimeError"


def test_source_lines_and_quotes_are_no_messages() -> None:
    record = "(EngineCore pid=5) ERROR 08-14 02:42:37 [core.py:1343] "
    assert failure_of(f"{record}    raise e from None\n{record}BoltError: The bolt is bent\n").exception == "BoltError"
    assert (quoted := failure_of('"ValueError: The bolt is bent."\n')).exception == "ValueError"
    assert quoted.message == "The bolt is bent."


def test_what_is_not_implemented_is_no_refusal_of_a_setting() -> None:
    log = traceback((f"{SITE}/vllm/engine/widgets.py", 535, "bend", "raise NotImplementedError"), error="NotImplementedError")
    assert failure_of(log).kind == "bug"


def test_the_evidence_of_a_rule_has_the_calls_of_its_traceback() -> None:
    log = traceback((f"{SITE}/transformers/configuration_utils.py", 1136, "_dict_from_json_file", "text = reader.read()"),
                    ("<frozen codecs>", 322, "decode", ""),
                    error="UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte")
    log += "\nDuring handling of the above exception, another exception occurred:\n\n" + traceback(
        (f"{SITE}/vllm/transformers_utils/config.py", 30, "get_config", "raise OSError("),
        error="OSError: It looks like the config file at '/models/m/config.json' is not a valid JSON file.")
    report = diagnose(log.encode())
    assert report.primary == "text-file-encoding-wrong"
    assert report.failure is not None
    assert (report.failure.exception, report.failure.feature) == ("UnicodeDecodeError", "config")


def test_the_line_that_a_notebook_marks_is_the_exception_of_a_cut_traceback() -> None:
    log = '   1738     factor = 1\n   1739 else:\n-> 1740     assert "bolt" in widgets\n   1741     factor = widgets[0]\n'
    failure = failure_of(log)
    assert (failure.exception, failure.message) == ("AssertionError", 'assert "bolt" in widgets')


@pytest.mark.parametrize("root", [
    SITE, "/opt/venv/lib/python3.10/site-packages/vllm-0.4.2-py3.10.egg", "/home/me/a/b/c/src"])
def test_vllms_own_files_are_vllms_wherever_they_are(root: str) -> None:
    log = "INFO 05-20 11:00:00 api_server.py:157] vLLM API server version 0.4.2\n" + traceback(
        (f"{root}/vllm/worker/worker.py", 12, "<module>", "from vllm.config import VllmConfig"),
        error="AttributeError: module 'vllm.config' has no attribute 'VllmConfig'")
    failure = failure_of(log)
    assert (failure.feature, failure.kind) == ("environment", "bug")


def test_a_message_of_placeholders_alone_is_the_source_line() -> None:
    log = "Traceback (most recent call last):\n" + f'  File "{SITE}/vllm/widgets.py", line 3, in bend\n' + "    raise ValueError(f\"{', '.join(bolts)}\"\n"
    failure = failure_of(log)
    assert (failure.exception, failure.message) == ("ValueError", "raise ValueError(f\"{', '.join(bolts)}\"")


def test_the_end_of_a_process_in_clangs_words() -> None:
    failure = failure_of("libc++abi: terminating due to uncaught exception of type std::runtime_error: bolt: widget\n")
    assert failure.exception == "std::runtime_error"


def test_a_name_alone_is_still_a_refusal_and_system_files_are_no_names() -> None:
    call = (f"{SITE}/vllm/config.py", 30, "verify", "raise ValueError(")
    assert failure_of(traceback(call, error="ValueError: /models/acme/thing")).kind == "refusal"
    assert failure_of(traceback(call, error="OSError: /proc/driver/nvidia/version is absent")).kind == "environment"


def test_a_bare_exception_has_the_calls_that_another_process_shows() -> None:
    calls = traceback((f"{SITE}/vllm/v1/worker/gpu_model_runner.py", 141, "execute_model", "assert bolts == widgets"), error="AssertionError")
    shown = "".join(f"(Worker_TP1 pid=2) {line}\n" for line in calls.splitlines())
    failure = failure_of("(Worker_TP0 pid=1) AssertionError\n" + shown)
    assert failure.origin is not None
    assert (failure.exception, failure.origin.file, failure.origin.line) == ("AssertionError", "vllm/v1/worker/gpu_model_runner.py", 141)


def test_a_fault_that_the_gpu_reports_goes_before_the_shells_word() -> None:
    fault = "Memory access fault by GPU node-1 (Agent handle: 0x58935a90) on address 0x7fbe6a804000. Reason: Page not present or supervisor privilege."
    failure = failure_of(f"{fault}\n./start.sh: line 22:  5255 Aborted                    (core dumped) vllm serve org/m\n")
    assert failure.message == fault


def test_tracebacks_of_two_pods_whose_processes_have_one_name_are_told_apart() -> None:
    pods = [[f"pod-{pod}  | (EngineCore_DP0 pid=24) ERROR 11-24 00:18:15 [core.py:700] {text}"
             for text in traceback((f"{SITE}/vllm/v1/{file}.py", 42, file, "turn()"), error=error).splitlines()]
            for pod, file, error in (("a", "bolts", "RuntimeError: the bolt is loose"), ("b", "widgets", "ValueError: no widget"))]
    failure = failure_of("\n".join(line for lines in zip(*pods, strict=True) for line in lines) + "\n")
    assert (failure.exception, failure.message) == ("RuntimeError", "the bolt is loose")
    assert failure.origin == Place("vllm", "vllm/v1/bolts.py", "bolts", 42)


BAR = "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:01<00:01,  1.20it/s]\n"


@pytest.mark.parametrize("place", [2, 3, 4, 5])
def test_a_progress_bar_amid_a_traceback_is_none_of_it(place: int) -> None:
    lines = traceback((f"{SITE}/vllm/v1/bolts.py", 42, "turn", "self.widget()"), (f"{SITE}/vllm/v1/widgets.py", 7, "hold", "raise Loose"),
                      error="ValueError: the bolt is loose").splitlines(keepends=True)
    failure = failure_of("".join((*lines[:place], BAR, *lines[place:])))
    assert (failure.exception, failure.message, failure.line) == ("ValueError", "the bolt is loose", 7)
    assert failure.origin == Place("vllm", "vllm/v1/widgets.py", "hold", 7)
    assert failure.signature == failure_of("".join(lines)).signature


GROUP = ("  + Exception Group Traceback (most recent call last):\n"
         '  |   File "/app/serve.py", line 3, in main\n'
         "  |     turn()\n"
         "  | ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)\n"
         "  +-+---------------- 1 ----------------\n"
         "    | Traceback (most recent call last):\n"
         f'    |   File "{SITE}/vllm/v1/core/kv_cache_utils.py", line 9, in check_enough_kv_cache_memory\n'
         "    |     raise ValueError(\n"
         "    | ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.\n"
         "    +---------------- 2 ----------------\n"
         "    | RuntimeError: the bolt\n"
         "    | is loose\n"
         "    +------------------------------------\n")


def test_rules_see_the_exceptions_in_an_exception_group() -> None:
    report = diagnose(("INFO 07-01 10:00:00 [api_server.py:1234] vLLM API server version 0.9.1\n" + GROUP).encode())
    assert report.primary == "budget-too-small-for-weights-and-activations"
    assert report.failure is not None
    assert (report.failure.exception, report.failure.message) == (
        "ValueError", "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.")
    assert report.failure.origin == Place("vllm", "vllm/v1/core/kv_cache_utils.py", "check_enough_kv_cache_memory", 9)


def test_a_request_that_fails_in_an_exception_group_ends_no_server() -> None:
    log = STARTED + ASGI.replace("Traceback", "  + Exception Group Traceback").replace("\n  File", "\n  |   File").replace(
        "\n    result", "\n  |     result") + GROUP.partition("\n")[2].partition("\n")[2].partition("\n")[2] + (
        'INFO:     10.0.0.1:4711 - "GET /health HTTP/1.1" 200 OK\n')
    report = diagnose(log.encode())
    assert report.status == "serving"


def test_an_error_that_came_before_a_start_went_on_does_not_hide_the_one_that_ended_it() -> None:
    error = "ERROR 07-01 10:00:01 [bolts.py:1] RuntimeError: the bolt of widget {} is loose\n"
    failure = failure_of("INFO 07-01 10:00:00 [api_server.py:1234] vLLM API server version 0.9.1\n" + error.format(1)
                         + "INFO 07-01 10:00:02 [core.py:58] Initializing a V1 LLM engine (v0.9.1) with config: model='widget'\n"
                           "INFO 07-01 10:00:03 [default_loader.py:272] Loading weights took 1.02 seconds\n" + error.format(7)
                         + "RuntimeError: Engine core initialization failed. See root cause above.\n")
    assert (failure.line, failure.message) == (5, "the bolt of widget 7 is loose")


def test_each_of_many_processes_that_print_at_once_keeps_its_calls() -> None:
    ranks = [[f"(Worker_TP{rank} pid={1000 + rank}) ERROR 11-24 00:18:15 [multiproc_executor.py:700] {text}"
              for text in traceback((f"{SITE}/vllm/v1/bolts.py", 42, "turn", "self.widget()"), error="RuntimeError: the bolt is loose").splitlines()]
             for rank in range(80)]
    failure = failure_of("\n".join(line for lines in zip(*ranks, strict=True) for line in lines) + "\n")
    assert failure.origin == Place("vllm", "vllm/v1/bolts.py", "turn", 42)


SERVES_BEHIND_COMPOSE = ("web-1  | INFO 07-01 10:00:00 [api_server.py:1234] vLLM API server version 0.9.1\n"
                         "db-1   | LOG:  the bolt is ready\n"
                         "web-1  | INFO 07-01 10:02:00 [default_loader.py:272] Loading weights took 1.02 seconds\n"
                         "web-1  | INFO:     Application startup complete.\n")


def test_the_end_of_the_servers_container_is_a_failure_but_not_that_of_another_one() -> None:
    report = diagnose((SERVES_BEHIND_COMPOSE + "web-1 exited with code 1\n").encode())
    assert report.status == "failed"
    assert report.failure is not None
    assert (report.failure.message, report.failure.line) == ("web-1 exited with code 1", 5)
    assert diagnose((SERVES_BEHIND_COMPOSE + "db-1 exited with code 1\n").encode()).status == "serving"


@pytest.mark.parametrize("prefix", ["(EngineCore_DP0 pid=9) (RayWorkerWrapper pid=10{}) ", "(RayWorkerWrapper pid=10{}) "])
def test_each_worker_of_ray_is_a_rank_also_behind_the_prefix_of_the_engine(prefix: str) -> None:
    log = "(APIServer pid=1) INFO 11-24 00:18:00 [utils.py:233] non-default args: {'model': 'widget', 'tensor_parallel_size': 4}\n"
    error = "ERROR 11-24 00:18:15 [gpu_worker.py:42] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`\n"
    report = diagnose((log + "".join(prefix.format(rank) + error for rank in range(4))).encode())
    assert report.findings[0].ranks == "on 4 of 4 ranks"
