"""A start that prints nothing for too long: reported by `watch`, which alone knows the time."""

from __future__ import annotations

from vllm_doctor.diagnosis.log_reading import LogReading
from vllm_doctor.diagnosis.ranking import Fired
from vllm_doctor.diagnosis.report_builder import finding
from vllm_doctor.diagnosis.run_analysis import RunAnalysis
from vllm_doctor.matching.matcher import Hit, Hits
from vllm_doctor.messages import message
from vllm_doctor.reports.model import Report
from vllm_doctor.rulebase.model import Stall
from vllm_doctor.templating import evaluator


def stall_report(reading: LogReading, seconds: float, after: float | None = None) -> Report | None:
    """Return the report if no line for `seconds` is a stall in the phase reached, else None.

    `after` is the user's bound in place of the phase's own. A serving server may be idle.
    """
    run = reading.runs[-1]
    stall = reading.base.stalls.get(run.current_phase)
    if stall is None or run.status or run.crashed or seconds < (stall.after if after is None else after):
        return None
    analysis = reading.analysis(run)
    report = reading.report(analysis)
    failure = report.failure  # a rule for a hang has one without an exception
    has_failed = report.status == "failed" and failure is not None and failure.exception is not None
    return None if has_failed else _stalled(report, analysis, stall, seconds)


def _stalled(report: Report, analysis: RunAnalysis, stall: Stall, seconds: float) -> Report:
    """Return the report of a start without a line for `seconds`: status `stalled`, with the likely cause."""
    note = message("No log line for {seconds:.0f} s in phase {phase}. The most common cause is {likely}.",
                   seconds=seconds, phase=stall.phase, likely=message(stall.likely))
    findings = report.findings
    rule = analysis.base.rules.get(stall.rule)
    known = rule is not None and all(item.id != stall.rule for item in findings)
    if rule is not None and known and (not stall.when or evaluator.parse(stall.when).holds(analysis.facts)):
        hits = Hits()
        hits.add(Hit("stall", max(analysis.run.last_line, 1), note, None, "", stall.phase, {}))
        findings = (finding(Fired(rule, hits), analysis), *findings)
    primary = report.primary or (stall.rule if findings != report.findings else None)
    notes = (note, *report.notes)
    return report._replace(status="stalled", findings=findings, primary=primary, notes=notes)
