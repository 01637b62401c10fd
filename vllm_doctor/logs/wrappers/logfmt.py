"""The log lines of a Go program about the server it started.

`time="…" level=info msg="…" component=vllm`, or LocalAI's `DEBUG GRPC stderr id="…" line="…" caller={…}`.
"""

from __future__ import annotations

import json

from vllm_doctor.logs.line_prefix import LOG_HEAD
from vllm_doctor.logs.wrappers.structured import level_name, record_head
from vllm_doctor.logs.wrappers.wrapper_match import WrapperMatch
from vllm_doctor.text.patterns import lazy_pattern

_LINE = lazy_pattern(
    r'time=(?:"[^"]{1,60}"|[^\s"]{1,60}) level="?(?P<level>\w+)"? msg=(?P<message>"(?:[^"\\]|\\.)*"|[^\s"=]*)'
    r'(?P<fields>(?: [\w.-]{1,60}=(?:"(?:[^"\\]|\\.)*"|[^\s"]*))*)$'
)
_LOCALAI = lazy_pattern(
    r'(?:\w{3} +\d{1,2} \d\d:\d\d:\d\d )?\w{3,5} +GRPC std(?:out|err) id="[^"]{1,300}"'
    r' line=(?P<message>"(?:[^"\\]|\\.)*")(?: caller=\{[^\n]{0,300})?$'
)
_SOURCE = lazy_pattern(r' (?:component|container|name)="?(?P<name>[\w./-]{1,80})')


def logfmt(text: str) -> WrapperMatch | None:
    """Match such a line: return its message, with the program's name as the source.

    A message of no named program that does not begin like a log line is the Go program's own.
    """
    if " GRPC" in text[:30]:
        return _localai(text.rstrip())
    m = _LINE.match(text.rstrip()) if text.startswith("time=") else None
    if m is None:
        return None
    message = _unquoted(m["message"])
    named = _SOURCE.match(m["fields"])
    level = level_name(m["level"])
    head = record_head(level, "", text) if level and not named and not LOG_HEAD.match(message) else ""
    return WrapperMatch("logfmt", message, named["name"] if named else "", head=head)


def _localai(text: str) -> WrapperMatch | None:
    m = _LOCALAI.match(text)
    return WrapperMatch("logfmt", _unquoted(m["message"]), "") if m else None


def _unquoted(message: str) -> str:
    if not message.startswith('"'):
        return message
    try:
        return str(json.loads(message, strict=False))
    except (ValueError, RecursionError):  # Go's \x1b and other escapes unknown to JSON
        return message[1:-1].replace('\\"', '"').replace("\\\\", "\\")
