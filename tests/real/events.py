"""What happens to a server from outside: the name in a launch -> the deed."""

from __future__ import annotations

import signal
from collections.abc import Callable

from server import Server, complete, get, post


def _chat(server: Server) -> None:
    _, served = get(server.port, "/v1/models")
    body = {"model": served["data"][0]["id"], "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
    post(server.port, "/v1/chat/completions", body)


def _too_long(server: Server) -> None:
    complete(server.port, "a" * 20000)


EVENTS: dict[str, Callable[[Server], None]] = {
    "chat": _chat,
    "over-long-request": _too_long,
    "kill-engine": lambda server: server.signal("VLLM::EngineCore", signal.SIGKILL),
    "kill-worker": lambda server: server.signal("VLLM::Worker", signal.SIGKILL),
    "terminate": Server.terminate,
    "interrupt": Server.interrupt,
}
