"""As much of the Kubernetes API as `kubectl get` and `kubectl logs` ask for, on 127.0.0.1."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

_RESOURCES = {
    "/api/v1": ("v1", [("pods", "Pod", ["po"]), ("pods/log", "Pod", []), ("events", "Event", ["ev"])]),
    "/apis/apps/v1": ("apps/v1", [("statefulsets", "StatefulSet", ["sts"]), ("deployments", "Deployment", ["deploy"])]),
}


class Cluster:
    """Pods and StatefulSets by name, logs by (pod, container, previous), events, and the namespaces asked for."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.statefulsets: dict[str, dict[str, Any]] = {}
        self.logs: dict[tuple[str, str, bool], str] = {}
        self.events: list[dict[str, Any]] = []
        self.namespaces: set[str] = set()  # that were asked for

    def pod(self, name: str, container: str, log: str, *, state: dict[str, Any] | None = None,
            last: dict[str, Any] | None = None, restarts: int = 0, labels: dict[str, str] | None = None) -> None:
        pod = self.pods.setdefault(name, {
            "kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": "serving", "labels": labels or {}},
            "spec": {"containers": []}, "status": {"phase": "Running", "containerStatuses": []}})
        pod["spec"]["containers"].append({"name": container})
        pod["status"]["containerStatuses"].append(
            {"name": container, "restartCount": restarts, "state": state or {"running": {}}, "lastState": last or {}})
        self.logs[name, container, False] = log

    def warn(self, pod: str, reason: str, message: str) -> None:
        self.events.append({
            "kind": "Event", "apiVersion": "v1", "metadata": {"name": f"{pod}.{len(self.events)}", "namespace": "serving"},
            "involvedObject": {"name": pod}, "type": "Warning", "reason": reason, "message": message,
            "lastTimestamp": f"2026-01-01T00:00:{len(self.events):02}Z"})

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        if path == "/api":
            return 200, {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            group = {"groupVersion": "apps/v1", "version": "v1"}
            return 200, {"kind": "APIGroupList", "apiVersion": "v1",
                         "groups": [{"name": "apps", "versions": [group], "preferredVersion": group}]}
        if path in _RESOURCES:
            version, kinds = _RESOURCES[path]
            return 200, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": [
                {"name": name, "singularName": name.rstrip("s"), "namespaced": True, "kind": kind, "shortNames": short,
                 "verbs": ["get", "list"]} for name, kind, short in kinds]}
        parts = path.strip("/").split("/")
        names = parts[parts.index("namespaces") + 2:] if "namespaces" in parts else []
        self.namespaces.update(parts[parts.index("namespaces") + 1:][:1] if names else [])
        if names[:1] == ["pods"] and len(names) == 3:
            return self._log(names[1], query)
        if names[:1] == ["pods"] and len(names) == 2 and names[1] in self.pods:
            return 200, self.pods[names[1]]
        if names == ["pods"]:
            wanted = dict(pair.split("=") for pair in query["labelSelector"][0].split(","))
            items = [pod for pod in self.pods.values() if wanted.items() <= pod["metadata"]["labels"].items()]
            return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
        if names == ["events"]:
            name = query["fieldSelector"][0].split("=")[1]
            items = [event for event in self.events if event["involvedObject"]["name"] == name]
            return 200, {"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": items}
        if names[:1] == ["statefulsets"] and names[1] in self.statefulsets:
            return 200, self.statefulsets[names[1]]
        return 404, _status(404, "NotFound", f'{"/".join(names)} not found')

    def _log(self, pod: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        container, previous = query["container"][0], query.get("previous") == ["true"]
        log = self.logs.get((pod, container, previous))
        if log is None:
            return 400, _status(400, "BadRequest", f'previous terminated container "{container}" in pod "{pod}" not found')
        return 200, log


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code}


@contextmanager
def serving(cluster: Cluster) -> Iterator[str]:
    """Serve the cluster; yield the server's address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            code, body = cluster.answer(url.path, parse_qs(url.query))
            data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
