"""Run the tests in rule files. Used by pytest and `vllm-doctor rules test`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from vllm_doctor.diagnosis.engine import Diagnosis
from vllm_doctor.diagnosis.log_reading import LogReading
from vllm_doctor.errors import InputError
from vllm_doctor.matching.matcher import is_barred, why_not
from vllm_doctor.options import Options
from vllm_doctor.reports.model import Finding, Fix, Report
from vllm_doctor.rulebase.model import Rule

_MEASURED = ("_gib", "_seconds")


class Failure(NamedTuple):
    """One expectation that was not met."""

    rule: str
    test: str
    problem: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.test}: {self.problem}"


class Result(NamedTuple):
    """A test, the report on its log (None if the test cannot be run) and the expectations that were not met."""

    test: Mapping[str, Any]
    report: Report | None
    problems: list[str]


def run_tests(rule: Rule, folders: tuple[str, ...] = ()) -> list[Failure]:
    """Return the failures of the rule's tests. `folders` are rule folders in addition to the built-in one."""
    return [Failure(rule.id, str(result.test["name"]), problem)
            for result in results(rule, folders) for problem in result.problems]


def results(rule: Rule, folders: tuple[str, ...] = ()) -> Iterator[Result]:
    """Run the rule's tests and yield the result of each."""
    for test in rule.tests:
        yield _result(rule, test, folders)


def _result(rule: Rule, test: Mapping[str, Any], folders: tuple[str, ...]) -> Result:
    options = Options(rules=folders, command=test.get("command", ""), vllm_version=str(test.get("vllm", "")))
    try:
        diagnosis = Diagnosis(options)
    except InputError as error:
        return Result(test, None, [str(error)])
    diagnosis.feed(str(test["log"]).encode())
    report = diagnosis.finish()
    return Result(test, report, _problems(rule, test, diagnosis, report))


def _problems(rule: Rule, test: Mapping[str, Any], diagnosis: Diagnosis, report: Report) -> list[str]:
    finding = next((item for item in report.findings if item.id == rule.id), None)
    problems = []
    fired = None
    hits = diagnosis.reading.analysis().run.hits.get(rule.id)
    if finding is not None and (hits is None or not hits.first):
        return ["fires only when the log is read a second time"]
    if finding is not None and hits is not None:
        fired = hits.first[0].pattern
        patterns = {hit.pattern for hit in hits.kept}
    if test["fires"] is None:
        if finding is not None:
            problems.append(f"fires ({fired}) but must not")
    elif finding is None:
        problems.append("does not fire; " + why_not_fired(diagnosis.reading, rule))
    elif test["fires"] not in patterns:
        problems.append(f"fires on `{fired}`, not on `{test['fires']}`")
    for name, wanted in (test.get("facts") or {}).items():
        got = report.facts.get(name, report.derived.get(name))
        if not same_fact(name, wanted, got):
            problems.append(f"{name} is {got!r}, not {wanted!r}")
    if finding is not None:
        problems += _fix_problems(finding, test)
    return problems


def _fix_problems(finding: Finding, test: Mapping[str, Any]) -> list[str]:
    problems = []
    wanted = test.get("first_fix")
    if wanted:
        first = finding.fixes[0] if finding.fixes else None
        if first is None or not offers(first, wanted):
            problems.append(f"the first fix is {_words(first)}, not {dict(wanted)}")
    offered = {fix.id for fix in finding.fixes}
    problems += [f"offers the fix `{fix_id}`" for fix_id in test.get("no_fix", ()) if fix_id in offered]
    return problems


def offers(fix: Fix, wanted: Mapping[str, Any]) -> bool:
    """Return whether a fix sets each wanted flag or variable, or is the wanted action; null means `unset`."""
    table: dict[str, Any] = {**fix.flags, **fix.env, "action": fix.action}
    for name, value in wanted.items():
        if value is None:
            if name not in fix.unset:
                return False
        elif name not in table or not same("" if value is True else value, table[name]):
            return False
    return True


def _words(fix: Fix | None) -> str:
    if fix is None:
        return "none"
    return f"`{fix.id}` {dict(fix.flags) | dict(fix.env) or fix.action or fix.unset}"


def same(wanted: Any, got: Any) -> bool:
    """Return whether two values are equal as numbers or as strings."""
    try:
        return float(wanted) == float(got)
    except (TypeError, ValueError):
        return str(wanted) == str(got)


def same_fact(name: str, wanted: Any, got: Any) -> bool:
    """Return whether a fact has the expected value; measured GiB and seconds have a tolerance of 0.6 %."""
    if not name.endswith(_MEASURED):
        return same(wanted, got)
    try:
        return math.isclose(float(wanted), float(got), rel_tol=0.006, abs_tol=0.01)
    except (TypeError, ValueError):
        return False


def why_not_fired(reading: LogReading, rule: Rule) -> str:
    """Return why a rule did not fire: a missing pattern, a failed condition, or the rule that hides it."""
    analysis = reading.analysis()
    hits = analysis.run.hits.get(rule.id)
    if hits is None or not hits.first:
        return "none of its patterns is in the log: " + ", ".join(f"`{p.id}`" for p in rule.any)
    if is_barred(rule, hits, analysis.values_for(rule, hits)):
        return "a line that must be absent is in the log"
    missing = [p.id for p in rule.also if p.id not in hits.also]
    if missing:
        return f"`{missing[0]}` must also be in the log"
    reason = why_not(rule, analysis.values_for(rule, hits))
    if reason:
        return reason
    hiding = [item.rule.id for item in analysis.fired if rule.id in item.rule.refines]
    if hiding:
        return f"`{hiding[0]}` refines it"
    return "another cause was found" if rule.fallback else "it fires"
