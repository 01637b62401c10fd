"""Senders that are slow, many or large, and logs that take too long: the page still answers the next one."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from vllm_doctor.errors import InputError
from vllm_doctor.options import Options
from vllm_doctor.web import analysis
from vllm_doctor.web import server as web

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "web"))
from test_web import form, post

LOG = (Path(__file__).resolve().parents[2] / "fixtures/logs/fatkv-cpu-space-1.log").read_bytes()


@pytest.fixture
def server() -> Iterator[web.Server]:
    web_server = web.Server()
    thread = threading.Thread(target=web_server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield web_server
    web_server.shutdown()
    web_server.server_close()
    thread.join()


def head(server: web.Server, length: int) -> bytes:
    return (f"POST /{server.token}/report HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"
            f"Content-Length: {length}\r\n\r\n").encode()


def dribble(connection: socket.socket) -> float:
    """Send a head a byte at a time until the other side ends it; how long that took."""
    began = time.monotonic()
    try:
        while time.monotonic() < began + 30:
            connection.sendall(b"a")
            connection.settimeout(0.1)
            try:
                if connection.recv(1) == b"":
                    break
            except TimeoutError:
                continue
    except OSError:
        pass
    return time.monotonic() - began


def test_a_head_that_dribbles_in_holds_no_slot(server: web.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "_HEAD_SECONDS", 1.0)
    monkeypatch.setattr(web, "_CONNECTIONS", 2)
    with socket.create_connection((web.ADDRESS, server.server_port), timeout=30) as connection:
        assert dribble(connection) < 20  # each byte comes in time; the head does not
    assert post(server, form(LOG)).status == 200


def test_posts_together_take_no_more_than_the_room(server: web.Server) -> None:
    room = web._BYTES_AT_ONCE
    held = []
    try:
        for _ in range(room // web.MOST_BYTES):
            connection = socket.create_connection((web.ADDRESS, server.server_port), timeout=30)
            connection.sendall(head(server, web.MOST_BYTES))
            held.append(connection)
        until = time.monotonic() + 30
        while server.room._left > room - len(held) * web.MOST_BYTES and time.monotonic() < until:
            time.sleep(0.01)
        with socket.create_connection((web.ADDRESS, server.server_port), timeout=30) as late:
            late.sendall(head(server, web.MOST_BYTES))
            late.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: late.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.0 503 ")
        assert b"Other logs are being taken. Try again in a moment." in answer
    finally:
        for connection in held:
            connection.close()
    until = time.monotonic() + 30
    while server.room._left < room and time.monotonic() < until:
        time.sleep(0.01)
    assert post(server, form(LOG)).status == 200


def test_an_analysis_that_takes_too_long_is_ended(server: web.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "SECONDS", 0.01)
    answer = post(server, form(LOG))
    assert answer.status == 422
    assert "took more than 0 s" in answer.text
    assert "vllm-doctor diagnose FILE" in answer.text


def test_a_reader_that_dies_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(InputError, match="the analysis failed"):
        analysis.report_page("log", LOG, Options(), 1 << 20)


def test_every_file_of_an_archive_is_on_the_page(server: web.Server, tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.log", LOG)
        archive.writestr("../b.log", b"nothing\n")
    answer = post(server, form(file=(tmp_path / "two.zip").read_bytes(), filename="two.zip"))
    assert answer.status == 200
    assert "two.zip!a.log" in answer.text
    assert "two.zip!../b.log" in answer.text
