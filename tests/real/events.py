"""What happens to a server from outside: the name in a launch -> the deed."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from server import Server, complete, get, post

TOOL = {"type": "function", "function": {"name": "weather", "description": "of a town", "parameters": {
    "type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}}}
CROWD = 24


def name_of(server: Server) -> str:
    """The name of the first model it serves."""
    _, served = get(server.port, "/v1/models")
    return str(served["data"][0]["id"])


def chat(server: Server, **settings: Any) -> tuple[int, Any]:
    """A chat request of one message."""
    body = {"model": name_of(server), "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4, **settings}
    return post(server.port, "/v1/chat/completions", body)


def with_tools(server: Server) -> tuple[int, Any]:
    """A chat request in which the model may choose a tool."""
    return chat(server, tools=[TOOL], tool_choice="auto")


def of_adapter(server: Server) -> tuple[int, Any]:
    """A completion of the adapter that the launches call sql."""
    return post(server.port, "/v1/completions", {"model": "sql", "prompt": "hello", "max_tokens": 4})


def embedding(server: Server) -> tuple[int, Any]:
    """An embedding of a word."""
    return post(server.port, "/v1/embeddings", {"model": name_of(server), "input": "hello"})


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYPhfDwACggGA9hN8kAAAAABJRU5ErkJggg=="}}
SCHEMA = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}


def _of_schema(server: Server, schema: dict[str, Any]) -> tuple[int, Any]:
    """A chat request for JSON of a schema."""
    return chat(server, response_format={"type": "json_schema", "json_schema": {"name": "place", "schema": schema}})


def _without_v1(server: Server) -> None:
    body = {"model": name_of(server), "messages": [{"role": "user", "content": "hello"}]}
    for path in ("/chat/completions", "/v1/v1/chat/completions", "/chat/completions"):
        post(server.port, path, body)


def _crowd(server: Server) -> None:
    with ThreadPoolExecutor(CROWD) as clients:
        list(clients.map(lambda at: complete(server.port, f"{at} hello", max_tokens=200, ignore_eos=True), range(CROWD)))


def _long_request(server: Server) -> None:
    """One that still runs when the next event comes."""
    threading.Thread(target=complete, args=(server.port,), kwargs={"max_tokens": 3000, "ignore_eos": True}, daemon=True).start()
    time.sleep(1)


def _broken_json(server: Server) -> None:
    _send(server, b'{"model": "tiny", "prompt": ')


def _hang_up(server: Server) -> None:
    body = {"model": name_of(server), "prompt": "hello", "max_tokens": 2000, "ignore_eos": True, "stream": True}
    _send(server, json.dumps(body).encode(), answer=200)
    time.sleep(1)


def _send(server: Server, body: bytes, answer: int = 4096) -> None:
    """Send bytes as a completion's body, read a little of the answer and close."""
    head = (f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n")
    with socket.create_connection(("127.0.0.1", server.port), 30) as line:
        line.settimeout(30)
        line.sendall(head.encode() + body)
        line.recv(answer)


def _speak_tls(server: Server) -> None:
    """Open a TLS connection and take what comes."""
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.port), 30) as line:
        unchecked.wrap_socket(line).close()


def _ask_with(server: Server, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> None:
    """A request with these headers, whose names have underscores for dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", body, named, method=method)
    with contextlib.suppress(OSError):
        urllib.request.urlopen(request, timeout=30).close()  # noqa: S310 - this machine only


def _preflight(server: Server) -> None:
    """What a browser asks before a page of another origin may chat."""
    _ask_with(server, "/v1/chat/completions", "OPTIONS", Origin="https://other.example.org", Access_Control_Request_Method="POST")


def _transcription(server: Server) -> None:
    """Speech as a form."""
    fields = {"model": name_of(server).encode(), 'file"; filename="a.wav': b"RIFF$\0\0\0WAVE"}
    body = b"".join(b'--x\r\nContent-Disposition: form-data; name="' + name.encode() + b'"\r\n\r\n' + value + b"\r\n" for name, value in fields.items())
    _ask_with(server, "/v1/audio/transcriptions", "POST", body + b"--x--\r\n", Content_Type="multipart/form-data; boundary=x")


def _body_without_type(server: Server) -> None:
    body = json.dumps({"model": name_of(server), "prompt": "hello"}).encode()
    _ask_with(server, "/v1/completions", "POST", body, Content_Type="text/plain")


def _browser(server: Server) -> None:
    for path in ("/", "/favicon.ico", "/docs"):
        _ask_with(server, path)


def _embed(server: Server, **settings: Any) -> tuple[int, Any]:
    return post(server.port, "/v1/embeddings", {"model": name_of(server), "input": "hello", **settings})


def _terminate_until_it_ends(server: Server) -> None:
    """Some releases lose a SIGTERM while they start; a supervisor sends another."""
    for _ in range(20):
        server.terminate()
        if server.wait_for_end(5):
            return


def _load_adapter(server: Server) -> None:
    """Load the adapter of the launch's folder, ask it, and unload it."""
    folder = server.log.parent.parent / "models" / "adapter"
    post(server.port, "/v1/load_lora_adapter", {"lora_name": "sql", "lora_path": str(folder)})
    of_adapter(server)
    post(server.port, "/v1/unload_lora_adapter", {"lora_name": "sql"})


EVENTS: dict[str, Callable[[Server], Any]] = {
    "chat": chat,
    "completion": lambda server: complete(server.port),
    "stream": lambda server: post(server.port, "/v1/completions", {"model": name_of(server), "prompt": "hello", "stream": True, "max_tokens": 8}),
    "system-message": lambda server: chat(server, messages=[{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]),
    "tools": with_tools,
    "adapter": of_adapter,
    "crowd": _crowd,
    "long-request": _long_request,
    "over-long-request": lambda server: complete(server.port, "a" * 20000),
    "unknown-model": lambda server: post(server.port, "/v1/completions", {"model": "gpt-4", "prompt": "hello"}),
    "broken-json": _broken_json,
    "negative-temperature": lambda server: complete(server.port, temperature=-1),
    "broken-regex": lambda server: chat(server, guided_regex="([a-z", structured_outputs={"regex": "([a-z"}),
    "image": lambda server: chat(server, messages=[{"role": "user", "content": [{"type": "text", "text": "what is it?"}, IMAGE]}]),
    "schema": lambda server: _of_schema(server, SCHEMA),
    "misspelt-schema": lambda server: _of_schema(server, SCHEMA | {"properties": {"town": {"type": "strin"}}}),
    "too-many-tokens": lambda server: chat(server, max_tokens=99999),
    "unknown-token-ids": lambda server: complete(server.port, [1, 9999]),
    "unknown-adapter": lambda server: post(server.port, "/v1/completions", {"model": "law", "prompt": "hello", "max_tokens": 4}),
    "embedding": embedding,
    "without-v1": _without_v1,
    "load-missing-adapter": lambda server: post(server.port, "/v1/load_lora_adapter", {"lora_name": "law", "lora_path": "/models/law"}),
    "hang-up": _hang_up,
    "kill-engine": lambda server: server.signal("VLLM::EngineCore", signal.SIGKILL),
    "terminate-engine": lambda server: server.signal("VLLM::EngineCore", signal.SIGTERM),
    "abort-engine": lambda server: server.signal("VLLM::EngineCore", signal.SIGABRT),
    "kill-api-server": lambda server: server.signal("VLLM::APIServer_1", signal.SIGKILL),
    "segfault-engine": lambda server: server.signal("VLLM::EngineCore", signal.SIGSEGV),
    "kill-server": lambda server: server.signal("bin/vllm serve", signal.SIGKILL),
    "kill-worker": lambda server: server.signal("VLLM::Worker", signal.SIGKILL),
    "load-and-unload-adapter": _load_adapter,
    "path-without-s": lambda server: post(server.port, "/v1/chat/completion", {"model": name_of(server), "messages": []}),
    "speak-tls": _speak_tls,
    "preflight": _preflight,
    "transcription": _transcription,
    "score": lambda server: post(server.port, "/v1/score", {"model": name_of(server), "text_1": "hello", "text_2": ["you", "hello"]}),
    "two-grammars": lambda server: chat(server, structured_outputs={"regex": "[a-z]+", "choice": ["yes", "no"]}),
    "messages-as-text": lambda server: chat(server, messages="hello"),
    "temperature-in-words": lambda server: chat(server, temperature="hot"),
    "body-without-type": _body_without_type,
    "get-of-a-post": lambda server: _ask_with(server, "/v1/chat/completions"),
    "logprobs-50": lambda server: chat(server, logprobs=True, top_logprobs=50),
    "answers-99999": lambda server: chat(server, n=99999),
    "minimum-above-maximum": lambda server: chat(server, min_tokens=9),
    "bias-of-unknown-token": lambda server: chat(server, logit_bias={"9999": 5}),
    "wrong-key": lambda server: _ask_with(server, "/v1/models", Authorization="Bearer secret"),
    "prompt-embeddings": lambda server: post(server.port, "/v1/completions", {"model": name_of(server), "prompt_embeds": "AAAA", "max_tokens": 4}),
    "template-of-the-client": lambda server: chat(server, chat_template="{% for m in messages %}{{ m['content'] }}{% endfor %}"),
    "long-embedding": lambda server: _embed(server, input="a" * 20000),
    "short-embedding": lambda server: _embed(server, dimensions=64),
    "metrics": lambda server: get(server.port, "/metrics", plain=True),
    "browser": _browser,
    "unknown-fields": lambda server: chat(server, enable_thinking=False, conversation="7", top_kk=4),
    "terminate": Server.terminate,
    "terminate-until-it-ends": _terminate_until_it_ends,
    "interrupt": Server.interrupt,
}
