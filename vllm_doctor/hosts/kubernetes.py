"""Read the logs of a pod's containers with kubectl, and why Kubernetes ended them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from vllm_doctor.errors import InputError
from vllm_doctor.hosts.client import ByteStream, checked_name, client, followed_by_lines, json_output, stream_output
from vllm_doctor.hosts.states import exit_report
from vllm_doctor.logs.inputs import Log
from vllm_doctor.text.terminal_safe import safe_text

_KINDS = {"pod": "pod", "po": "pod", "statefulset": "statefulset", "sts": "statefulset", "deployment": "deployment",
          "deploy": "deployment", "job": "job", "replicaset": "replicaset", "rs": "replicaset",
          "leaderworkerset": "leaderworkerset", "lws": "leaderworkerset"}
_SELECTORS = {"job": "job-name", "leaderworkerset": "leaderworkerset.sigs.k8s.io/name"}
"""Kinds whose pods carry the name of their owner as a label; the others state a selector."""
_EXAMPLE = "NAMESPACE/POD or NAMESPACE/statefulset/NAME; without NAMESPACE/, kubectl's current one"
_MOST_PODS = 64
_TROUBLES = {"Unhealthy", "Evicted", "FailedScheduling", "FailedMount", "Failed", "BackOff", "OOMKilling",
             "FailedCreatePodSandBox", "Preempted", "NodeNotReady", "ExceededGracePeriod"}


def pod_logs(place: str, container: str = "", *, previous: bool = False) -> Iterator[Log]:
    """Yield the log of each container of the pod (or of the pods of a StatefulSet, Deployment, Job) in `place`.

    Behind each log stand the state in which Kubernetes shows the container and the pod's troubling events, as lines.
    `previous` reads the container before its last restart, where there was one. Raises InputError.
    """
    kubectl = client("kubectl")
    namespace, kind, name = _parts(place)
    in_namespace = [f"--namespace={namespace}"] if namespace else []
    if container:
        checked_name(container, "--container", "vllm")
    pods = _pods([kubectl, "get", *in_namespace, "--output=json"], kind, name)
    found = [(pod, status) for pod in pods for status in _containers(pod) if container in {"", status["name"]}]
    if not found:
        wanted = f"container {container} that has started" if container else "container that has started"
        raise InputError(f"--pod {safe_text(place)}: there is no {wanted}")
    for pod, status in found:
        pod_name = str(pod["metadata"]["name"])
        argv = [kubectl, "logs", *in_namespace, f"--container={status['name']}"]
        if previous and status.get("restartCount"):
            argv.append("--previous")
        events = [kubectl, "get", *in_namespace, "--output=json", "events"]
        behind = partial(_behind, events, pod_name, _end(status, previous=previous))
        name = "/".join((*((namespace,) if namespace else ()), pod_name, status["name"]))
        notes: list[str] = []
        yield Log(ByteStream(followed_by_lines(stream_output([*argv, pod_name], notes), behind), notes), name)


def _parts(place: str) -> tuple[str, str, str]:
    """Return the namespace ("": the current one), the kind and the name. Raises InputError."""
    *before, name = place.split("/")
    kind = before.pop() if before and before[-1].lower() in _KINDS else "pod"
    if len(before) > 1:
        raise InputError(f"--pod {safe_text(place)}: write {_EXAMPLE}")
    namespace = checked_name(before[0], "--pod", _EXAMPLE) if before else ""
    return namespace, _KINDS[kind.lower()], checked_name(name, "--pod", _EXAMPLE)


def _pods(get: list[str], kind: str, name: str) -> list[dict[str, Any]]:
    """Return the pods, by name, as the API describes them; `get` is the command's beginning."""
    if kind == "pod":
        return [json_output([*get, "pod", name])]
    if kind in _SELECTORS:
        selector = f"{_SELECTORS[kind]}={name}"
    else:
        labels = json_output([*get, kind, name]).get("spec", {}).get("selector", {}).get("matchLabels", {})
        selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    pods = json_output([*get, "pods", f"--selector={selector}"]).get("items", []) if selector else []
    if not pods:
        raise InputError(f"{kind} {name}: no pod belongs to it")
    return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))[:_MOST_PODS]


def _containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the status of each container that has started at least once."""
    status = pod.get("status", {})
    return [item for item in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
            if item.get("restartCount") or {"running", "terminated"} & set(item.get("state", {}))]


def _end(status: dict[str, Any], *, previous: bool) -> list[str]:
    """Return how the container ended whose log is read, as lines; none if that one still runs.

    While a container waits for its next start, kubectl shows the log of the one that ended last.
    """
    state = status.get("state", {})
    of_last = "waiting" in state or (previous and status.get("restartCount"))
    over = (status.get("lastState", {}) if of_last else state).get("terminated")
    if not over:
        return []
    return exit_report(f"Container {status['name']}: State: Terminated", over.get("exitCode"), over.get("reason", ""),
                       over.get("message", ""))


def _behind(get_events: list[str], pod: str, end: list[str]) -> Sequence[str]:
    """Return the lines to read behind a container's log: its end, and the pod's events if it may read them."""
    try:
        events = json_output([*get_events, f"--field-selector=involvedObject.name={pod}"]).get("items", [])
    except InputError:  # who may read logs may not always read events
        return end
    lines = []
    for event in sorted(events, key=lambda item: str(item.get("lastTimestamp") or item.get("eventTime") or "")):
        if event.get("type") == "Warning" and event.get("reason") in _TROUBLES:
            text = " ".join(str(event.get("message", "")).split())
            lines.append(f"Warning  {event['reason']}  pod/{pod}  {text}")
    return [*end, *lines]
