"""Time stamps of containers, CI runners and viewers, distinguished by the text that follows.

An RFC 3339 stamp is a wrapper unless a program's own format begins with it. Any other clock (`10:00:01`, Jenkins'
Timestamper, Kaggle's seconds) is one only before a log line.
"""

from __future__ import annotations

import re

from vllm_doctor.logs.wrappers.wrapper_match import WrapperMatch
from vllm_doctor.text.patterns import lazy_pattern

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)"
_ISO = lazy_pattern(STAMP)
_CRI = lazy_pattern(r" (?P<stream>stdout|stderr) (?P<tag>[FP])(?::\w+)?(?: |$)")
PART_WORDS = ("stdout P", "stderr P")
"""Literals; every part of a containerd message except the last contains one of them."""
_GITLAB = lazy_pattern(r" [0-9a-f]{2}[OE](?: |\+|$)")
HOST_AND_PROGRAM = lazy_pattern(r" (?P<host>[\w.-]{1,255}) (?P<prog>[A-Za-z(][^\s\[\]:]{0,80}(?:\[\d+\])?): ?")
# A program's own format that begins with a time stamp: `… - name - INFO - msg`, Rust's `…Z  INFO crate::mod: msg`.
_OWN_FORMAT = lazy_pattern(r" (?:[-|:,\[] | {0,2}(?:TRACE|DEBUG|INFO|WARN|ERROR) [a-z_][\w:.]*[:{] )")


def stamped(text: str) -> WrapperMatch | None:
    """Match an RFC 3339 stamp: docker -t, kubectl --timestamps, containerd, Actions, GitLab, journald short-iso."""
    m = _ISO.match(text)
    if m is None:
        return None
    end = m.end()
    if end == len(text):
        return WrapperMatch("timestamp", "")
    if text[end] != " " or _OWN_FORMAT.match(text, end):
        return None
    if c := _CRI.match(text, end):
        return WrapperMatch("containerd", text[c.end() :], part=c["stream"], last=c["tag"] == "F")
    if c := _GITLAB.match(text, end):
        return WrapperMatch("gitlab", text[c.end() :])
    if (c := HOST_AND_PROGRAM.match(text, end)) and ("[" in c["prog"] or c["prog"] in ("kernel", "systemd")):
        return WrapperMatch("journald", text[c.end() :], f"{c['host']} {c['prog']}")
    name = "github-actions" if end == 28 and text[27] == "Z" else "timestamp"
    return WrapperMatch(name, text[end + 1 :])


_CLOCK = lazy_pattern(
    r"(?P<open>\[)?(?:(?:\d{4}[-/]\d\d[-/]\d\d|\d\d/\d\d/\d{4},?)[ T])?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: [AP]M)?"
    r"(?(open)\]|:?)(?= |$)|\d{1,6}\.\d+s(?:\t| )\d{1,6}(?=[ \t]|$)"
)
# loguru and FastChat, which capture a worker's standard error.
_CAUGHT = lazy_pattern(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})? \| (?:INFO|ERROR|WARNING) +\| (?:stderr|stdout) \| ?")
_CLOUDWATCH = lazy_pattern(r"1\d{12},(?P<quote>\"?)")
_HF_ENDPOINT = lazy_pattern(r"(?:- )?\d{4}/\d\d/\d\d \d\d:\d\d:\d\d ~ ")


def _clock(text: str) -> re.Match[str] | None:
    return _CLOCK.match(text) if text[:2].lstrip("[")[:1].isdigit() else None


def clock(text: str) -> WrapperMatch | None:
    """Match another clock before a log line: `2024-10-27 22:58:11 msg`, `[10:00:01] msg`, Kaggle's `12.3s 5 msg`.

    PM2 puts a colon after its time: `2024-10-27T22:58:11: msg`.
    """
    if "| std" in text and (m := _CAUGHT.match(text)):
        return WrapperMatch("timestamp", text[m.end() :])
    if " ~ " in text and (m := _HF_ENDPOINT.match(text)):
        return WrapperMatch("timestamp", text[m.end() :])
    m = _clock(text)
    if m is None or _OWN_FORMAT.match(text, m.end()):
        return None
    return WrapperMatch("timestamp", text[m.end() + 1 :], key="clock", sure=False)


def clock_wide(text: str) -> WrapperMatch | None:
    """Match the clock of Jenkins' Timestamper with two spaces: `10:00:01  msg`."""
    m = _clock(text)
    if m is None or not text.startswith("  ", m.end()):
        return None
    return WrapperMatch("timestamp", text[m.end() + 2 :], key="clock-wide", sure=False)


def cloudwatch(text: str) -> WrapperMatch | None:
    """Match a row of CloudWatch's export as CSV, `milliseconds,message`; a message with commas or quotes is quoted."""
    m = _CLOUDWATCH.match(text)
    if m is None:
        return None
    rest = text[m.end():]
    return WrapperMatch("cloudwatch", rest.removesuffix('"').replace('""', '"') if m["quote"] else rest)
