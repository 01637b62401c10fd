"""The system's journals: journalctl's short forms and syslog, old (RFC 3164) and new (RFC 5424).

Their lines name a host and a program; the message follows both.
"""

from __future__ import annotations

from vllm_doctor.logs.wrappers.timestamps import HOST_AND_PROGRAM, STAMP, stamped
from vllm_doctor.logs.wrappers.wrapper_match import WrapperMatch
from vllm_doctor.text.patterns import lazy_pattern

_SHORT = lazy_pattern(
    r"(?:(?:[^\W\d_]{3,8}\.?| ?\d{1,2}[月월]) [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?"
    r"|[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})? [A-Z+-][\w:]{1,5}|\d{10}\.\d{6}|\[ *\d+\.\d{6}\])"
    r"(?= [\w.-])"
)


def journald(text: str) -> WrapperMatch | None:
    """Match `Nov 20 11:30:13 host vllm[123]: msg` and journalctl's other short forms, with months in most languages."""
    kernel = text.startswith("[") and not text[1:2].isalpha()
    blank = text.find(" ", 2, 10)
    dated = blank > 0 and text[blank + 1 : blank + 3].strip().isdigit()
    m = _SHORT.match(text) if kernel or dated or text[10:11] == "." else None
    c = HOST_AND_PROGRAM.match(text, m.end()) if m else None
    return WrapperMatch("journald", text[c.end() :], f"{c['host']} {c['prog']}") if c else None


_PRI = lazy_pattern(r"<\d{1,3}>")
_RFC5424 = lazy_pattern(
    rf"1 (?:{STAMP}|-) (?P<host>\S{{1,255}}) (?P<app>\S{{1,48}}) (?P<pid>\S{{1,128}}) \S{{1,32}}"
    r" (?:-|(?:\[[^\]]{0,2000}\])+)(?: \ufeff?|$)"
)


def syslog(text: str) -> WrapperMatch | None:
    """Match the lines of syslog.

    `<13>Nov 20 11:30:13 host vllm[123]: msg` (RFC 3164) and `<13>1 2024-… host vllm 123 - - msg` (RFC 5424).
    """
    pri = _PRI.match(text)
    if pri is None:
        return None
    if m := _RFC5424.match(text, pri.end()):
        pid = "" if m["pid"] == "-" else f"[{m['pid']}]"
        return WrapperMatch("syslog", text[m.end() :], f"{m['host']} {m['app']}{pid}")
    inner = text[pri.end() :]
    found = journald(inner) or stamped(inner)
    return WrapperMatch("syslog", found.rest, found.source) if found else None
