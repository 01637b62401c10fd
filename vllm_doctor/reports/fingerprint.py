"""The fingerprint of a finding: the same failure on another day, port or machine size has the same one."""

from __future__ import annotations

import hashlib
import re

from vllm_doctor.reports.model import Finding, Report
from vllm_doctor.text.patterns import lazy_pattern

__all__ = ["UNEXPLAINED", "fingerprint", "shape", "unexplained_fingerprint"]

UNEXPLAINED = "unexplained-failure"  # stands for a rule's id where no rule knows the cause
_NUMBER = lazy_pattern(
    r"\b(?:0x)?(?=[0-9a-f-]{0,64}\d)[0-9a-f]{4,}(?:-[0-9a-f]{4,})*\b|\d+(?:[.,:]\d+)*", re.IGNORECASE)


def shape(line: str) -> str:
    """Return a log line with its numbers and hashes replaced by `#` and its whitespace collapsed."""
    return " ".join(_NUMBER.sub("#", line).split())


def fingerprint(finding: Finding) -> str:
    """Return 32 hexadecimal digits of a hash of the rule's id and the shape of its first line of evidence."""
    return _hash(finding.id, finding.evidence[0].text if finding.evidence else "")


def unexplained_fingerprint(report: Report) -> str:
    """Return the fingerprint of a failure that no rule explains, from its signature; "" if there is none."""
    if report.unexplained is None:
        return ""
    return _hash(UNEXPLAINED, report.unexplained.signature)


def _hash(rule_id: str, line: str) -> str:
    text = f"{rule_id}\n{shape(line)}".encode("utf-8", "replace")
    return hashlib.sha256(text).hexdigest()[:32]
