"""The prefix of a log record: that of vLLM's logger in each release, of uvicorn, and of other configurations.

vLLM's by release: `INFO 10-08 20:33:48 llm_engine.py:72] message` up to 0.7, `… [core.py:489] message` from 0.8,
`(EngineCore_DP0 pid=12) INFO …` from 0.10.1 (vllm/logger.py, vllm/utils decorate_logs).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from vllm_doctor.events.event import LEVELS
from vllm_doctor.events.process_prefix import PROCESS
from vllm_doctor.logs.line_prefix import QUOTING
from vllm_doctor.logs.wrappers.byte_patterns import JSON, WRAPPER, process_of
from vllm_doctor.logs.wrappers.structured import level_name
from vllm_doctor.text.patterns import lazy_pattern, portable

_RECORD = lazy_pattern(
    rf"(?P<level>{LEVELS}) "
    r"(?P<time>(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?) "
    r"(?:\[(?P<file>[\w./-]+):\d+\]|(?P<old>[\w./-]+):\d+\])(?: |$)",
)
_PLACE = lazy_pattern(r"\s{0,4}\[[A-Za-z_][\w/-]*\.py:\d+\] ?")  # a record whose level and time are missing
# A custom format (VLLM_LOGGING_CONFIG_PATH, or a program that serves models with vLLM):
# `2024-12-19 21:40:35 ERROR 56542 [engine.py:64] msg`, `2024-12-19 21:40:35,123 - vllm.engine.metrics - INFO - msg`,
# `2024-12-19 21:40:35,123 vllm.engine.metrics 56542 INFO     msg`.
_OWN_RECORD = lazy_pattern(
    r"(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:[.,]\d{1,9})? "
    r"(?P<name>(?:- )?vllm(?:\.\w{1,60}){0,8} (?:- |\d{1,9} ))?"
    rf"(?P<level>{LEVELS})"
    r"(?(name) {1,8}(?:-(?: |$))?| {1,4}(?:\d{1,9} )?\[[\w./-]{1,200}\.py:\d{1,6}\](?: |$))",
    cues=(".py:", "vllm"),
)
_PYTHON_RECORD = lazy_pattern(  # of a program that configures Python's logging: its time has milliseconds
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d{3} {1,4}(?:- )?(?:\[?[\w./:-]{1,100}\]? (?:- )?)?"
    rf"\[?(?P<level>{LEVELS})\]?(?: -|:)? {{1,8}}(?=\S)",
)
_TRACING_RECORD = lazy_pattern(  # NVIDIA Dynamo, whose Python records are written by Rust's `tracing`
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{1,9})?Z {1,2}(?P<level>TRACE|DEBUG|INFO|WARN|ERROR) "
    r"[A-Za-z_][\w:.]{0,200}: ")
_TIMELESS = lazy_pattern(  # a shortened record: without its time and mostly without its process id
    r"(?:\((?:EngineCore|Worker|VllmWorker|APIServer)\w*(?: pid=[^\s()]{1,9})?\) )?"
    rf"(?P<level>{LEVELS}) (?=\[)",
    cues=("INFO [", "WARNING [", "ERROR [", "CRITICAL [", "DEBUG ["),
)
_UVICORN = lazy_pattern(rf"(?P<level>{LEVELS}): {{1,6}}(?=\S)",
                cues=("INFO: ", "WARNING: ", "ERROR: ", "CRITICAL: ", "DEBUG: "))
_BYTES_PROCESS = process_of(r"(?P<process>\w+ pid=\d+)")
_INFO_RECORD = lazy_pattern(portable(
    rf"(?:{WRAPPER}|{JSON})?(?:{_BYTES_PROCESS})?"
    r"INFO (?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d \[?[\w./-]+:\d+\] (?=[^\s(])").encode())
_PREFIX_REACH = 120  # maximal length of a VLLM_LOGGING_PREFIX in front of vLLM's prefix


class LogRecord(NamedTuple):
    """A record; a line that has no such prefix is a message alone.

    `releases` is the version range that prints such a prefix, `time` the time in it as printed.
    """

    message: str
    level: str = ""
    releases: str = ""
    time: str = ""


def split_record(text: str) -> LogRecord:
    """Split off the record prefix of vLLM, uvicorn or Python's logging."""
    timeless = _TIMELESS.match(text)
    begin = timeless.end() if timeless else 0
    place = _PLACE.match(text, begin) if "[" in text[begin:begin + 5] else None
    if place and timeless:  # another prefix behind it is part of the message
        return LogRecord(text[place.end():], timeless["level"])
    match = _RECORD.search(text, 0, _PREFIX_REACH + 40) if "]" in text else None
    if match and match.start() <= _PREFIX_REACH and not QUOTING.search(text, 0, match.start()):
        rest = text[match.end():]
        inner = PROCESS.match(rest) if rest.startswith("(") else None
        releases = ">=0.8.0" if match["file"] else "<0.8.0"
        return LogRecord(rest[inner.end():] if inner else rest, match["level"], releases, match["time"])
    match = _UVICORN.match(text)
    if match:
        return LogRecord(text[match.end():], match["level"])
    match = (_OWN_RECORD.match(text) or _PYTHON_RECORD.match(text) or _TRACING_RECORD.match(text)
             ) if text[:1].isdigit() else None
    if match:
        return LogRecord(text[match.end():], level_name(match["level"]), time=match["time"])
    return LogRecord(text[place.end():] if place else text)


def info_record(line: bytes) -> re.Match[bytes] | None:
    """Match a record of vLLM's logger that continues no traceback of an error, with its `source` and `process`."""
    return _INFO_RECORD.match(line)
