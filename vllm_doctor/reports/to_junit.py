"""JUnit XML, as Jenkins (xunit-plugin's junit-10.xsd) and GitLab read it: one test case a finding.

An error is a failed test, a warning a skipped one (seen, but no reason to fail the job, as with `--fail-on error`),
information a passed one.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET  # writes only: nothing untrusted is parsed

from vllm_doctor.language import Language
from vllm_doctor.reports import texts
from vllm_doctor.reports.escape import inert_markup, one_line, xml_text
from vllm_doctor.reports.fingerprint import UNEXPLAINED
from vllm_doctor.reports.model import Finding, Report


def render(report: Report) -> str:
    """Return the test suite of one log."""
    return render_many([report])


def render_many(reports: list[Report]) -> str:
    """Return a test suite for each log."""
    root = ET.Element("testsuites", name="vllm-doctor")
    suites = [_suite(report) for report in reports]
    root.extend(suites)
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in suites)))
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode", short_empty_elements=True)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + inert_markup(text) + "\n"


def _suite(report: Report) -> ET.Element:
    cases = [_case(finding, report.language) for finding in texts.reported(report)]
    if report.lacks_cause:
        failure = report.unexplained
        text = texts.advice(report) if failure is None else "\n\n".join([
            texts.failure_status(report), texts.line_with(failure, report.language),
            texts.failure_place(failure, report.language),
            texts.advice(report), *(f"{number}. {fix.title}" for number, fix in enumerate(failure.fixes, 1))])
        cases.insert(0, _test(UNEXPLAINED, "unknown", "failure", texts.headline(report), text))
    if not cases:  # a file without a test is an error to Jenkins
        cases.append(_test("diagnose", report.phase or "unknown", "system-out", "", texts.headline(report)))
    suite = ET.Element("testsuite", name=xml_text(one_line(texts.log_name(report))), tests=str(len(cases)))
    suite.set("failures", str(sum(case.find("failure") is not None for case in cases)))
    suite.set("errors", "0")
    suite.set("skipped", str(sum(case.find("skipped") is not None for case in cases)))
    suite.extend(cases)
    if report.caveats:
        ET.SubElement(suite, "system-out").text = xml_text("\n".join(report.caveats))
    return suite


def _case(finding: Finding, language: Language) -> ET.Element:
    outcome = {"error": "failure", "warning": "skipped"}.get(finding.severity, "system-out")
    title = texts.title_with_ranks(finding, language)
    return _test(finding.id, finding.phase, outcome, title, _text(finding, language))


def _test(name: str, phase: str, outcome: str, message: str, text: str) -> ET.Element:
    """Return a test case; `outcome` is the name of its child element: failure, skipped or system-out."""
    case = ET.Element("testcase", name=xml_text(name), classname=xml_text(f"vllm-doctor.{phase}"), time="0")
    element = ET.SubElement(case, outcome)
    if outcome != "system-out":
        element.set("message", xml_text(one_line(message)))
        element.set("type", "error" if outcome == "failure" else "warning")
        element.text = xml_text(text)
    else:
        element.text = xml_text(f"{message}\n\n{text}".strip())
    return case


def _text(finding: Finding, language: Language) -> str:
    """Return the evidence, the explanation and the fixes as text."""
    pieces = [texts.evidence_text(finding, language), finding.explanation]
    for number, fix in enumerate(finding.fixes, 1):
        _, change = texts.change(fix, language)
        lines = [language.say("Fix {number}: {title}", number=number, title=fix.title),
                 *(f"- {step}" for step in fix.steps), change, fix.why]
        lines += [language.say("Cost: {cost}", cost=fix.cost)] if fix.cost else []
        pieces.append("\n".join(line for line in lines if line))
    pieces += finding.links
    return "\n\n".join(piece for piece in pieces if piece)
