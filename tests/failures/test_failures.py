"""What failed: exact exceptions, messages, places, features, kinds, next steps; and what is no failure."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_doctor import diagnose
from vllm_doctor.diagnosis import Diagnosis
from vllm_doctor.reports.model import Failure, Place

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


def test_an_exception_that_ray_wraps() -> None:
    log = ("ray.exceptions.RayTaskError(ValueError): ray::Trainer.step() (pid=12, ip=10.0.0.3)\n"
           '  File "/home/me/train.py", line 3, in step\n    engine.run()\n'
           "ValueError: the widget is bent\n")
    failure = failure_of(log)
    assert (failure.exception, failure.message, failure.feature) == ("ValueError", "the widget is bent", "other-software")


def test_a_chain_is_told_by_its_root() -> None:
    log = (traceback((f"{SITE}/vllm/v1/core/sched/scheduler.py", 9, "schedule", "x()"), error="AssertionError: 3 widgets are left")
           + "\nThe above exception was the direct cause of the following exception:\n\n"
           + traceback((f"{SITE}/vllm/v1/engine/core.py", 5, "step", "y()"), error="RuntimeError: Failed to step"))
    failure = failure_of(log)
    assert (failure.exception, failure.message, failure.feature) == ("AssertionError", "3 widgets are left", "scheduler")


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


def test_a_traceback_whose_exception_is_cut_off() -> None:
    log = ("Traceback (most recent call last):\n"
           f'  File "{SITE}/vllm/model_executor/offloader/uva.py", line 56, in wrap\n'
           '    assert tensor.fits(), "the widget must be pinned"\n')
    failure = failure_of(log)
    assert (failure.exception, failure.message, failure.feature) == (
        "AssertionError", "the widget must be pinned", "offload")


def test_own_code_is_named() -> None:
    log = STARTED + ASGI + '  File "/srv/gateway/auth.py", line 22, in dispatch\n    user = claims["sub"]\nKeyError: \'sub\'\n'
    failure = failure_of(log)
    assert failure.own_frame == Place(None, "/srv/gateway/auth.py", "dispatch", 22)
    assert (failure.kind, failure.feature) == ("other-software", "other-software")
    assert 'File "/srv/gateway/auth.py", line 22, in dispatch' in failure.text


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
