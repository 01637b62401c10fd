from __future__ import annotations

from vllm_doctor.match import Hit, Hits
from vllm_doctor.ranking import Fired, rank
from vllm_doctor.rules import Rule


def fired(rule_id: str, line: int, *, recovered: bool = False, role: str = "cause", severity: str = "error",
          refines: tuple[str, ...] = (), fallback: bool = False) -> Fired:
    rule = Rule(rule_id, rule_id, severity, "config", role, (), refines=refines, fallback=fallback)
    hits = Hits()
    hits.add(Hit("p", line, "text", None, "", "config", {}))
    return Fired(rule, hits, recovered)


def order(*items: Fired) -> list[str]:
    return [item.rule.id for item in rank(items)]


def test_a_cause_comes_before_an_earlier_cascade() -> None:
    assert order(fired("cascade", 1, role="cascade"), fired("cause", 9)) == ["cause", "cascade"]


def test_what_the_server_survived_is_not_the_cause() -> None:
    assert order(fired("early", 1, recovered=True), fired("late", 9)) == ["late", "early"]


def test_an_error_comes_before_an_earlier_warning() -> None:
    assert order(fired("warning", 1, severity="warning"), fired("error", 9)) == ["error", "warning"]


def test_the_earliest_of_equals_then_the_id() -> None:
    assert order(fired("b", 5), fired("c", 2), fired("a", 5)) == ["c", "a", "b"]


def test_a_specific_rule_hides_the_general_one() -> None:
    assert order(fired("general", 1), fired("specific", 2, refines=("general",))) == ["specific"]
    assert order(fired("general", 1), fired("specific", 2, refines=("general",), recovered=True)) == [
        "general", "specific"]


def test_a_fallback_yields_to_any_other_error() -> None:
    assert order(fired("fallback", 1, fallback=True), fired("cause", 9)) == ["cause"]
    assert order(fired("fallback", 1, fallback=True), fired("warning", 9, severity="warning")) == ["fallback", "warning"]


def test_a_fallback_that_warns_yields_to_other_warnings() -> None:
    warns = fired("fallback", 1, severity="warning", fallback=True)
    assert order(warns, fired("warning", 9, severity="warning")) == ["warning"]
    assert order(warns, fired("remark", 9, severity="info")) == ["fallback", "remark"]


def test_a_warning_of_the_service_comes_before_an_earlier_one_of_the_start() -> None:
    late = fired("late", 90, severity="warning")
    late = Fired(late.rule._replace(phase="runtime"), late.hits)
    assert order(fired("early", 1, severity="warning"), late) == ["late", "early"]
