"""Diagnosis -> Report: findings in words, with fixes, evidence, the memory picture; everything redacted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from vllm_doctor import memory
from vllm_doctor.command.render import render
from vllm_doctor.diagnosis import capacity, fixes
from vllm_doctor.diagnosis.failed import Failed, failed, steps
from vllm_doctor.diagnosis.ranking import Fired
from vllm_doctor.diagnosis.run import Run
from vllm_doctor.diagnosis.run_analysis import RunAnalysis
from vllm_doctor.failures import Place, ends_engine, ends_log, is_answered_with_5xx
from vllm_doctor.failures.exception_lines import assertion_in_code
from vllm_doctor.failures.frames import origin as origin_of
from vllm_doctor.failures.phase import phase_of
from vllm_doctor.matching.matcher import Hits
from vllm_doctor.messages import Message, message
from vllm_doctor.phases import ORDER
from vllm_doctor.redact import MASK, Redactor, redact_value, safe_text
from vllm_doctor.reports.model import MESSAGE_LINES, Evidence, Failure, Finding, Fix, Report, Source
from vllm_doctor.rulebase.model import Rule
from vllm_doctor.templating import renderer
from vllm_doctor.timeline import timeline

_EVIDENCE = 3
_EVIDENCE_WIDTH = 600
_LONGEST = 16_384  # of a message that is looked at for secrets; more than is shown
_PLACES = 16
_SHORTAGES = frozenset({"kv-cache-too-small-for-max-len", "low-kv-capacity"})
_CALLS = 2  # of a traceback that are shown


def build(analysis: RunAnalysis, source: Source, notes: tuple[str, ...] = (),
          input_notes: tuple[str, ...] = ()) -> Report:
    """Build the report on one run."""
    run = analysis.run
    clean = _cleaner(analysis.redactor)
    findings = tuple(finding(item, analysis) for item in analysis.fired)
    causes = [item for item in findings if item.role == "cause" and not item.recovered]
    status = _status(analysis)
    explained = any(item.severity == "error" for item in causes)
    found = failed(analysis, status)
    if found is None and status == "failed" and not run.status and not explained:
        status = run.state(survived=True)  # what was raised while the process tidied up
    failure = None if found is None else _failure(found, analysis, clean, status)
    runs = status == "serving" or (run.is_ended_by_caller and not run.status)
    is_ended = found is not None and (found.candidate.shape == "fatal" or ends_engine(found.candidate)) and runs
    is_open = is_ended or status in {"unknown", "starting"}
    if failure is not None and failure.counts and is_open and not _passing(found):
        status = "failed"
    is_broken = status == "failed" or (failure is not None and failure.counts and failure.kind != "request")
    is_named = not is_broken or explained or (failure is not None and bool(failure.explained_by))
    derived, ledger = memory.derived(analysis.facts), memory.ledger(analysis.facts)
    return Report(
        source=source._replace(path=analysis.redactor.redact(source.path)) if analysis.redactor else source,
        status=status,
        phase=_phase(run, found) or None,
        facts=clean(dict(analysis.facts)),
        facts_at=_places(analysis, clean),
        derived=derived,
        memory=ledger,
        primary=causes[0].id if causes and is_named else None,  # a warning does not explain a failure
        failure=failure,
        findings=findings,
        lengths=memory.context_lengths(analysis.facts) if causes and is_named and causes[0].id in _SHORTAGES else (),
        notes=(*notes, *_about_masks(findings)),
        capacity=() if status == "failed" or explained else _capacity(analysis, derived, ledger, causes),
        input_notes=input_notes,
        release=analysis.releases_by_wording.words() if run.last_line else "",
        release_is_known=analysis.releases_by_wording.known,
        command=clean(render(typed.masked(clean))) if (typed := analysis.shown_command) is not None else None,
        load=run.load.curve.points,
        redactor=analysis.redactor,
        timeline=timeline(run.clock, analysis.facts, analysis.releases_by_wording),
        batch="" if run.serving_line or not run.has_batches else "done" if run.has_all_answers else "running",
    )


def _places(analysis: RunAnalysis, clean: Callable[[Any], Any]) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return where each fact is: its lines in the log, or that of the GPU's row in the output of its tool."""
    found = {name: tuple({"line": fact.line, "rank": fact.rank, "value": clean(fact.value)}
                         for fact in analysis.run.facts.observations(name)[:_PLACES] if fact.line)
             for name in analysis.facts if analysis.run.facts.observations(name)}
    if analysis.card is not None and analysis.card.line:
        found.update({name: ({"line": analysis.card.line, "rank": None, "value": clean(value)},)
                      for name, value in analysis.card.facts().items()
                      if name not in found and analysis.facts.get(name) == value})
    return found


def _about_masks(findings: tuple[Finding, ...]) -> tuple[str, ...]:
    """Return how to use a command in which a secret is masked."""
    offered = [text for item in findings for fix in item.fixes
               for text in (fix.command, *(fix.patch or {}).values(), *fix.flags.values(), *fix.env.values()) if text]
    hidden = [text for text in offered if MASK in text]
    if not hidden:
        return ()
    if any("--api-key" in text for text in hidden):
        return (message("{mask} in a command stands for a secret of the log: put your own value there, or set "
                        "VLLM_API_KEY instead of --api-key.", mask=MASK),)
    return (message("{mask} in a command stands for a secret of the log: put your own value there.", mask=MASK),)


def _capacity(analysis: RunAnalysis, derived: dict[str, Any], ledger: memory.Memory | None,
              causes: Sequence[Finding]) -> tuple[str, ...]:
    facts = {**analysis.facts, **analysis.run.load.summary(), **analysis.run.requests.summary()}
    return capacity.sentences(facts, derived, ledger, is_explained=any(item.phase == "runtime" for item in causes))


def _cleaner(redactor: Redactor | None) -> Callable[[Any], Any]:
    """Return the function that makes every text and value from the log safe to print."""
    if redactor is None:
        return _safe_values
    return lambda value: redact_value(value, lambda text: safe_text(redactor.redact(text)))


def _safe_values(value: Any) -> Any:
    """Return the value with its texts safe to print; for a mapping, those of its items."""
    if isinstance(value, dict):
        return {key: _safe_values(item) for key, item in value.items()}
    if isinstance(value, Message):
        return value.through(safe_text)
    return safe_text(value) if isinstance(value, str) else value


def _status(analysis: RunAnalysis) -> str:
    """Return one of failed, serving, starting, stopped, unknown."""
    run = analysis.run
    fatal = any(item.rule.role in {"cause", "cascade"} and item.rule.severity == "error" and not item.recovered
                and not _of_a_request(item, run) and not (item.rule.phase == "api" and run.serves)
                for item in analysis.fired)
    if fatal and not run.serving_line:
        return "failed"
    # A request's error ends in a traceback too: the rule's line is the traceback's own, or the one before it.
    return run.state(any(_of_a_request(item, run) and item.hits.latest.line >= run.crash_line - 1
                         for item in analysis.fired))


def _of_a_request(item: Fired, run: Run) -> bool:
    """Return whether it is a fault of single requests, which the server survives."""
    rule = item.rule
    return (rule.survives and rule.role == "cause" and rule.severity != "info" and ORDER[rule.phase] >= ORDER["api"]
            and ORDER[run.phase or "api"] >= ORDER["api"])


def finding(item: Fired, analysis: RunAnalysis) -> Finding:
    """Return the finding of a rule that fired, for this analysis."""
    clean = _cleaner(analysis.redactor)
    rule, hits = item.rule, item.hits
    known = analysis.values_for(rule, hits)
    known.update(fixes.let(rule, known))
    context = fixes.FixContext.of(analysis, known, clean)
    title = _of_case(rule, "title", known) or rule.title
    case = renderer.render_paragraphs(_of_case(rule, "explain", known), known)
    return Finding(
        id=rule.id,
        title=clean(renderer.render_line(title, known) or renderer.with_ellipses(title, known)),
        severity="info" if item.recovered else rule.severity,
        confidence=_confidence(item),
        role=rule.role,
        phase=rule.phase,
        evidence=_evidence(hits, clean),
        explanation=clean(renderer.render_paragraphs(rule.explain, {**known, "case": case} if case else known)),
        background=clean(renderer.render_paragraphs(rule.background, known)),
        fixes=tuple(_clean_fix(fix, clean)
                    for fix in fixes.fixes(rule, context, analysis.options.max_fixes)),
        links=rule.references,
        ranks=_ranks(hits, known),
        recovered=item.recovered,
    )


def _of_case(rule: Rule, part: Literal["title", "explain"], known: Mapping[str, Any]) -> str:
    """Return the title or explanation of the first case that has one and applies; "" if none does."""
    return next((text for case in rule.cases if (text := getattr(case, part)) and fixes.applies(case, known)), "")


def _evidence(hits: Hits, clean: Callable[[Any], Any]) -> tuple[Evidence, ...]:
    """Return the first lines of evidence, each text once: ranks and tracebacks repeat it."""
    by_text: dict[str, Evidence] = {}
    for hit in hits.first:
        text = _short(clean(hit.text[:_LONGEST]))
        by_text.setdefault(text.rpartition("Error: ")[2], Evidence(hit.line, text))
    return tuple(by_text.values())[:_EVIDENCE]


def _confidence(item: Fired) -> float:
    """Return the confidence in a finding: lower for a draft rule, lowest for a fallback or a consequence."""
    if item.rule.role != "cause" or item.is_fallback:
        return 0.5
    return 0.8 if item.rule.status == "draft" else 0.95


def _ranks(hits: Hits, known: dict[str, Any]) -> str:
    if len(hits.ranks) < 2:
        return ""
    size = known.get("tensor_parallel_size", 1) * known.get("pipeline_parallel_size", 1)
    return message("on {count} of {size} ranks", count=len(hits.ranks), size=max(size, len(hits.ranks)))


def _short(text: str) -> str:
    return text if len(text) <= _EVIDENCE_WIDTH else text[: _EVIDENCE_WIDTH - 1] + "…"


def _clean_fix(fix: Fix, clean: Callable[[Any], Any]) -> Fix:
    return fix._replace(
        title=clean(fix.title), flags=clean(dict(fix.flags)), env=clean(dict(fix.env)),
        steps=tuple(clean(step) for step in fix.steps),
        command=clean(fix.command) if fix.command else None,
        patch={key: clean(value) for key, value in fix.patch.items()} if fix.patch else None,
        why=clean(fix.why), cost=clean(fix.cost), verify=clean(fix.verify),
        proof={name: clean(value) for name, value in fix.proof.items()},
        program=None if fix.program is None else fix.program._replace(
            settings=clean(dict(fix.program.settings)), shown=tuple(map(clean, fix.program.shown))),
    )


def _phase(run: Run, found: Failed | None) -> str:
    """Return the phase that the start reached, by its lines and by the calls of what failed."""
    by_calls = "" if found is None else phase_of(found.candidate.frames)
    return max(run.phase, by_calls, key=lambda phase: ORDER.get(phase, -1))


def _passing(found: Failed | None) -> bool:
    """Return whether the rule that explains it is about requests, whose failure a server survives."""
    return found is not None and found.explained_by is not None and found.explained_by.rule.survives


def _is_outlived_request(by: Fired | None, status: str) -> bool:
    """Return whether a rule explains it as a fault of single requests, and the server went on to serve."""
    return by is not None and by.of_request and status in {"serving", "stopped"}


def _failure(found: Failed, analysis: RunAnalysis, clean: Callable[[Any], Any], status: str) -> Failure:
    """Return the failure as the report shows it."""
    failure, by = found.failure, found.explained_by
    is_outlived = _is_outlived_request(by, status) and not is_answered_with_5xx(analysis.run.failures, [failure.line])
    is_request = failure.kind == "request" or is_outlived
    return Failure(
        line=failure.line, last_line=failure.last_line, exception=failure.exception,
        message=clean(_quoted(found, analysis.run) or _assertion(found)),
        origin=_clean_place(failure.origin, clean), vllm_frame=_clean_place(failure.vllm_frame, clean),
        caller=clean(failure.caller) if failure.caller else None, own_frame=_clean_place(failure.own_frame, clean),
        feature=failure.feature, kind="request" if is_request else failure.kind,
        settings=tuple(one._replace(value=clean(one.value)) for one in failure.settings),
        signature=failure.signature,
        fixes=() if by else tuple(_clean_fix(fix, clean) for fix in steps(analysis, found, clean)),
        text=_excerpt(found, clean),
        counts=not is_request or (failure.is_alone and not is_outlived),
        explained_by=by.rule.id if by else "",
        is_consequence=failure.is_consequence,
        is_alone=failure.is_alone,
        ends_log=ends_log(found.candidate, analysis.run.last_line, analysis.run.healthy_line),
        message_file=failure.message_file,
    )


def _quoted(found: Failed, run: Run) -> str:
    """Return the message as the log has it, also where a client's text in it was hidden."""
    lines = found.failure.message.split("\n")
    return "\n".join(run.hidden_texts.restore(found.failure.line + offset, line) for offset, line in enumerate(lines))


def _assertion(found: Failed) -> str:
    """Return the check that failed, of an assertion without a message, as its source line shows it."""
    calls = found.candidate.frames
    if found.failure.exception != "AssertionError" or not calls:
        return ""
    return assertion_in_code(calls[-1].code)


def _clean_place(place: Place | None, clean: Callable[[Any], Any]) -> Place | None:
    return None if place is None else place._replace(file=clean(place.file), function=clean(place.function))


def _excerpt(found: Failed, clean: Callable[[Any], Any]) -> str:
    """Return the last calls, including the user's own, and the exception with its message."""
    calls = found.candidate.frames
    own = found.failure.own_frame
    shown = [frame for frame in calls[:-_CALLS] if own and origin_of(frame) == own]
    lines = []
    for frame in (*shown, *calls[-_CALLS:]):
        place = f", line {frame.line}" if frame.line else ""
        function = f", in {frame.function}" if frame.function else ""
        lines.append(f'  File "{frame.shown or frame.path}"{place}{function}')
        if frame.code:
            lines.append(f"    {frame.code}")
    head = found.failure.exception
    message = found.failure.message
    lines += ((f"{head}: {message}" if message else head) if head else message).split("\n")[:MESSAGE_LINES]
    # Masked as one text: a secret may go over several lines.
    return "\n".join(_short(line) for line in clean("\n".join(line[:_LONGEST] for line in lines)).split("\n"))
