"""Pods and containers before a line: kubectl, kubetail, stern, Google Cloud's viewer, Loki, other log viewers.

The name of a Deployment's pod (two hashes) is distinctive. Any other word before a line may be the line's own first
word, so it needs evidence (wrapper_match.py).
"""

from __future__ import annotations

from vllm_doctor.logs.line_prefix import LOG_HEAD, VLLM_PROCESS
from vllm_doctor.logs.wrappers.timestamps import STAMP
from vllm_doctor.logs.wrappers.wrapper_match import WrapperMatch
from vllm_doctor.text.patterns import lazy_pattern

_POD_PREFIX = lazy_pattern(r"\[pod/(?P<name>[^\]\s]{1,300})\](?: |$)")
_KUBETAIL = lazy_pattern(r"\[(?P<name>[a-z0-9][a-z0-9.-]*-[a-z0-9]{5}(?: [a-z0-9][\w-]*)?)\] ")
_POD = lazy_pattern(r"(?P<pod>[a-z0-9][a-z0-9.-]{0,240}-(?:[a-z0-9]{5}|\d{1,4})) ")
REPLICA = lazy_pattern(r".+-(?=[a-z]*\d)[0-9a-f]{6,10}-[a-z0-9]{5}$")
_CONTAINER = lazy_pattern(r"(?P<name>[a-z][a-z0-9-]{0,62}) ")
_GKE = lazy_pattern(
    rf"(?P<level>DEFAULT|DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL|ALERT|EMERGENCY) {STAMP} "
    r"(?P<labels>(?:\[[\w./]{1,80}: [^\]]{0,200}\] ?)*)"
)
_LEVELLESS = lazy_pattern(rf"((?:{VLLM_PROCESS} )?)(\[[\w./-]+\.py:\d+\] )")
_STREAM = lazy_pattern(r"(?P<name>[\w.-]+/[\w./$\[\]-]+) ")
_LOKI = lazy_pattern(r"\{(?:\w+=\"[^\"]{0,200}\"(?:, ?)?)+\} ")
_LOKI_NAME = lazy_pattern(r"\b(?:pod|container|instance|app)=\"([^\"]*)\"")


def kubectl_prefix(text: str) -> WrapperMatch | None:
    """Match `[pod/name/container] msg` of kubectl logs --prefix and `[name-hash container] msg` of kubetail."""
    if text.startswith("[pod/") and (m := _POD_PREFIX.match(text)):
        return WrapperMatch("kubectl", text[m.end() :], m["name"])
    if not text[1:2].isupper() and (m := _KUBETAIL.match(text)):
        source = m["name"].replace(" ", "/")
        return WrapperMatch("kubectl", text[m.end() :], source, f"kubetail:{m['name']}", False, True)
    return None


def pod(text: str) -> WrapperMatch | None:
    """Match stern's `pod container msg`, a bare `pod msg`, and `group/stream msg` of cloud log viewers."""
    first = text.partition(" ")[0]
    m = _POD.match(text) if "-" in first else None
    if m is None:
        m = _STREAM.match(text) if "/" in first else None
        return WrapperMatch("log-stream", text[m.end() :], m["name"], f"stream:{m['name']}", False) if m else None
    name, rest = m["pod"], text[m.end() :]
    c = None if LOG_HEAD.match(rest) else _CONTAINER.match(rest)
    if c is None:
        return pod_only(text)
    return WrapperMatch("stern", rest[c.end() :], f"{name}/{c['name']}", f"stern:{c['name']}", False, True)


def pod_only(text: str) -> WrapperMatch | None:
    """Match a pod's name alone; only the name of a Deployment's pod needs no evidence."""
    m = _POD.match(text)
    if m is None:
        return None
    replica = REPLICA.match(m["pod"]) is not None
    rest = text[m.end() :]
    if text.startswith(" | ", m.end("pod")):  # as compose writes it; a row of an exception group is indented further
        rest = rest.removeprefix("| ")
    return WrapperMatch("pod", rest, m["pod"], "pod" if replica else f"pod:{m['pod']}", replica)


def google_viewer(text: str) -> WrapperMatch | None:
    """Match Google Cloud's log viewer: `ERROR 2025-…Z [resource.labels.containerName: vllm] msg`."""
    m = _GKE.match(text) if text[:4].isupper() else None
    if m is None:
        return None
    rest = text[m.end() :]
    # The viewer removes the level of `INFO [file.py:12] msg` from the text: put it back.
    if gap := _LEVELLESS.match(rest):
        rest = f"{gap[1]}{m['level']} {rest[gap.end(1) :]}"
    labels = m["labels"].rstrip()
    source = labels[1:-1].split("] [")[-1].partition(": ")[2]
    return WrapperMatch("google-cloud", rest, source, "google-cloud", bool(labels))


def loki(text: str) -> WrapperMatch | None:
    """Match the labels that logcli writes after a time stamp: `{pod="vllm-0", app="x"} msg`."""
    m = _LOKI.match(text)
    if m is None:
        return None
    name = _LOKI_NAME.search(m[0])
    return WrapperMatch("loki", text[m.end() :], name[1] if name else "", "loki", False, True)
