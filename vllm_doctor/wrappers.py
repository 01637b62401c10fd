"""What stands around a log line: compose, kubectl, containerd, journald, CI systems, JSON lines, Ray, rank labels.

Each wrapper is one small function: text -> Peeled or None. `Unwrapper` applies them one inside the other and
remembers which doubtful ones have been proven. A wrapper eats its own separator and nothing of the message, so the
indentation of a traceback survives. vLLM's own prefixes (`INFO 10-08 …`, `(EngineCore_DP0 pid=12) `) stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

MAX_DEPTH = 8  # wrappers around one line; more is not a log
MAX_KNOWN = 4096  # names remembered; bounds memory on hostile input
MAX_PARTIAL = 256 * 1024  # characters of one message put together from parts
MAX_PARTIALS = 64  # messages that may be incomplete at once
_DOCKER_PART = 16 * 1024  # Docker's json-file driver splits a longer message at 16 KiB

_VLLM_PROCESS = (
    r"\((?:API_?Server|Api_?Server|(?:DP)?EngineCore|CoreEngine|Worker|V(?:llm|LLM)_?Worker|VLLM_DP_Coord|DP_?Coord"
    r"|DP_?Supervisor|MainProcess|(?:Spawn|Fork)?(?:Server)?Process-)[\w.:-]*(?: \w+=[\w.]+)* pid=\d+\)"
)
_VLLM_LEVEL = r"(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d"

# A line that begins like this is a log line itself: nothing stands around it. (A vLLM process may forward a Ray
# worker's line behind its own prefix, and srun pads a rank with spaces: those two are looked at more closely.)
BARE = re.compile(rf"{_VLLM_LEVEL}|{_VLLM_PROCESS} (?! *\()|(?:INFO|ERROR|WARNING): {{2}}|[ \t](?! *\d+:(?: |$))|$")

# The head of a line as vLLM, its libraries or Python write it: the evidence that a doubtful wrapper is one.
LOG_HEAD = re.compile(
    rf"{_VLLM_LEVEL}|{_VLLM_PROCESS}|(?:INFO|ERROR|WARNING|DEBUG|CRITICAL): {{1,6}}\S"
    r"|(?:\+ Exception Group )?Traceback \(most recent call last\)"
    r"| {2}(?:File \"|\| |\+)|\[rank\d+\]:|\[[WEIF]\d{3,4} \d\d:\d\d:\d\d|[WEIF]\d{4} \d\d:\d\d:\d\d"
    r"|(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning): |(?:Spawn|Fork)?Process[ -][\w-]+:?$"
    r"|(?:Loading|Capturing|Processed|Fetching|Downloading) [^%]{0,80}\d+%|/[\w./@+-]+\.py:\d+: \w*Warning"
    r"|usage: \w|vllm: error|api_server\.py: error|Fatal Python error"
)

_STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)"


class Peeled(NamedTuple):
    """One wrapper taken off: its name, what was inside and what it named."""

    name: str
    rest: str  # may hold newlines (a JSON record with several lines)
    source: str = ""
    key: str = ""  # what is proven once such a line is: `compose:web-1`
    sure: bool = True  # False: the form alone proves nothing; evidence for the key is needed
    repeats: bool = False  # …and the same key on several lines in a row is evidence too
    part: str = ""  # not empty: a part of the message of this stream; `last` says whether it ends here
    last: bool = True
    drop: bool = False  # the wrapper's own marker, no message


Wrapper = Callable[[str], "Peeled | None"]


# --- containers ------------------------------------------------------------------------------------------------

_COMPOSE = re.compile(r"(?:(?P<clock>\d\d:\d\d:\d\d) )?(?P<name>[A-Za-z0-9][\w.@-]{0,120})(?P<pad> {1,80})\|(?: |$)")
_INDEXED = re.compile(r".+[-_]\d+$|.+\.\d+(?:\.[a-z0-9]+)?@[\w.-]+$")
_CELL = re.compile(r"[^%]*[^%\s]?\s\|(?:\s|$)")
_PM2 = re.compile(r"\d{1,4}\|(?P<name>[\w.-]{1,80}) {1,40}\| ")
_SUPERVISOR = re.compile(r"(?P<name>[\w.:-]{1,80}) std(?:out|err) \| ")


def compose(text: str) -> Peeled | None:
    """`web-1  | msg`, swarm `stack_web.1.k3x0q@host    | msg`, foreman `10:00:01 web.1  | msg`."""
    m = _COMPOSE.match(text)
    if m is None or _REPLICA.match(m["name"]):  # a pod's name in front of an exception group's bar
        return None
    name, rest = m["name"], text[m.end() :]
    column = len(m["pad"]) >= 2 and not (" |" in rest and _CELL.match(rest))
    sure = column and bool(_INDEXED.match(name) or m["clock"])
    return Peeled("compose", rest, name, f"compose:{name}", sure, column)


def process_manager(text: str) -> Peeled | None:
    """pm2 `0|vllm  | msg` and supervisord's stdout plug-in `vllm stderr | msg`."""
    if m := _PM2.match(text):
        return Peeled("pm2", text[m.end() :], m["name"])
    if m := _SUPERVISOR.match(text):
        return Peeled("supervisord", text[m.end() :], m["name"])
    return None


# --- time stamps in front --------------------------------------------------------------------------------------

_ISO = re.compile(_STAMP)
_CRI = re.compile(r" (?P<stream>stdout|stderr) (?P<tag>[FP])(?::\w+)?(?: |$)")
_GITLAB = re.compile(r" [0-9a-f]{2}[OE](?: |\+|$)")
_JOURNAL = re.compile(r" (?P<host>[\w.-]{1,255}) (?P<prog>[A-Za-z(][^\s\[\]:]{0,80}(?:\[\d+\])?): ?")
_LOKI = re.compile(r"\{(?:\w+=\"[^\"]{0,200}\"(?:, ?)?)+\} ")
_LOKI_NAME = re.compile(r"\b(?:pod|container|instance|app)=\"([^\"]*)\"")
_STREAM = re.compile(r"(?P<name>[\w.-]+/[\w./$\[\]-]+) ")
# A program's own format that begins with a time stamp: `… - name - INFO - msg`, Rust's `…Z  INFO crate::mod: msg`.
_OWN_FORMAT = re.compile(r" (?:[-|:,\[] | {0,2}(?:TRACE|DEBUG|INFO|WARN|ERROR) [a-z_][\w:]*[:{] )")


def stamped(text: str) -> Peeled | None:
    """An RFC 3339 stamp: docker -t, kubectl --timestamps, containerd, Actions, GitLab, journald short-iso."""
    m = _ISO.match(text)
    if m is None:
        return None
    end = m.end()
    if end == len(text):
        return Peeled("timestamp", "")
    if text[end] != " " or _OWN_FORMAT.match(text, end):
        return None
    if c := _CRI.match(text, end):
        return Peeled("containerd", text[c.end() :], part=c["stream"], last=c["tag"] == "F")
    if c := _GITLAB.match(text, end):
        return Peeled("gitlab", text[c.end() :])
    if (c := _JOURNAL.match(text, end)) and ("[" in c["prog"] or c["prog"] in ("kernel", "systemd")):
        return Peeled("journald", text[c.end() :], f"{c['host']} {c['prog']}")
    name = "github-actions" if end == 28 and text[27] == "Z" else "timestamp"
    return Peeled(name, text[end + 1 :])


_CLOCK = re.compile(
    r"(?P<open>\[)?(?:(?:\d{4}[-/]\d\d[-/]\d\d|\d\d/\d\d/\d{4},?)[ T])?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: [AP]M)?"
    r"(?(open)\])(?= |$)|\d{1,6}\.\d+s(?:\t| )\d{1,6}(?=[ \t]|$)"
)
_HF_ENDPOINT = re.compile(r"(?:- )?\d{4}/\d\d/\d\d \d\d:\d\d:\d\d ~ ")


def clock(text: str) -> Peeled | None:
    """`2024-10-27 22:58:11 msg`, `[10:00:01] msg`, Kaggle's `12.3s 5 msg`: only with a log line behind."""
    if m := _HF_ENDPOINT.match(text):
        return Peeled("timestamp", text[m.end() :])
    m = _CLOCK.match(text)
    if m is None or _OWN_FORMAT.match(text, m.end()):
        return None
    return Peeled("timestamp", text[m.end() + 1 :], key="clock", sure=False)


def clock_wide(text: str) -> Peeled | None:
    """Jenkins' Timestamper puts two spaces: `10:00:01  msg`."""
    m = _CLOCK.match(text)
    if m is None or not text.startswith("  ", m.end()):
        return None
    return Peeled("timestamp", text[m.end() + 2 :], key="clock-wide", sure=False)


_SHORT = re.compile(
    r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?"
    r"|[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})? [A-Z+-][\w:]{1,5}|\d{10}\.\d{6}|\[ *\d+\.\d{6}\])"
    r"(?= [\w.-])"
)


def journald(text: str) -> Peeled | None:
    """`Nov 20 11:30:13 host vllm[123]: msg` and journalctl's other short forms."""
    m = _SHORT.match(text)
    c = _JOURNAL.match(text, m.end()) if m else None
    return Peeled("journald", text[c.end() :], f"{c['host']} {c['prog']}") if c else None


_PRI = re.compile(r"<\d{1,3}>")
_RFC5424 = re.compile(
    rf"1 (?:{_STAMP}|-) (?P<host>\S{{1,255}}) (?P<app>\S{{1,48}}) (?P<pid>\S{{1,128}}) \S{{1,32}}"
    r" (?:-|(?:\[[^\]]{0,2000}\])+)(?: \ufeff?|$)"
)


def syslog(text: str) -> Peeled | None:
    """`<13>Nov 20 11:30:13 host vllm[123]: msg` (RFC 3164) and `<13>1 2024-… host vllm 123 - - msg` (RFC 5424)."""
    pri = _PRI.match(text)
    if pri is None:
        return None
    if m := _RFC5424.match(text, pri.end()):
        pid = "" if m["pid"] == "-" else f"[{m['pid']}]"
        return Peeled("syslog", text[m.end() :], f"{m['host']} {m['app']}{pid}")
    inner = text[pri.end() :]
    found = journald(inner) or stamped(inner)
    return Peeled("syslog", found.rest, found.source) if found else None


# --- Kubernetes ------------------------------------------------------------------------------------------------

_POD_PREFIX = re.compile(r"\[pod/(?P<name>[^\]\s]{1,300})\](?: |$)")
_KUBETAIL = re.compile(r"\[(?P<name>[a-z0-9][a-z0-9.-]*-[a-z0-9]{5}(?: [a-z0-9][\w-]*)?)\] ")
_POD = re.compile(r"(?P<pod>[a-z0-9][a-z0-9.-]{0,240}-(?:[a-z0-9]{5}|\d{1,4})) ")
_REPLICA = re.compile(r".+-(?=[a-z]*\d)[0-9a-f]{6,10}-[a-z0-9]{5}$")
_CONTAINER = re.compile(r"(?P<name>[a-z][a-z0-9-]{0,62}) ")
_GKE = re.compile(
    rf"(?P<level>DEFAULT|DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL|ALERT|EMERGENCY) {_STAMP} "
    r"(?P<labels>(?:\[[\w./]{1,80}: [^\]]{0,200}\] ?)*)"
)
_LEVELLESS = re.compile(rf"((?:{_VLLM_PROCESS} )?)(\[[\w./-]+\.py:\d+\] )")


def kubectl_prefix(text: str) -> Peeled | None:
    """`[pod/name/container] msg` of kubectl logs --prefix; `[name-hash container] msg` of kubetail."""
    if m := _POD_PREFIX.match(text):
        return Peeled("kubectl", text[m.end() :], m["name"])
    if m := _KUBETAIL.match(text):
        return Peeled("kubectl", text[m.end() :], m["name"].replace(" ", "/"), f"kubetail:{m['name']}", False, True)
    return None


def pod(text: str) -> Peeled | None:
    """What stern writes, `pod container msg`; a bare `pod msg`; `group/stream msg` of cloud log viewers."""
    m = _POD.match(text)
    if m is None:
        m = _STREAM.match(text)
        return Peeled("log-stream", text[m.end() :], m["name"], f"stream:{m['name']}", False) if m else None
    name, rest = m["pod"], text[m.end() :]
    c = None if LOG_HEAD.match(rest) else _CONTAINER.match(rest)
    if c is None:
        return pod_only(text)
    return Peeled("stern", rest[c.end() :], f"{name}/{c['name']}", f"stern:{c['name']}", False, True)


def pod_only(text: str) -> Peeled | None:
    """The name of a Deployment's pod is plain enough; any other name needs evidence."""
    m = _POD.match(text)
    if m is None:
        return None
    replica = _REPLICA.match(m["pod"]) is not None
    return Peeled("pod", text[m.end() :], m["pod"], "pod" if replica else f"pod:{m['pod']}", replica)


def google_viewer(text: str) -> Peeled | None:
    """Google Cloud's log viewer: `ERROR 2025-…Z [resource.labels.containerName: vllm] msg`."""
    m = _GKE.match(text)
    if m is None:
        return None
    rest = text[m.end() :]
    # The viewer takes the level of `INFO [file.py:12] msg` out of the text: put it back.
    if gap := _LEVELLESS.match(rest):
        rest = f"{gap[1]}{m['level']} {rest[gap.end(1) :]}"
    labels = m["labels"].rstrip()
    source = labels[1:-1].split("] [")[-1].partition(": ")[2]
    return Peeled("google-cloud", rest, source, "google-cloud", bool(labels))


def loki(text: str) -> Peeled | None:
    """What logcli writes behind a time stamp: `{pod="vllm-0", app="x"} msg`."""
    m = _LOKI.match(text)
    if m is None:
        return None
    name = _LOKI_NAME.search(m[0])
    return Peeled("loki", text[m.end() :], name[1] if name else "", "loki", False, True)


# --- CI systems ------------------------------------------------------------------------------------------------

_GH_VIEW = re.compile(rf"(?P<job>[^\t]{{1,200}})\t[^\t]{{1,300}}\t\ufeff?{_STAMP}(?: |$)")
_GH_MARK = re.compile(r"##\[(?P<kind>[a-z-]{1,20})\]")
_SECTION = re.compile(r"(?:[0-9a-f]{2}[OE][ +])?section_(?:start|end):\d{1,12}:[\w.-]{1,200}(?:\[[^\]]{0,200}\])?")
_GITLAB_BARE = re.compile(r"[0-9a-f]{2}[OE](?: |\+|$)")
_JENKINS = re.compile(rf"\[{_STAMP}\](?: |$)")
_BUILDKITE = re.compile(r"_bk;t=\d{13}[\x07\u2407]?")


def gh_run_view(text: str) -> Peeled | None:
    """`gh run view --log`: job TAB step TAB time stamp message."""
    m = _GH_VIEW.match(text)
    return Peeled("github-actions", text[m.end() :], m["job"]) if m else None


def actions_mark(text: str) -> Peeled | None:
    """GitHub and Azure runner marks: `##[group]Run vllm serve`."""
    m = _GH_MARK.match(text)
    return Peeled("github-actions", text[m.end() :], drop=m.end() == len(text)) if m else None


def gitlab(text: str) -> Peeled | None:
    """GitLab's section markers and stream letters."""
    if m := _SECTION.match(text):
        return Peeled("gitlab", text[m.end() :], drop=m.end() == len(text))
    m = _GITLAB_BARE.match(text)
    return Peeled("gitlab", text[m.end() :], key="gitlab", sure=False) if m else None


def jenkins(text: str) -> Peeled | None:
    """`[2024-05-06T10:00:01.123Z] msg` and `[Pipeline] sh`."""
    if m := _JENKINS.match(text):
        return Peeled("jenkins", text[m.end() :])
    return Peeled("jenkins", text[11:]) if text.startswith("[Pipeline] ") else None


def buildkite(text: str) -> Peeled | None:
    """`_bk;t=1715000000000` (its escape and bell are gone by now)."""
    m = _BUILDKITE.match(text)
    return Peeled("buildkite", text[m.end() :]) if m else None


# --- ranks -----------------------------------------------------------------------------------------------------

_RAY = re.compile(
    rf"(?P<keep>(?:{_VLLM_PROCESS} )?)\((?P<who>(?:(?P<name>[A-Za-z_][\w.:<>-]{{0,120}}) )?(?:rank=\d+ )?pid=[\w-]+"
    r"|raylet|autoscaler [+\dhms]+|gcs_server)(?P<ip>, ip=[\w.:-]+)?\)(?: |$)"
)
_VLLM_ONLY = re.compile(_VLLM_PROCESS)
_RAY_NAME = re.compile(r"[a-z_]|.*(?:Ray|Actor|Replica|Controller|Proxy|Runner|Trainer|WorkerDict|HttpServer)")
_REPEATED = re.compile(r" ?\[repeated \d+x across (?:the )?(?:all nodes|cluster)\](?: \(Ray deduplicates.*)?$")
_TORCH_RANK = re.compile(r"\[(?P<rank>rank\d{1,5})\]:(?: |(?=\S)|$)|\[(?P<role>(?!rank)[A-Za-z][\w-]{0,40}\d{1,5})\]:")
_MPI = re.compile(r"\[(?:[\w.@-]{1,200}@)?\d+,(?P<rank>\d+)\]<std(?P<stream>out|err)>:(?P<v5> ?)")
_SRUN = re.compile(r" {0,5}(?P<rank>\d{1,5}): ")
_SRUN_EMPTY = re.compile(r" {0,5}(?P<rank>\d{1,5}):$")
_DJL = re.compile(r"\[?(?:INFO|WARN|ERROR|DEBUG) *\]? PyProcess(?: -)? (?P<name>W-[\w.-]{1,120}): ")


def ray(text: str) -> Peeled | None:
    """`(RayWorkerWrapper pid=123, ip=10.0.0.2) msg`, also behind the prefix of the vLLM process that forwards it."""
    m = _RAY.match(text)
    if m is None:
        return None
    if not m["ip"] and m["name"]:
        own = _VLLM_ONLY.match(text, m.end("keep"))
        if own or not _RAY_NAME.match(m["name"]):
            return None
    rest = _REPEATED.sub("", text[m.end() :])
    return Peeled("ray", m["keep"] + rest, m["who"] + (m["ip"] or "").replace(",", ""))


def torchrun(text: str) -> Peeled | None:
    """`[rank0]: msg` (torch, one space its own), `[default0]:msg` (torchrun --tee, none)."""
    m = _TORCH_RANK.match(text)
    if m is None:
        return None
    if m["rank"]:
        return Peeled("torchrun", text[m.end() :], m["rank"])
    sure = m["role"].startswith(("default", "trainer", "worker"))
    return Peeled("torchrun", text[m.end() :], m["role"], f"torchrun:{m['role']}", sure)


def mpirun(text: str) -> Peeled | None:
    """`[1,0]<stderr>:msg` of mpirun --tag-output; Open MPI 5 names the job and adds a space."""
    m = _MPI.match(text)
    if m is None:
        return None
    end = m.end() if "@" in m[0] else m.start("v5")
    return Peeled("mpirun", text[end:], f"rank{m['rank']}")


def srun(text: str) -> Peeled | None:
    """`0: msg` of srun --label."""
    m = _SRUN.match(text) or _SRUN_EMPTY.match(text)
    return Peeled("srun", text[m.end() :], f"rank{m['rank']}", "srun", False) if m else None


def djl(text: str) -> Peeled | None:
    """DJL serving (SageMaker LMI): `INFO  PyProcess W-93-model-stdout: msg`."""
    m = _DJL.match(text)
    return Peeled("djl", text[m.end() :], m["name"]) if m else None


# --- JSON lines ------------------------------------------------------------------------------------------------

_MESSAGE_KEYS = (
    "log", "message", "msg", "textPayload", "jsonPayload", "body", "Body", "MESSAGE", "event", "line", "LogMessage",
    "@message",
)  # fmt: skip
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
_TRACE_KEYS = ("exc_info", "exception", "stack_trace", "stacktrace", "traceback", "exc_text", "error.stack_trace")
_LEVELS = {
    "WARN": "WARNING", "ERR": "ERROR", "FATAL": "CRITICAL", "CRIT": "CRITICAL", "TRACE": "DEBUG", "NOTICE": "INFO",
    "10": "DEBUG", "20": "INFO", "30": "WARNING", "40": "ERROR", "50": "CRITICAL",
}  # fmt: skip
_SURROGATE = re.compile("[\ud800-\udfff]")
_CUT_JSON = re.compile(r'\{"log": ?"(?P<log>(?:[^"\\]|\\[^u]|\\u[0-9a-fA-F]{4})*)')


def _text_of(value: Any) -> str | None:
    """The message in a value: text, a list of bytes (journald), or an object that holds it (OpenTelemetry, Google)."""
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
        if isinstance(value, (str, int)) and not isinstance(value, bool):
            name = str(value).strip().upper()
            name = _LEVELS.get(name, name)
            return name if name in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL") else ""
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


def json_line(text: str) -> Peeled | None:
    """Docker's json-file and other JSON lines. A JSON object that vLLM or a client printed is none."""
    import json  # noqa: PLC0415 - few logs need it, and it costs every start 2 ms

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
    key = next((key for key in _MESSAGE_KEYS if key in record), "")
    message = _text_of(record.get(key)) if key else None
    if message is None:
        return None
    level = _level_of(record)
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
        return Peeled(name, _whole(message), _source_of(record), part=str(record["stream"]))
    if key == "jsonPayload":
        level, shipped = _level_of(record[key]) or level, False
    if level and not shipped and not LOG_HEAD.match(message):
        message = f"{level} {message}"
    for trace in _TRACE_KEYS:
        if isinstance(extra := record.get(trace), str) and extra.strip():
            message = f"{message.rstrip()}\n{extra.rstrip()}"
            break
    return Peeled(name, _whole(message.removesuffix("\n")), _source_of(record), part=part, last=not part)


def _whole(text: str) -> str:
    """JSON can hold half a surrogate pair, which no output can be encoded with."""
    if _SURROGATE.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


# --- mail and issues -------------------------------------------------------------------------------------------


def quoted(text: str) -> Peeled | None:
    """`> msg` of a mail or an issue."""
    if text.startswith("> ") or text == ">":
        return Peeled("quote", text[2:], key="quote", sure=False)
    return Peeled("quote", text[1:], key="quote", sure=False) if text.startswith(">>") else None


_STRINGS = ("docker-json", "json-lines", "containerd")  # what was inside may hold line ends of its own
_LETTERS: tuple[Wrapper, ...] = (
    gitlab, compose, journald, gh_run_view, google_viewer, djl, process_manager, pod,
)  # fmt: skip
_DIGITS: tuple[Wrapper, ...] = (
    stamped, process_manager, gitlab, compose, clock_wide, clock, srun, journald, gh_run_view, pod,
)  # fmt: skip
_BY_HEAD: dict[str, tuple[Wrapper, ...]] = {
    "{": (json_line, loki),
    "[": (kubectl_prefix, jenkins, torchrun, mpirun, clock_wide, clock, djl, journald),
    "(": (ray,),
    "<": (syslog,),
    ">": (quoted,),
    "#": (actions_mark,),
    "_": (buildkite,),
    "-": (clock,),
    " ": (srun,),
    **dict.fromkeys("0123456789", _DIGITS),
    **dict.fromkeys("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", _LETTERS),
}


class Piece(NamedTuple):
    """A message on its way out: the first physical line, the text so far, the source so far."""

    number: int
    text: str
    source: str = ""
    follows: bool = False  # behind a carriage return: the source of the piece before is its own
    doubt: str = ""  # the key that would have to be proven to go on
    repeats: bool = False


class Unwrapper:
    """Takes wrappers off, one inside the other, and remembers what was proven.

    `unfold` makes the lines of a text that may hold newlines, carriage returns and terminal escapes: it is applied
    to what a JSON string or the parts of a containerd message held.
    """

    def __init__(self, unfold: Callable[[str], list[str]]) -> None:
        self.counts: dict[str, int] = {}
        self.cut = 0  # messages put together from parts that were longer than MAX_PARTIAL
        self._known: set[str] = set()
        self._partial: dict[tuple[str, str, str], tuple[int, list[str], int]] = {}
        self._unfold = unfold

    @property
    def known(self) -> int:
        """How many keys have been proven: it only grows."""
        return len(self._known)

    def learn(self, key: str) -> None:
        """Take `key` for proven from now on, and with it its kind."""
        if len(self._known) < MAX_KNOWN:
            self._known.update((key, key.partition(":")[0]))

    def unwrap(self, piece: Piece, *, final: bool = False, depth: int = 0) -> list[Piece]:
        """The messages in `piece`: none (a marker, or a part), one, or several (a JSON record with newlines).

        One whose `doubt` is set waits for evidence; given again with `final`, it is taken as it stands.
        """
        number, text, source, follows = piece.number, piece.text, piece.source, piece.follows
        composed = False
        while depth < MAX_DEPTH and not BARE.match(text):
            found = self._peel(text)
            if found is not None and found.name == "compose":
                if composed:
                    break  # a table inside a compose log
                composed = True
            if found is not None and not self._proven(found):
                if not final:
                    return [Piece(number, text, source, follows, found.key, found.repeats)]
                found = pod_only(text) if found.name == "stern" else None
                if found is not None and not self._proven(found):
                    found = None
            if found is None:
                break
            depth += 1
            self.counts[found.name] = self.counts.get(found.name, 0) + 1
            if found.source:
                source = f"{found.source} / {source}" if source else found.source
            if found.drop:
                return []
            text = found.rest
            if found.part:
                joined = self._join(number, source, found)
                if joined is None:
                    return []
                number, text = joined
            if found.name in _STRINGS:
                lines = self._unfold(text)
                if len(lines) > 1:
                    pieces = (Piece(number, line, source, follows) for line in lines)
                    return [p for piece in pieces for p in self.unwrap(piece, final=final, depth=depth)]
                text = lines[0]
        return [Piece(number, text, source, follows)]

    def rest(self) -> list[Piece]:
        """At the end of the input: messages whose last part never came."""
        parts = sorted(self._partial.items(), key=lambda item: item[1][0])
        self._partial.clear()
        out: list[Piece] = []
        for (_, source, _), (number, texts, _) in parts:
            for line in self._unfold("".join(texts)):
                out += self.unwrap(Piece(number, line, source), final=True, depth=1)
        return out

    def wrapped(self, text: str) -> bool:
        """Whether something that looks like a wrapper stands in front (proven or not)."""
        return not BARE.match(text) and self._peel(text) is not None

    def evident(self, text: str) -> bool:
        """Whether `text` begins as a log line does, wrapped or not."""
        if LOG_HEAD.match(text):
            return True
        found = None if BARE.match(text) else self._peel(text)
        return found is not None and self._proven(found)

    def _proven(self, found: Peeled) -> bool:
        """By its form, by its name, or because the file has others of its kind."""
        return found.sure or found.key in self._known or (found.repeats and found.name in self._known)

    def _join(self, number: int, source: str, found: Peeled) -> tuple[int, str] | None:
        """Put the parts of one stream's message together: (first line's number, text), or None until it is whole."""
        key = (found.name, source, found.part)
        first, texts, size = self._partial.pop(key, (number, [], 0))
        if found.last and not texts:
            return number, found.rest
        room = MAX_PARTIAL - size
        if 0 < room < len(found.rest) or room == 0 < len(found.rest):
            self.cut += 1
        texts.append(found.rest[: max(room, 0)])
        size = min(size + len(found.rest), MAX_PARTIAL + 1)
        if found.last or len(self._partial) >= MAX_PARTIALS:
            return first, "".join(texts)
        self._partial[key] = (first, texts, size)
        return None

    def _peel(self, text: str) -> Peeled | None:
        """The outermost wrapper; a doubtful one is proven here when a log line stands behind it."""
        doubtful: Peeled | None = None
        for wrapper in _BY_HEAD.get(text[:1], ()):
            found = wrapper(text)
            if found is None:
                continue
            if found.name == "compose" and f"pod:{found.source}" in self._known:
                continue  # the bar is an exception group's
            if found.name == "stern" and "pod" in self._known and found.key not in self._known:
                found = pod_only(text) or found  # pods without a container were seen
            if not self._proven(found) and not self._proof(found.rest):
                doubtful = doubtful or found
                continue
            if found.key and found.key not in self._known:
                self.learn(found.key)
            return found
        return doubtful

    def _proof(self, rest: str) -> bool:
        if LOG_HEAD.match(rest):
            return True
        for wrapper in _BY_HEAD.get(rest[:1], ()):
            found = wrapper(rest)
            if found is not None and (found.sure or LOG_HEAD.match(found.rest)):
                return True
        return False
