"""The failure of one server start: what the log shows, beside the rules that fired, and what to try next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from vllm_doctor import failures
from vllm_doctor.catalog.features import feature_of_rule
from vllm_doctor.diagnosis import fixes
from vllm_doctor.diagnosis.ranking import Fired
from vllm_doctor.diagnosis.run_analysis import RunAnalysis
from vllm_doctor.failures.next_steps import next_steps
from vllm_doctor.failures.short_paths import with_full_paths
from vllm_doctor.matching.matcher import Hits
from vllm_doctor.reports.model import Fix
from vllm_doctor.rulebase.model import Rule

_MOST_STEPS = 4
_HEAD = 2  # lines from the start of the log within which the last line of a traceback has lost its calls
_NO_RULE = Rule("failure", "", "error", "args", "cause", ())


class Failed(NamedTuple):
    """The failure and the rule that explains it, if one does."""

    failure: failures.Failure
    explained_by: Fired | None
    candidate: failures.Candidate


def failed(analysis: RunAnalysis, status: str) -> Failed | None:
    """Return what failed, given the state of the start by its markers and rules."""
    run = analysis.run
    causes = [item for item in analysis.fired if item.rule.role == "cause" and not item.recovered]
    errors = [item for item in causes if item.rule.severity == "error"]
    start = failures.Start(status, run.phase, run.advances, run.advance_line, run.serving_line,
                           run.stopped_line, run.last_line, run.healthy_line)
    proofs = [failures.Proof(hit.line, hit.text) for item in errors[:1] for hit in item.hits.first]
    passing = [hit.line for item in causes if item.rule.survives and item.rule.severity != "error"
               for hit in item.hits.kept]
    harmless = [hit.line for item in causes if item.rule.severity == "info" for hit in item.hits.kept]
    candidate = failures.find(run.failures, start, proofs, passing, harmless)
    if candidate is None:
        return None
    candidate = with_full_paths(failures.as_reported_by_server(failures.as_reported_by_worker(candidate)))
    given, source = _given(analysis)
    found = failures.describe(candidate, start, given, source, run.failures,
                              release=str(release) if (release := analysis.facts.get("vllm_version")) else None)
    by = errors[0] if errors else next(
        (item for item in causes if _lies_in(item, candidate, run.hits) or _is_answered(item, candidate)
         or _is_repeated(item, candidate, status)), None)
    if by is not None and found.feature in {None, "other-software"}:
        found = found._replace(feature=feature_of_rule(by.rule.id) or found.feature)
    return Failed(found, by, candidate)


def steps(analysis: RunAnalysis, found: Failed, clean: Callable[[Any], Any]) -> tuple[Fix, ...]:
    """Return what to try next; a step is never presented as a cure or as safe."""
    failure = found.failure
    given, _ = _given(analysis)
    text = "\n".join([failure.message, *(frame.path for frame in found.candidate.frames)])
    entries, names = next_steps(failure, given, analysis.facts, text)
    known: Mapping[str, Any] = {**analysis.facts, "releases": analysis.releases, **names}
    context = fixes.FixContext.of(analysis, known, clean)
    return fixes.fixes(_NO_RULE._replace(fixes=tuple(entries)), context, min(analysis.options.max_fixes, _MOST_STEPS))


def _given(analysis: RunAnalysis) -> tuple[Mapping[str, Any] | None, str]:
    """Return the user's settings by keyword, and their source; None where the log does not show them."""
    if analysis.typed is not None:
        return analysis.typed.arguments(), "command"
    if analysis.run.settings:
        return analysis.run.settings, "arguments"
    return None, ""


def _is_answered(item: Fired, candidate: failures.Candidate) -> bool:
    """Return whether a rule for what the server survives fired right before a request was answered with 5xx."""
    return (candidate.is_server_error and item.rule.survives
            and any(0 < candidate.line - hit.line <= failures.ANSWER_REACH for hit in item.hits.kept))


def _is_repeated(item: Fired, candidate: failures.Candidate, status: str) -> bool:
    """Return whether the log begins with the end of an error of a request, and shows such an error from its start."""
    return (status == "serving" and candidate.line <= _HEAD and not candidate.frames and candidate.exception is not None
            and item.rule.survives and item.rule.phase == "api" and item.hits.latest.line > candidate.last_line)


def _lies_in(item: Fired, candidate: failures.Candidate, hits: Mapping[str, Hits]) -> bool:
    """Return whether a rule fired on the lines of the failure, or on the record before them that introduces them.

    A rule that it refines counts as well: it is the more precise name of the same failure.
    """
    return any(candidate.begin - 1 <= hit.line <= candidate.last_line
               for rule_id in (item.rule.id, *item.rule.refines) if rule_id in hits for hit in hits[rule_id].first)
