"""As much of the Docker Engine API as `docker logs` and `docker inspect` ask for, on a Unix socket."""

from __future__ import annotations

import json
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any


@contextmanager
def serving(socket: Path, containers: dict[str, tuple[dict[str, Any], list[tuple[int, str]]]]) -> Iterator[str]:
    """Serve containers: name -> (state, the pieces of the log as (1 stdout or 2 stderr, text)). Yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._send(b"", 200)

        def do_GET(self) -> None:
            parts = self.path.split("?")[0].strip("/").split("/")
            if parts[-1] == "_ping":
                self._send(b"OK", 200)
                return
            name, what = parts[-2], parts[-1]
            if name not in containers:
                self._send(json.dumps({"message": f"No such container: {name}"}).encode(), 404)
                return
            state, pieces = containers[name]
            if what == "json":
                body = {"Id": name, "Name": f"/{name}", "State": state, "Config": {"Tty": False}}
                self._send(json.dumps(body).encode(), 200)
            else:
                frames = (struct.pack(">BxxxI", stream, len(text.encode())) + text.encode() for stream, text in pieces)
                self._send(b"".join(frames), 200, "application/vnd.docker.multiplexed-stream")

        def _send(self, data: bytes, code: int, kind: str = "application/json") -> None:
            self.send_response(code)
            self.send_header("Api-Version", "1.47")
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def address_string(self) -> str:
            return "socket"

        def log_message(self, *_: object) -> None:
            pass

    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Say nothing of a client that has closed its end before the answer."""

    server = Server(str(socket), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"unix://{socket}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
