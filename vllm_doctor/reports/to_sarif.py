"""SARIF 2.1.0: findings for code scanning and editors.

Text of the log is in snippets and properties; messages hold the rule's text, with the characters escaped that
SARIF would read as links or placeholders. Code scanning refuses a result without a place: a log outside the repository
is named by its file name alone, standard input `stdin`.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from vllm_doctor.language import Language
from vllm_doctor.redact import safe_text
from vllm_doctor.reports import texts
from vllm_doctor.reports.escape import inert_json, is_web_address, markdown, place_name, relative_path
from vllm_doctor.reports.fingerprint import UNEXPLAINED, fingerprint, unexplained_fingerprint
from vllm_doctor.reports.model import Evidence, Finding, Report
from vllm_doctor.version import __version__

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MOST_RESULTS = 5000
"""Code scanning shows the 5,000 worst results of a run, and refuses 25,000."""
_MOST_PLACES = 100  # of a result, likewise
_LEVEL = {"error": "error", "warning": "warning", "info": "note"}
_ORDER = tuple(_LEVEL.values())
_PROBLEM = {"error": "error", "warning": "warning", "info": "recommendation"}  # as GitHub names them


def render(report: Report) -> str:
    """Return the SARIF log of one report."""
    return render_many([report])


def render_many(reports: list[Report]) -> str:
    """Return one run with the results of all logs: code scanning does not accept two runs of one tool."""
    rules: dict[str, dict[str, Any]] = {}
    results = []
    artifacts: dict[str, dict[str, Any]] = {}
    for report in reports:
        artifact = _artifact(report)
        artifacts.setdefault(artifact["uri"], {"location": artifact, "roles": ["analysisTarget"],
                                               "mimeType": "text/plain"})
        if report.lacks_cause:
            rules.setdefault(UNEXPLAINED, _unexplained_rule(report.language))
            results.append(_unexplained(report, artifact))
        for finding in texts.reported(report):
            rules.setdefault(finding.id, _rule(finding, report.language))
            results.append(_result(finding, report, artifact))
    left_out = max(0, len(results) - MOST_RESULTS)
    results = sorted(results, key=lambda result: _ORDER.index(result["level"]))[:MOST_RESULTS] if left_out else results
    index = {rule_id: number for number, rule_id in enumerate(rules)}
    for result in results:
        result["ruleIndex"] = index[result["ruleId"]]
    run: dict[str, Any] = {
        "tool": {"driver": {
            "name": "vllm-doctor",
            "version": __version__,
            "semanticVersion": __version__,
            "rules": list(rules.values()),
        }},
        "automationDetails": {"id": "vllm-doctor/"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"description": {"text": "The root of the repository."}}},
        "artifacts": list(artifacts.values()),
        "results": results,
    }
    notes = list(dict.fromkeys(note for report in reports for note in report.caveats))
    notes += [reports[0].language.say("{count} further results are left out: code scanning shows {most}.",
                                      count=left_out, most=MOST_RESULTS)] if left_out else []
    if notes:
        run["invocations"] = [{"executionSuccessful": True, "toolExecutionNotifications": [
            {"level": "note", "message": {"text": _message(note)}} for note in notes]}]
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return inert_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n"


def _message(text: str) -> str:
    """Return a plain text message with brackets (links) and braces (placeholders) escaped (SARIF 3.11.5, 3.11.6)."""
    return _braces(safe_text(text).replace("[", "\\[").replace("]", "\\]"))


def _rule(finding: Finding, language: Language) -> dict[str, Any]:
    links = [link for link in finding.links if is_web_address(link)]
    text = [finding.explanation or finding.title,
            *(language.say("Fix: {title}.", title=fix.title) for fix in finding.fixes),
            language.say("More: {command}", command=f"vllm-doctor explain {finding.id}")]
    marked = [markdown(part) for part in (finding.explanation or finding.title).split("\n\n")]
    marked += ["\n".join(f"1. {markdown(fix.title)}" for fix in finding.fixes)] if finding.fixes else []
    marked += ["\n".join(f"- <{_address(link)}>" for link in links)] if links else []
    rule: dict[str, Any] = {
        "id": finding.id,
        "name": "".join(word.capitalize() for word in finding.id.split("-")),
        "shortDescription": {"text": _message(_stop(finding.title, language))},
        "fullDescription": {"text": _message(_stop(finding.explanation or finding.title, language))},
        "help": {"text": _message("\n\n".join(text)), "markdown": _braces("\n\n".join(marked))},
        "defaultConfiguration": {"level": _LEVEL.get(finding.severity, "note")},
        "properties": {"tags": ["vllm", finding.phase], "precision": "high" if finding.confidence >= 0.9 else "medium",
                       "problem.severity": _PROBLEM.get(finding.severity, "recommendation")},
    }
    if links:
        rule["helpUri"] = _address(links[0])
    return rule


def _unexplained_rule(language: Language) -> dict[str, Any]:
    text = language.say("A failure that no rule explains: the result has its exception, where it was raised, and what "
                        "to try next.")
    return {
        "id": UNEXPLAINED,
        "name": "UnexplainedFailure",
        "shortDescription": {"text": language.say("A failure that no rule explains.")},
        "fullDescription": {"text": text},
        "help": {"text": text, "markdown": text},
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["vllm"], "precision": "medium", "problem.severity": "error"},
    }


def _result(finding: Finding, report: Report, artifact: dict[str, str]) -> dict[str, Any]:
    language = report.language
    words = [_stop(texts.title_with_ranks(finding, language), language), finding.explanation,
             *(language.say("Fix: {title}", title=_stop(fix.title, language)) for fix in finding.fixes[:1])]
    result: dict[str, Any] = {
        "ruleId": finding.id,
        "level": _LEVEL.get(finding.severity, "note"),
        "message": {"text": _message("\n\n".join(word for word in words if word))},
        "rank": round(finding.confidence * 100, 1),
    }
    result |= _places(finding.evidence, artifact)
    result |= _fingerprints(fingerprint(finding))
    result["properties"] = {
        "role": finding.role,
        "primary": finding.id == report.primary,
        "recovered": finding.recovered,
        "log": _log_name(report),
        "evidence": [{"line": item.line, "text": safe_text(item.text)} for item in finding.evidence],
        "fixes": [{"id": fix.id, "title": safe_text(fix.title),
                   "change": safe_text(texts.change(fix, language)[1]), "safety": fix.safety}
                  for fix in finding.fixes],
    }
    return result


def _unexplained(report: Report, artifact: dict[str, str]) -> dict[str, Any]:
    failure, language = report.unexplained, report.language
    headline = _stop(texts.headline(report), language)
    evidence = () if failure is None else (Evidence(failure.line, texts.failure_title(failure, language)),)
    words = [texts.advice(report)] if failure is None else [
        texts.failure_status(report), texts.failure_place(failure, language),
        *(language.say("To try: {title}", title=_stop(fix.title, language)) for fix in failure.fixes[:3])]
    result: dict[str, Any] = {
        "ruleId": UNEXPLAINED,
        "level": "error" if failure else "warning",
        "message": {"text": _message("\n\n".join(filter(None, [headline, *words])))},
    }
    result |= _places(evidence, artifact)
    result |= _fingerprints(unexplained_fingerprint(report) or "0" * 32)
    result["properties"] = {"evidence": [{"line": failure.line, "text": safe_text(failure.text)}] if failure else []}
    return result


def _fingerprints(value: str) -> dict[str, Any]:
    """Return our fingerprint, and the one GitHub tracks alerts by: its own would include the numbers in the line."""
    return {"partialFingerprints": {"vllmDoctorFinding/v1": value, "primaryLocationLineHash": f"{value[:16]}:1"}}


def _places(evidence: tuple[Evidence, ...], artifact: dict[str, str]) -> dict[str, Any]:
    if not evidence:
        return {"locations": [{"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": 1}}}]}
    places = [{"physicalLocation": {
        "artifactLocation": artifact,
        "region": {"startLine": max(1, item.line), "snippet": {"text": safe_text(item.text)}},
    }} for item in evidence[:_MOST_PLACES]]
    related = [{"id": number, **place, "message": {"text": "Says the same."}}
               for number, place in enumerate(places[1:], 1)]
    return {"locations": places[:1], **({"relatedLocations": related} if related else {})}


def _artifact(report: Report) -> dict[str, str]:
    """Return the place of the log, relative to the repository if it is in it."""
    uri = quote(place_name(report.source.path), safe="/-._~")
    return {"uri": uri} if relative_path(report.source.path) is None else {"uri": uri, "uriBaseId": "SRCROOT"}


def _log_name(report: Report) -> str:
    """Return the log's name, without folders outside the repository."""
    source = report.source
    name = "-" if source.path == "-" else place_name(source.path)
    return safe_text(texts.log_name(report._replace(source=source._replace(path=name))))


def _address(link: str) -> str:
    """Return a rule's link as a URI, with the characters that a URI cannot hold percent-encoded."""
    return quote(link, safe="%/:?#[]@!$&'()*+,;=-._~")


def _stop(text: str, language: Language) -> str:
    """Return `text` as a sentence: viewers show the first one."""
    return text if text.endswith((".", "!", "?", "。", "！", "？")) else language.say("{sentence}.", sentence=text)


def _braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
