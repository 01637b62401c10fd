"""JSON lines: Docker's json-file driver, log shippers, cloud exports, structured loggers, OpenTelemetry.

The message is extracted from the record, with its level, its file and its traceback if those have fields of their own:
as vLLM would have printed it, with a prefix on each line. A JSON object that vLLM or a client printed (a request, a
configuration) is a message itself and is kept.
"""

from __future__ import annotations

import json
from typing import Any

from vllm_doctor.logs.line_prefix import LOG_HEAD, VLLM_HEAD
from vllm_doctor.logs.wrappers.structured import level_name, record_head
from vllm_doctor.logs.wrappers.wrapper_match import WrapperMatch
from vllm_doctor.text.patterns import lazy_pattern

WHOLE = '\\n","stream":"'
"""Fields of a Docker record that cannot occur inside a longer message."""
_DOCKER_PART = 16 * 1024  # Docker's json-file driver splits a longer message at 16 KiB

_MESSAGE_KEYS = (
    "log", "message", "msg", "textPayload", "jsonPayload", "body", "Body", "MESSAGE", "event", "line", "LogMessage",
    "@message", "record",
)  # fmt: skip
_FILE_KEYS = ("filename", "file", "pathname", "source", "logging.googleapis.com/sourceLocation", "name", "logger",
              "logger_name", "log.logger", "module", "caller")  # of the code, or the logger's name
_TIME_KEYS = frozenset(
    (
        "time", "timestamp", "ts", "@timestamp", "asctime", "t", "@t", "datetime", "date", "created", "Timestamp",
        "timeUnixNano", "observedTimeUnixNano", "TimeGenerated", "ingestionTime", "__REALTIME_TIMESTAMP",
    ),
)  # fmt: skip
_LEVEL_KEYS = ("levelname", "level", "severity", "severityText", "SeverityText", "severity_text", "lvl", "log.level")
_SHIPPER_KEYS = frozenset(
    (
        "stream", "kubernetes", "docker", "resource", "container_name", "container_id", "logName", "attrs", "logtag",
        "_p", "tag", "PodName", "pod_name", "_SYSTEMD_UNIT",
    ),
)  # fmt: skip
_TRACE_KEYS = ("exc_info", "exception", "stack_trace", "stacktrace", "traceback", "exc_text", "error.stack_trace",
               "exception.stacktrace")
_OTLP_SOURCES = ("k8s.pod.name", "k8s.container.name", "container.name", "service.instance.id", "host.name")
_LONGEST_NAME = 60
_SURROGATE = lazy_pattern("[\ud800-\udfff]")
_CUT_JSON = lazy_pattern(r'\{"log": ?"(?P<log>(?:[^"\\]|\\[^u]|\\u[0-9a-fA-F]{4})*)')


def _text_of(value: Any) -> str | None:
    """Return the message in a value: text, a list of bytes (journald), or an object (OpenTelemetry, Google)."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        inner = [value.get(key) for key in ("stringValue", "message", "msg", "log", "event")]
        return next((text for text in inner if isinstance(text, str)), None)
    if isinstance(value, list) and value and all(isinstance(n, int) and 0 <= n < 256 for n in value):
        return bytes(value).decode("utf-8", "replace")
    return None


def _level_of(record: dict[str, Any]) -> str:
    for key in _LEVEL_KEYS:
        value = record.get(key)
        if isinstance(value, dict):
            value = value.get("name")
        if isinstance(value, (str, int)) and not isinstance(value, bool):
            return level_name(str(value))
    return ""


def _file_of(record: dict[str, Any]) -> str:
    """Return the name of the Python file that wrote a record; empty if it names none."""
    for key in _FILE_KEYS:
        value = record.get(key)
        if isinstance(value, dict):
            value = value.get("file") or value.get("name")
        if isinstance(value, str):
            name = value.partition(":")[0].removesuffix(".py").replace("\\", "/").replace("/", ".").rpartition(".")[2]
            if name.isidentifier():
                return name[:_LONGEST_NAME]
    return ""


def _source_of(record: dict[str, Any]) -> str:
    kubernetes, resource, attrs = record.get("kubernetes"), record.get("resource"), record.get("attrs")
    labels = resource.get("labels") if isinstance(resource, dict) else None
    for holder, keys in (
        (kubernetes, ("pod_name", "container_name")),
        (labels, ("pod_name", "container_name")),
        (attrs, ("tag",)),
        (record, ("pod_name", "PodName", "pod", "container_name", "container", "_SYSTEMD_UNIT")),
    ):
        for key in keys:
            if isinstance(holder, dict) and isinstance(name := holder.get(key), str) and name:
                return name.lstrip("/")
    return ""


def json_line(text: str) -> WrapperMatch | None:
    """Match JSON lines of Docker and others; a JSON object that vLLM or a client printed does not match."""
    bare = text.rstrip(" ,")
    if not bare.endswith("}"):
        m = _CUT_JSON.match(bare)  # the end of the file or of the line is missing
        bare = f'{{"log": "{m["log"]}", "stream": "?"}}' if m and m["log"] else "0"
    try:
        record = json.loads(bare, strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    if "resourceLogs" in record:
        return _otlp_batch(record)
    key = next((key for key in _MESSAGE_KEYS if _text_of(record.get(key)) is not None), "")
    message = _text_of(record.get(key))
    if message is None:
        return None
    fields = record[key] if isinstance(record[key], dict) else record
    level = _level_of(fields) or _level_of(record)
    shipped = not _SHIPPER_KEYS.isdisjoint(record) or key in ("textPayload", "MESSAGE", "LogMessage", "line")
    timed = not _TIME_KEYS.isdisjoint(record)
    if not (shipped or timed or level or (len(record) == 1 and key == "log")) or "object" in record:
        return None
    name = "docker-json" if key == "log" and "stream" in record else "json-lines"
    part = ""
    if name == "docker-json" and not message.endswith("\n") and len(message.encode("utf-8", "replace")) >= _DOCKER_PART:
        part = str(record["stream"])
    elif name == "docker-json" and message.endswith("\n"):
        message = message[:-1]
        return WrapperMatch(name, _whole(message), _source_of(record), part=str(record["stream"]))
    is_logger = bool(level) and (not shipped or key == "jsonPayload") and not VLLM_HEAD.match(message)
    head = record_head(level, _file_of(fields), json.dumps(record, sort_keys=True, default=str)) if is_logger else ""
    text = _whole(_with_trace(message, record).removesuffix("\n"))
    return WrapperMatch(name, text, _source_of(record), part=part, last=not part, head=head)


def _with_trace(message: str, record: dict[str, Any]) -> str:
    """Return the message followed by the traceback that the record, or its attributes, has beside it."""
    attributes = record.get("attributes")
    for holder in (record, attributes if isinstance(attributes, dict) else {}):
        for key in _TRACE_KEYS:
            if isinstance(extra := holder.get(key), str) and extra.strip():
                return f"{message.rstrip()}\n{extra.rstrip()}"
    return message


def _otlp_batch(batch: dict[str, Any]) -> WrapperMatch | None:
    """Match a line of OpenTelemetry's JSON encoding, as a collector's file exporter writes it: a batch of records."""
    messages, source = [], ""
    for resource in _objects(batch.get("resourceLogs")):
        names = _attributes(resource.get("resource"))
        source = source or next((names[key] for key in _OTLP_SOURCES if names.get(key)), "")
        for scope in _objects(resource.get("scopeLogs")):
            for record in _objects(scope.get("logRecords")):
                message = _text_of(record.get("body"))
                if message is not None and not _TIME_KEYS.isdisjoint(record):
                    level = "" if LOG_HEAD.match(message) else _level_of(record)
                    message = f"{level} {message}" if level else message
                    messages.append(_with_trace(message, {"attributes": _attributes(record)}))
    return WrapperMatch("otlp", _whole("\n".join(messages)), source) if messages else None


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _attributes(holder: Any) -> dict[str, str]:
    """Return the attributes that are texts."""
    pairs = _objects(holder.get("attributes")) if isinstance(holder, dict) else []
    return {str(pair.get("key")): text for pair in pairs if (text := _text_of(pair.get("value"))) is not None}


def _whole(text: str) -> str:
    """Replace half surrogate pairs, which JSON can contain and no output can encode."""
    if _SURROGATE.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
