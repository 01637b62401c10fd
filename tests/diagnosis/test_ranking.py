from __future__ import annotations

from pathlib import Path

from vllm_doctor import diagnose
from vllm_doctor.diagnosis.ranking import Fired, rank
from vllm_doctor.matching.matcher import Hit, Hits
from vllm_doctor.rulebase.model import Rule

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "logs"


def fired(rule_id: str, line: int, *, recovered: bool = False, role: str = "cause", severity: str = "error",
          refines: tuple[str, ...] = (), general: tuple[str, ...] = (), fallback: bool = False) -> Fired:
    rule = Rule(rule_id, rule_id, severity, "config", role, (), refines=refines, general=general,
                fallback=("p",) if fallback else ())
    hits = Hits()
    hits.add(Hit("p", line, "text", None, "", "config", {}))
    return Fired(rule, hits, recovered)


def order(*items: Fired) -> list[str]:
    return [item.rule.id for item in rank(items)]


def test_a_cause_comes_before_an_earlier_cascade() -> None:
    assert order(fired("cascade", 1, role="cascade"), fired("cause", 9)) == ["cause", "cascade"]


def test_what_the_server_survived_is_not_the_cause() -> None:
    assert order(fired("early", 1, recovered=True), fired("late", 9)) == ["late", "early"]


def test_what_refuses_requests_comes_behind_what_ended_the_server() -> None:
    refused = fired("refused", 1)._replace(passing=True)
    assert order(refused, fired("late", 9)) == ["late", "refused"]
    assert order(refused, fired("warning", 9, severity="warning")) == ["refused", "warning"]


def test_a_name_that_clients_ask_for_in_vain_is_not_why_a_server_died() -> None:
    refused = (b"(APIServer pid=1) ERROR 11-20 11:38:49 [serving_chat.py:257] Error with model object='error' "
               b"message='The model `gpt-4` does not exist.' type='NotFoundError' param=None code=404\n")
    served = (FIXTURES / "healthy" / "tiny-load.log").read_bytes()
    died = (b"(EngineCore pid=2) ERROR 11-20 18:40:07 [core.py:1108] EngineCore encountered a fatal error.\n"
            b"(EngineCore pid=2) ERROR 11-20 18:40:07 [core.py:1108] torch.OutOfMemoryError: CUDA out of memory. Tried to "
            b"allocate 2.32 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.05 GiB is free.\n")
    serving = served.partition(b"Application startup complete.\n")
    log = serving[0] + serving[1] + refused
    assert diagnose(log).primary == "served-model-name-mismatch"
    assert diagnose(log + died).primary == "runtime-cuda-oom"


def test_an_error_comes_before_an_earlier_warning() -> None:
    assert order(fired("warning", 1, severity="warning"), fired("error", 9)) == ["error", "warning"]


def test_the_earliest_of_equals_then_the_id() -> None:
    assert order(fired("b", 5), fired("c", 2), fired("a", 5)) == ["c", "a", "b"]


def test_a_specific_rule_hides_the_general_one() -> None:
    assert order(fired("general", 1), fired("specific", 2, refines=("general",))) == ["specific"]
    assert order(fired("general", 1, general=("p",)), fired("specific", 2, refines=("general",))) == ["specific"]
    assert order(fired("general", 1, general=("q",)), fired("specific", 2, refines=("general",))) == [
        "general", "specific"]
    assert order(fired("general", 1), fired("specific", 2, refines=("general",), recovered=True)) == [
        "general", "specific"]


def test_a_fallback_yields_to_any_other_error() -> None:
    assert order(fired("fallback", 1, fallback=True), fired("cause", 9)) == ["cause"]
    assert order(fired("fallback", 1, fallback=True), fired("warning", 9, severity="warning")) == ["fallback", "warning"]


def test_a_rule_may_be_a_fallback_for_some_of_its_patterns() -> None:
    loading = b"INFO 02-11 07:40:40 [gpu_model_runner.py:1329] Starting to load model /models/base...\n"
    refused = b"Resource temporarily unavailable (src/thread.cpp:241)\n"
    probe = b"Normal   Killing    2m (x3 over 9m)  kubelet  Container vllm failed startup probe, will be restarted\n"
    signal = b"(APIServer pid=1) KeyboardInterrupt: terminated\n"
    certain, guessed = diagnose(loading + probe).cause, diagnose(loading + signal).cause
    assert certain is not None
    assert guessed is not None
    assert (certain.id, certain.confidence) == ("startup-probe-kills-server", 0.95)
    assert (guessed.id, guessed.confidence) == ("startup-probe-kills-server", 0.5)
    assert [one.id for one in diagnose(loading + refused + signal).findings] == ["process-limit-reached"]


def test_a_fallback_that_warns_yields_to_other_warnings() -> None:
    warns = fired("fallback", 1, severity="warning", fallback=True)
    assert order(warns, fired("warning", 9, severity="warning")) == ["warning"]
    assert order(warns, fired("remark", 9, severity="info")) == ["fallback", "remark"]


def test_a_warning_of_the_service_comes_before_an_earlier_one_of_the_start() -> None:
    late = fired("late", 90, severity="warning")
    late = Fired(late.rule._replace(phase="runtime"), late.hits)
    assert order(fired("early", 1, severity="warning"), late) == ["late", "early"]


def test_of_errors_the_earliest_line_counts_whatever_its_phase() -> None:
    late = fired("late", 90)
    late = Fired(late.rule._replace(phase="runtime"), late.hits)
    assert order(late, fired("early", 1)) == ["early", "late"]


def test_a_fallback_alone_remains() -> None:
    assert order(fired("fallback", 1, fallback=True)) == ["fallback"]
    assert order() == []
